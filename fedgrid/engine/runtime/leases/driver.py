"""The drivers of a storage: each has a file `drivers/<token>.json`, which its servers look for too.

It says which keys the driver holds. Two drivers can use a storage at the same time unless their keys clash.
"""

import os
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from platform import node
from typing import Any

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.leases.held_file import Observer, read_holder
from fedgrid.engine.runtime.storage.atomic import share_with_group
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock, Patience
from fedgrid.engine.runtime.storage.storage import Storage

FOLDER = "drivers"
"""Folder of the drivers' files."""
SETTLED = "settled"
"""Key of a driver's file: 1 once it has looked for others and goes on, else 0; always as long."""
LATE = 10.0
"""Seconds after which a network file system has shown a new file everywhere."""


@dataclass(frozen=True)
class LeaseKeys:
    """The keys that a driver holds, as with a readers-writer lock.

    Keys are words such as `the grid paper`, which messages show.
    """

    exclusive: AbstractSet[str] = frozenset()
    """Keys for this driver alone, such as the training of each run that is not finished."""
    shared: AbstractSet[str] = frozenset()
    """Keys for any number of drivers that hold them shared, such as each run that must not be deleted."""

    def find_clashes(self, other: "LeaseKeys") -> list[str]:
        """Find the keys that one of the two holds exclusively and the other holds too."""
        return sorted((self.exclusive & (other.exclusive | other.shared)) | (self.shared & other.exclusive))

    def to_json(self) -> dict[str, list[str]]:
        """Convert the keys for a driver's file."""
        return {"exclusive": sorted(self.exclusive), "shared": sorted(self.shared)}


NO_KEYS = LeaseKeys()


@dataclass(frozen=True)
class Driver:
    """A driver of a storage, as its file says."""

    name: str
    """Name of its file, relative to the storage's root."""
    data: bytes
    """All bytes of the file; they change with each renewal."""

    @cached_property
    def about(self) -> dict[str, Any]:
        """Content of the file, empty if it is damaged: the process, `user`, `what`, `since`, the keys."""
        return read_holder(self.data)

    @cached_property
    def keys(self) -> LeaseKeys | None:
        """Its keys; None if the file does not say: it may hold any."""
        with suppress(KeyError, TypeError):
            return LeaseKeys(frozenset(self.about["exclusive"]), frozenset(self.about["shared"]))
        return None

    @property
    def token(self) -> str:
        """Its token, from the name of its file."""
        return PurePosixPath(self.name).stem

    @property
    def is_confirmed(self) -> bool:
        """Whether it has looked for others, and goes on."""
        return bool(self.about.get(SETTLED))

    @property
    def what(self) -> str:
        """Name of its grid."""
        return str(self.about.get("what", "?"))

    @property
    def process(self) -> str:
        """Host and number of its process, for people."""
        return f"{self.about.get('host', '?')}, process {self.about.get('pid', '?')}"

    def __str__(self) -> str:
        if not self.about:
            return f"{self.name}, which is damaged"
        pid, host, user, since = (self.about.get(key, "?") for key in ("pid", "host", "user", "since"))
        return f"grid {self.what} of {user}, process {pid} on {host}, since {since}"


def name_driver_file(token: str) -> str:
    """Build the name of a driver's file, relative to the storage's root."""
    return f"{FOLDER}/{token}.json"


def read_driver_files(storage: Storage) -> list[Driver]:
    """Read the files of all drivers of a storage, including those that are gone.

    Raises:
        OSError, RunError: if the storage cannot be read.
    """
    names = sorted(name for name in storage.list_sizes(FOLDER) if name.endswith(".json"))
    contents = [(name, storage.read(name)) for name in names]
    return [Driver(name, data) for name, data in contents if data is not None]


def list_drivers(storage: Storage) -> list[Driver]:
    """List the drivers of a storage.

    One that has died on another machine is among them until another driver has watched it for a minute.

    Raises:
        OSError, RunError: if the storage cannot be read.
    """
    observer = Observer()
    return [driver for driver in read_driver_files(storage) if not observer.is_gone(driver.name, driver.data)]


def find_driver(storage: Storage, grid: str) -> Driver | None:
    """Find the driver that runs a grid, None if there is none.

    Raises:
        OSError, RunError: if the storage cannot be read.
    """
    return next((driver for driver in list_drivers(storage) if driver.what == grid), None)


def check_driver(storage: Storage, token: str, clock: Clock = CLOCK) -> None:
    """Check that this machine sees the file of the driver with `token`, so that their storage is the same.

    A network file system may show it late, so it is looked for during ten seconds.

    Raises:
        RunError: it does not, so nothing must be written here.
    """
    name = name_driver_file(token)

    def find_file() -> None:
        """Raise FileNotFoundError unless the file is there."""
        with suppress(OSError):  # Reading the folder makes a network file system ask its server again.
            os.listdir(storage.root / FOLDER)
        if storage.read(name) is not None:
            return
        if read_driver_files(storage):
            raise FileNotFoundError(f"node {node()}: {storage} has been taken over from driver {token}")
        raise FileNotFoundError(
            f"node {node()} does not see the driver's {name} in {storage}; mount that folder there (NFS, "
            "say), or give a URI such as s3://bucket/runs as --storage"
        )

    try:
        Patience(LATE, clock=clock).retry_call(find_file, (OSError,))
        share_with_group(storage.root)
    except OSError as error:
        raise RunError(str(error)) from error

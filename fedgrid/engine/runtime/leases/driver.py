"""The drivers of a storage: each has a file `drivers/<token>.json`, which its servers look for too.

It says what the driver changes, needs and deletes. Two drivers can use a storage at the same time unless one
changes or deletes what the other changes, or deletes what the other needs.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from platform import node
from typing import Any, Self

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.leases.held_file import Holder, Observer, holder_of
from fedgrid.engine.runtime.storage.atomic import share_with_group
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock, Patience
from fedgrid.engine.runtime.storage.storage import Storage

GRID = "grid "
"""Start of the key of a grid's name; a run's key is its id."""
FOLDER = "drivers"
EXPIRES_AFTER = 60.0
"""Seconds without a renewal."""
OF_DRIVER = re.compile(rf"{FOLDER}/([0-9a-f]{{16}})\.json", re.ASCII)
SETTLED, CLAIMS, VERSION = "settled", "claims", "format"
LATE = 10.0
"""Seconds after which a network file system has shown a new file everywhere."""


@dataclass(frozen=True)
class Claims:
    """Keys of things in a storage, each with the words for it in a message."""

    changes: Mapping[str, str] = field(default_factory=dict)
    """For one driver alone, such as the grid's own folder and each run that is not finished."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """What must stay, such as the grid's finished runs."""
    deletes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, keys: Any) -> Self:
        """Return the claims of another driver, whose words are not known.

        Raises:
            ValueError: this is not what `as_json` returns.
        """
        try:
            kinds = [{str(key): str(key) for key in keys[kind]} for kind in ("changes", "needs", "deletes")]
        except (KeyError, TypeError) as error:
            raise ValueError("no claims") from error
        return cls(*kinds)

    def as_json(self) -> dict[str, list[str]]:
        """Return the keys of each kind."""
        return {"changes": [*self.changes], "needs": [*self.needs], "deletes": [*self.deletes]}

    def and_grid(self, *names: str) -> "Claims":
        """Return these claims and those on grids of such names."""
        grids = {f"{GRID}{name}": f"the grid {name}" for name in names}
        return Claims({**grids, **self.changes}, self.needs, self.deletes)

    def clash(self, other: "Claims") -> str | None:
        """Return what the other driver does that these claims exclude, None if both can go on."""
        everything = {**other.changes, **other.needs, **other.deletes}
        for verb, mine, theirs in (
            ("works on", self.changes, other.changes),
            ("deletes", {**self.changes, **self.needs}, other.deletes),
            ("needs", self.deletes, everything),
        ):
            if common := [words for key, words in mine.items() if key in theirs]:
                return f"{verb} {common[0]}" + (f" and {len(common) - 1} more" if len(common) > 1 else "")
        return None


NONE = Claims()


@dataclass(frozen=True)
class Driver(Holder):
    """A driver of a storage, as its file says: also `user`, `what`, `since`."""

    name: str
    """Of its file, relative to the storage's root."""
    claims: Claims | None
    """None if it may change any run: of a newer version, or damaged."""

    @property
    def token(self) -> str:
        """What names this driver, from the name of its file."""
        return PurePosixPath(self.name).stem

    @property
    def is_settled(self) -> bool:
        """Whether it has looked for others, and goes on."""
        return self.about.get(SETTLED) is not False

    @property
    def what(self) -> str:
        """Name of the grid."""
        return str(self.about.get("what", "?"))

    @property
    def process(self) -> str:
        """The process, for people."""
        return f"{self.about.get('host', '?')}, process {self.about.get('pid', '?')}"

    def __str__(self) -> str:
        return super().__str__() if self.about else f"{self.name}, which is damaged"

    def is_gone(self, root: Path, observer: Observer) -> bool | None:
        """Return whether it has ended or hangs, None if that needs a later look."""
        return observer.is_gone(root / self.name, self.about, self.text)


def name_of(token: str) -> str:
    """Return the name of a driver's file, relative to the storage's root."""
    return f"{FOLDER}/{token}.json"


def files(storage: Storage) -> list[Driver]:
    """Return the drivers that have a file in a storage, also those that are gone.

    Raises:
        OSError, RunError: if the storage cannot be read.
    """
    names = sorted(name for name in storage.sizes(FOLDER) if OF_DRIVER.fullmatch(name))
    return [driver for name in names if (driver := _read_driver(storage, name)) is not None]


def _read_driver(storage: Storage, name: str) -> Driver | None:
    """Return what a file, which may be damaged, says of its driver; None if there is none."""
    data = storage.read(name)
    if data is None:
        return None
    holder = holder_of(data.decode(errors="replace"))
    claims = None
    if holder.about.get(VERSION) == FORMAT:
        with suppress(ValueError):
            claims = Claims.of_json(holder.about.get(CLAIMS))
    return Driver(holder.text, holder.about, name, claims)


def drivers(storage: Storage) -> list[Driver]:
    """Return the drivers of a storage.

    One that has died on another machine is among them until another driver has watched it for a minute.

    Raises:
        OSError, RunError: if the storage cannot be read.
    """
    observer = Observer(EXPIRES_AFTER)
    return [driver for driver in files(storage) if not driver.is_gone(storage.root, observer)]


def driver_of(storage: Storage, grid: str) -> Driver | None:
    """Return the driver that runs a grid, None if there is none.

    Raises:
        OSError, RunError: if the storage cannot be read.
    """
    return next((driver for driver in drivers(storage) if driver.what == grid), None)


def check_driver(storage: Storage, token: str, clock: Clock = CLOCK) -> None:
    """Check that this machine sees the file of the driver with `token`: their storage is the same.

    A network file system may show it late, so it is looked for for ten seconds.

    Raises:
        RunError: it does not, so nothing must be written here.
    """
    name = name_of(token)

    def look() -> None:
        with suppress(OSError):  # Reading the folder makes a network file system ask its server again.
            os.listdir(storage.root / FOLDER)
        if storage.read(name) is not None:
            return
        if files(storage):
            raise FileNotFoundError(f"node {node()}: {storage} has been taken over from driver {token}")
        raise FileNotFoundError(
            f"node {node()} does not see the driver's {name} in {storage}; mount that folder there (NFS, "
            "say), or give a URI such as s3://bucket/runs as --storage"
        )

    try:
        Patience(LATE, clock=clock).repeat(look, (OSError,))
        share_with_group(storage.root)
    except OSError as error:
        raise RunError(str(error)) from error

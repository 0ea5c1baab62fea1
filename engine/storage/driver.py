"""The driver of a storage, as `lease.json` at its root names it: found, and looked for by its servers."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from platform import node
from typing import Any

from fedgrid.engine.errors import RunError
from fedgrid.engine.storage.atomic import share_with_group
from fedgrid.engine.storage.clock import CLOCK, Clock, Patience
from fedgrid.engine.storage.held_file import Observer, read_holder
from fedgrid.engine.storage.storage import Storage

NAME = "lease.json"
EXPIRES_AFTER = 60.0
"""Seconds without a renewal."""
TOKEN = re.compile(r"[\w-]{1,64}", re.ASCII)
LATE = 10.0
"""Seconds after which a network file system has shown a new file everywhere."""


@dataclass(frozen=True)
class Holder:
    """The driver of a storage."""

    text: str
    """All of the file; it changes with each renewal."""
    found: Mapping[str, Any]
    """What it says, empty if it is damaged: `token`, the identity of the process, `user`, `what`, `since`."""

    @property
    def token(self) -> str:
        """A name of this lease, fit for that of a file; of a damaged one, a digest of the file."""
        token = str(self.found.get("token", ""))
        return token if TOKEN.fullmatch(token) else sha256(self.text.encode()).hexdigest()[:16]

    @property
    def what(self) -> str:
        """Name of the grid."""
        return str(self.found.get("what", "?"))

    @property
    def process(self) -> str:
        """The process, for people."""
        return f"{self.found.get('host', '?')}, process {self.found.get('pid', '?')}"

    def __str__(self) -> str:
        if not self.found:
            return f"{NAME}, which is damaged"
        pid, host, user, since = (self.found.get(key, "?") for key in ("pid", "host", "user", "since"))
        return f"grid {self.what} of {user}, process {pid} on {host}, since {since}"


def holder(storage: Storage) -> Holder | None:
    """Return the driver of a storage, None if there is none.

    If that driver has died on another machine, it is returned until another driver takes its lease.

    Raises:
        RunError: if the storage cannot be read.
    """
    storage.refresh(NAME)
    path = storage.root / NAME
    found = read(path)
    if found is None or Observer(EXPIRES_AFTER).is_gone(path, found.found, found.text):
        return None
    return found


def check_driver(storage: Storage, token: str, clock: Clock = CLOCK) -> None:
    """Check that this machine sees the lease that the driver with `token` holds: their storage is the same.

    A network file system may show it late, so it is looked for for ten seconds.

    Raises:
        RunError: it does not, so nothing must be written here.
    """

    def look() -> None:
        storage.refresh(NAME)
        with suppress(OSError):  # Reading the folder makes a network file system ask its server again.
            os.listdir(storage.root)
        found = read(storage.root / NAME)
        if found is None:
            raise FileNotFoundError(
                f"node {node()} does not see the driver's {NAME} in {storage}; mount that folder there (NFS, "
                "say), or give a URI such as s3://bucket/runs as --storage"
            )
        if found.token != token:
            raise FileNotFoundError(f"node {node()}: {storage} has been taken over by {found}")

    try:
        Patience(LATE, clock=clock).repeat(look, (OSError,))
        share_with_group(storage.root)
    except OSError as error:
        raise RunError(str(error)) from error


def read(path: Path) -> Holder | None:
    """Return what a lease says, None if there is none. A damaged one may still be renewed by its holder."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    try:
        return Holder(text, read_holder(text))
    except ValueError:
        return Holder(text, {})

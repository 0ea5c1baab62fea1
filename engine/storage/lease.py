"""A lease on a storage, in `lease.json` at its root: one driver at a time. It expires unless it is renewed.

A driver takes over an expired lease with a hard link whose name contains the old lease's token. Such a link
can be made only once, so exactly one of several drivers replaces `lease.json`. If the driver that made the
link has died, the next driver takes over from that driver in the same way. A URI has no hard links: two
drivers that start in the same second may both run until one of them finds the other's lease at its next
renewal.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self, TextIO

from fedgrid.engine.errors import ConfigError, FedgridError
from fedgrid.engine.storage.atomic import PARTIAL, disk_errors
from fedgrid.engine.storage.held_file import HeldFile, read_holder
from fedgrid.engine.storage.processes import has_ended
from fedgrid.engine.storage.storage import Storage

NAME = "lease.json"
EXPIRES_AFTER = timedelta(seconds=60)
RENEW_EVERY = 15.0
"""Seconds. Three renewals may fail before the lease expires."""


@dataclass(frozen=True)
class Holder:
    """The driver of a storage. Its JSON has the same length at every renewal."""

    token: str
    host: str
    machine: str
    """Boot and process namespace, in which `pid` is valid."""
    pid: int
    started: str
    """The kernel's start time of that process: the kernel gives numbers to new processes again."""
    what: str
    """Name of the grid."""
    since: str
    expires: str
    """UTC, ISO 8601, to the second."""

    @property
    def is_gone(self) -> bool:
        """Whether the lease has expired, or its process is known to have ended."""
        if datetime.fromisoformat(self.expires) <= datetime.now(UTC):
            return True
        return has_ended(asdict(self)) is True


def holder(storage: Storage) -> Holder | None:
    """Return the driver of a storage, None if there is none.

    Raises:
        RunError: if the storage cannot be read.
    """
    storage.refresh(NAME)
    found = _read(storage.root / NAME)
    return None if found is None or found.is_gone else found


class Lease:
    """Holds a storage for the block of a `with`; a thread renews the lease."""

    def __init__(self, storage: Storage, what: str) -> None:
        """Prepare a lease for the grid `what`; nothing is written yet."""
        self.lost = Event()
        """Set once another driver has taken the storage over: this one must stop."""
        self._storage = storage
        self._what = what
        self._path = storage.root / NAME
        self._file = HeldFile(self._path, RENEW_EVERY)

    def __enter__(self) -> Self:
        """Take the lease.

        Raises:
            ConfigError: if another driver has it.
            RunError: if the storage cannot be written.
        """
        with disk_errors(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._storage.refresh(NAME)
            with self._written() as mine:
                while not self._taken(mine):
                    pass
            self._storage.push(NAME)
            self._storage.refresh(NAME)
        found = _read(self._path)
        if found is None or found.token != self._file.token:
            raise self._refusal(found)
        self._file.start_renewing(self.renew)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.stop_renewing()
        with suppress(OSError, ValueError, FedgridError):  # If it cannot be given back, it expires.
            if self._file.delete_if(self._file.is_ours):
                self._storage.remove(NAME)

    def renew(self) -> bool:
        """Extend the lease by a minute; if it is no longer ours, set `lost` and return False.

        Raises:
            OSError, ValueError, RunError: if the storage cannot be reached, or the lease is damaged; it then
                lasts until it expires.
        """
        self._storage.refresh(NAME)
        if not self._file.renew(_extend):
            self.lost.set()
            return False
        self._storage.push(NAME)
        return True

    @contextmanager
    def _written(self) -> Iterator[Path]:
        """Provide a temporary file with this lease, to link and to replace others with."""
        now = datetime.now(UTC)
        expires = _text(now + EXPIRES_AFTER)
        new = Holder(**self._file.holder(), what=self._what, since=_text(now), expires=expires)
        mine = self._path.with_name(f"{NAME}{PARTIAL}{self._file.token}")
        try:
            mine.write_text(json.dumps(asdict(new)) + "\n")
            yield mine
        finally:
            mine.unlink(missing_ok=True)

    def _taken(self, mine: Path) -> bool:
        """Try to take the lease; return False if another driver interfered and the caller must try again."""
        if _linked(mine, self._path):
            return True
        stale = _read(self._path)
        if stale is None:
            return False
        claims: list[Path] = []
        last = stale
        while True:
            if not last.is_gone:
                raise self._refusal(last)
            claims.append(self._path.with_name(f"{NAME}.after-{last.token}"))
            if _linked(mine, claims[-1]):
                break
            claimant = _read(claims[-1])
            if claimant is None:
                return False
            last = claimant
        now = _read(self._path)
        is_ours = now is not None and now.token == stale.token
        if is_ours:
            # The claim disappears in this replacement. As long as it exists, no other driver can get here.
            os.replace(claims[-1], self._path)
            claims.pop()
        for claim in claims if is_ours else claims[-1:]:
            claim.unlink(missing_ok=True)
        return is_ours

    def _refusal(self, found: Holder | None) -> ConfigError:
        if found is None:
            return ConfigError(f"{self._storage}: another fedgrid has just taken it; try again")
        return ConfigError(
            f"{self._storage} is in use: grid {found.what}, process {found.pid} on {found.host}, since "
            f"{_readable(found.since)}; wait, or `fedgrid stop {found.what}`; if that machine is gone, the "
            f"storage is free at {_readable(found.expires)}"
        )


def _extend(file: TextIO) -> None:
    """Write a later expiry into an open lease."""
    file.seek(0)
    renewed = {**read_holder(file), "expires": _text(datetime.now(UTC) + EXPIRES_AFTER)}
    os.pwrite(file.fileno(), (json.dumps(renewed) + "\n").encode(), 0)
    os.fsync(file.fileno())


def _linked(mine: Path, path: Path) -> bool:
    """Link a file to a name; return False if that name exists."""
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    return True


def _read(path: Path) -> Holder | None:
    try:
        with path.open() as file:
            return Holder(**read_holder(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} is damaged; delete it if no other fedgrid uses this storage") from error


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _readable(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"

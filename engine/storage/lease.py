"""A lease on a storage, in `lease.json` at its root: one driver at a time. It expires unless it is renewed.

A lease has expired if it has not changed for a minute by the clock of the driver that wants it. If its holder
is a process of this machine, that is known at once. One of several drivers takes over an expired lease (see
`takeover`). A URI has no hard links, and pyarrow no write that fails if there is a file: two drivers that
start in the same second may both take it. The one that wrote last keeps it; the other finds that out when it
looks again, before its first run (`confirm`) or at its next renewal.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from pwd import getpwuid
from threading import Event
from types import TracebackType
from typing import Self, TextIO

from fedgrid.engine.errors import ConfigError, FedgridError, RunError
from fedgrid.engine.storage.atomic import PARTIAL, disk_errors, share_with_group
from fedgrid.engine.storage.clock import CLOCK, Clock
from fedgrid.engine.storage.driver import EXPIRES_AFTER, NAME, Holder, read
from fedgrid.engine.storage.held_file import RENEWED, HeldFile, Observer, read_holder
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.takeover import OnlyOwnerError, take

RENEW_EVERY = 15.0
"""Seconds. Three renewals may fail before the lease expires."""
LOOK_EVERY = 3.0
"""Seconds between two looks at a lease that may have expired."""


class Lease:
    """Holds a storage for the block of a `with`; a thread renews the lease."""

    def __init__(
        self,
        storage: Storage,
        what: str,
        notify: Callable[[str], None] = lambda _: None,
        clock: Clock = CLOCK,
    ) -> None:
        """Prepare a lease for the grid `what`; nothing is written yet.

        Args:
            notify: gets a line if taking the lease takes up to a minute, as the last holder may be alive.
            clock: measures that minute.
        """
        self.lost = Event()
        """Set once another driver has taken the storage over: this one must stop."""
        self._storage = storage
        self._what = what
        self._notify = notify
        self._clock = clock
        self._path = storage.root / NAME
        self._file = HeldFile(self._path, RENEW_EVERY)
        self._observer = Observer(EXPIRES_AFTER, clock)

    @property
    def token(self) -> str:
        """What `lease.json` contains while this object holds it: other machines of the grid look for it."""
        return self._file.token

    def __enter__(self) -> Self:
        """Take the lease; where the last holder may have died, wait for a minute without a renewal.

        Raises:
            ConfigError: if another driver has it.
            RunError: if the storage cannot be written.
        """
        with disk_errors(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            share_with_group(self._path.parent)
            self._storage.refresh(NAME)
            with self._temporary() as mine:
                while not self._taken(mine):
                    pass
            self._storage.push(NAME)
            self._storage.refresh(NAME)
        found = read(self._path)
        if found is None or found.token != self.token:
            raise ConfigError(f"{self._storage}: another fedgrid has just taken it; try again")
        self._file.start_renewing(self.renew)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.stop_renewing()
        with suppress(OSError, ValueError, FedgridError):  # If it cannot be given back, it expires.
            self._storage.refresh(NAME)
            if self._file.delete():
                self._storage.remove(NAME)

    def check(self) -> None:
        """Check that no other driver has taken the storage over.

        Raises:
            RunError: one has.
        """
        if self.lost.is_set():
            raise RunError("another fedgrid has taken over this storage, so this one ends; nothing is lost")

    def confirm(self) -> None:
        """Look at the lease once more at a URI, some time after taking it and before anything is computed.

        Another driver may have looked before this one's lease was there, and have written its own after it.

        Raises:
            RunError: it has; or the storage cannot be reached.
        """
        if self._storage.uri:
            self.renew()
            self.check()

    def renew(self) -> bool:
        """Extend the lease by a minute; if it is no longer ours, set `lost` and return False.

        Raises:
            OSError, ValueError, RunError: if the storage cannot be reached, or the lease is damaged; it then
                lasts until it expires.
        """
        begun = self._clock.now()
        self._storage.refresh(NAME)
        if not self._file.renew(self._extend):
            self.lost.set()
            return False
        # A process that was stopped in between must look again: another driver may have the lease by now.
        if self._clock.now() - begun < EXPIRES_AFTER / 2:
            self._storage.push(NAME)
        return True

    def _extend(self, file: TextIO) -> None:
        """Write the time into an open lease, whose length stays the same."""
        file.seek(0)
        renewed = {**read_holder(file.read()), RENEWED: self._now()}
        os.pwrite(file.fileno(), (json.dumps(renewed) + "\n").encode(), 0)
        os.fsync(file.fileno())

    def _now(self) -> str:
        return f"{self._clock.now():020.6f}"

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        """Provide the path of a temporary file with this lease, to link and to replace others with."""
        mine = self._path.with_name(f"{NAME}{PARTIAL}{self.token}")
        try:
            yield mine
        finally:
            mine.unlink(missing_ok=True)

    def _taken(self, mine: Path) -> bool:
        """Try to take the lease; return False if it may be free later, and the caller must try again."""
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        new = {**self._file.holder(), "user": _user(), "what": self._what, "since": since}
        mine.write_text(json.dumps({**new, RENEWED: self._now()}) + "\n")
        try:
            return take(mine, self._path, self._is_gone)
        except OnlyOwnerError as error:
            raise ConfigError(
                f"{self._path} is left by {error.holder}; in this folder only its owner can delete it: ask "
                "for that, or name another --storage"
            ) from error

    def _is_gone(self, found: Holder, path: Path) -> bool:
        """Return whether a holder is gone; if that cannot be said yet, pause before the next look.

        Raises:
            ConfigError: it is there.
        """
        is_gone = self._observer.is_gone(path, found.found, found.text)
        if is_gone is False:
            raise self._refusal(found)
        if is_gone is None:
            self._announce(found)
            self._clock.pause(LOOK_EVERY)
            self._storage.refresh(NAME)
        return bool(is_gone)

    def _refusal(self, found: Holder) -> ConfigError:
        is_mine = found.found.get("user") == _user()
        stop = f", `fedgrid stop {found.what}`" if is_mine else ""
        return ConfigError(f"{self._storage} is in use: {found}; wait{stop}, or name another --storage")

    def _announce(self, found: Holder) -> None:
        notify, self._notify = self._notify, lambda _: None
        notify(
            f"{self._storage} may be in use: {found}; taken over unless it renews within {EXPIRES_AFTER:g} s"
        )


def _user() -> str:
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:  # A container, say.
        return f"user {os.getuid()}"

"""A driver's lease on a part of a storage, in `drivers/<token>.json`. It expires unless it is renewed.

The file says what the driver claims: its grid, the runs that it trains, those that must stay. Several drivers
use a storage at the same time if their claims allow it (`Claims`). A driver writes its file first, looks
at those of the others then, and writes again that it has settled. Of two whose claims clash, the one that
looks last sees the other. If neither has settled yet, the one with the smaller token goes on, once the other
has withdrawn.

A lease has expired if it has not changed for a minute by the clock of the driver that looks at it. If its
holder is a process of this machine, that is known at once. The next driver whose claims clash with it deletes
it then, and so does every driver that renews its own.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from secrets import token_hex
from threading import Event, Lock
from types import TracebackType
from typing import Self, TextIO

from fedgrid.engine.federation.errors import ConfigError, DeniedError, FedgridError, RunError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.leases.driver import (
    CLAIMS,
    EXPIRES_AFTER,
    FOLDER,
    NONE,
    SETTLED,
    VERSION,
    Claims,
    Driver,
    files,
    name_of,
)
from fedgrid.engine.runtime.leases.held_file import HeldFile, Observer, renew_stamp, stamp_text
from fedgrid.engine.runtime.leases.processes import user_name
from fedgrid.engine.runtime.storage.atomic import disk_errors, share_with_group, write_text
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock, Patience
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import GIVE_UP_AFTER, Storage

RENEW_EVERY = EXPIRES_AFTER / 4
"""Seconds. Three renewals may fail before the lease expires."""
LOOK_EVERY = 3.0
"""Seconds between two looks at a lease that may have expired."""
SOON = 0.1
"""Seconds between two looks at a driver that starts at the same moment."""


class Lease:
    """Holds a part of a storage for the block of a `with`; a thread renews the lease."""

    def __init__(
        self,
        storage: Storage,
        what: str,
        claims: Claims = NONE,
        notify: Callable[[str], None] = lambda _: None,
        clock: Clock = CLOCK,
    ) -> None:
        """Prepare a lease for the grid `what` and further claims; nothing is written yet.

        `notify` gets a line if taking the lease takes up to a minute, as the last holder may be alive.
        """
        self.lost = Event()
        """Set once another driver has taken the storage over: this one must stop."""
        self._storage = storage
        self._what = what
        self._claims = claims.and_grid(what)
        self._notify = notify
        self._clock = clock
        self._since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.token = token_hex(8)
        """What the name of its file contains: other machines of the grid look for it."""
        self._name = name_of(self.token)
        self._file = HeldFile(storage.root / self._name, RENEW_EVERY, self.token)
        self._writing = Lock()
        self._observer = Observer(EXPIRES_AFTER, clock)

    def __enter__(self) -> Self:
        """Take the lease; where the holder of a clashing one may have died, wait for a minute.

        Raises:
            ConfigError: if another driver has claimed the same, or the storage may not be written.
            RunError: if the storage cannot be read or written at present.
        """
        root = self._storage.root
        try:
            with disk_errors(root):
                share_with_group(root)
                root.mkdir(parents=True, exist_ok=True)
                (root / FOLDER).mkdir(exist_ok=True)
                try:
                    while not self._try_to_settle():
                        pass
                except BaseException:
                    self._withdraw()
                    raise
        except DeniedError as error:
            raise ConfigError(f"--storage {error}") from error
        self._file.start_renewing(self.renew)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.stop_renewing()
        self._withdraw()

    def check(self) -> None:
        """Check that no other driver has taken over what this one has claimed.

        Raises:
            RunError: one has.
        """
        if self.lost.is_set():
            raise RunError("another fedgrid has taken over this storage, so this one stops; nothing is lost")

    def confirm(self) -> None:
        """Look once more at a URI, some time after taking the lease and before anything is computed.

        Raises:
            RunError: another driver has taken it over; or the storage cannot be reached.
        """
        if self._storage.uri:
            self.renew()
            self.check()

    def extend(self, claims: Claims) -> None:
        """Claim `claims` instead of the earlier ones, which they include.

        Raises:
            ConfigError: if another driver has claimed the same; this one must end.
            RunError: if the storage cannot be read or written.
        """
        self._claims = claims.and_grid(self._what)
        patience = Patience(GIVE_UP_AFTER, self._notify, self._clock)
        with disk_errors(self._storage.root):
            patience.repeat(lambda: self._write(settled=True), (OSError, RunError))
            while not patience.repeat(lambda: self._is_free(settled=True), (OSError, RunError)):
                pass

    def others(self) -> list[Driver]:
        """Return the other drivers of this storage, except those that are known to be gone.

        Raises:
            OSError, RunError: if the storage cannot be read.
        """
        return [other for other in self._files() if not other.is_gone(self._storage.root, self._observer)]

    def renew(self) -> bool:
        """Extend the lease by a minute; if it is no longer ours, set `lost` and return False.

        Drivers that are gone are deleted.

        Raises:
            OSError, ValueError, RunError: if the storage cannot be reached, or the lease is damaged; it then
                lasts until it expires.
        """
        begun = self._clock.now()
        with self._writing:
            self._storage.refresh(self._name)
            is_ours = self._file.renew(self._extend)
            # A process that was stopped in between must look again: another driver may have the lease by now.
            if is_ours and self._clock.now() - begun < EXPIRES_AFTER / 2:
                self._storage.push(self._name)
        if not is_ours or self._is_overtaken():
            self.lost.set()
            return False
        return True

    def _extend(self, file: TextIO) -> None:
        renew_stamp(file, self._clock)

    def _write(self, *, settled: bool) -> None:
        about = {"user": user_name(), "what": self._what, "since": self._since, VERSION: FORMAT}
        claims = {SETTLED: settled, CLAIMS: self._claims.as_json()}
        content = stamp_text({**self._file.holder(), **about, **claims}, self._clock)
        with self._writing:
            write_text(self._file.path, content)
            self._storage.push(self._name)

    def _withdraw(self) -> None:
        with suppress(OSError, ValueError, FedgridError):  # If it cannot be given back, it expires.
            self._storage.refresh(self._name)
            if self._file.delete():
                self._storage.remove(self._name)

    def _try_to_settle(self) -> bool:
        """Try to take the lease; return False if that must be tried again."""
        begun = self._clock.now()
        self._write(settled=False)
        if not self._is_free():
            return False
        # A process that was stopped in between must look again: another driver may have the lease by now.
        if self._clock.now() - begun > EXPIRES_AFTER / 2:
            return False
        self._write(settled=True)
        return True

    def _files(self) -> list[Driver]:
        return [driver for driver in files(self._storage) if driver.name != self._name]

    def _is_free(self, *, settled: bool = False) -> bool:
        """Return whether no other driver has claimed the same; if that cannot be said yet, pause."""
        for other in self._files():
            clash = self._clash(other)
            if clash is None:
                continue
            is_gone = other.is_gone(self._storage.root, self._observer)
            if is_gone:
                self._delete(other)
            elif is_gone is None:
                self._announce(other)
                self._clock.pause(LOOK_EVERY)
                return False
            elif settled or other.is_settled or other.token < self.token:
                raise self._refusal(other, clash)
            else:
                self._clock.pause(SOON)
                return False
        return True

    def _is_overtaken(self) -> bool:
        """Return whether a driver with a smaller token has claimed the same; delete those that are gone."""
        is_overtaken = False
        for other in self._files():
            if other.is_gone(self._storage.root, self._observer):
                self._delete(other)
            elif other.claims is not None and other.is_settled and other.token < self.token:
                is_overtaken |= self._claims.clash(other.claims) is not None
        return is_overtaken

    def _clash(self, other: Driver) -> str | None:
        if other.claims is None:
            return (
                "is of another version, which uses the storage exclusively"
                if other.about
                else "may change any run"
            )
        return self._claims.clash(other.claims)

    def _delete(self, gone: Driver) -> None:
        """Delete the file of a driver that is gone, unless it has changed. If that fails, it stays."""
        with suppress(PermissionError):
            if self._storage.read(gone.name) == gone.text.encode():
                (self._storage.root / gone.name).unlink(missing_ok=True)
                self._storage.remove(gone.name)

    def _refusal(self, other: Driver, clash: str) -> ConfigError:
        is_mine = other.about.get("user") == user_name()
        stop = f", `{command(self._storage, 'stop', other.what)}`" if is_mine else ""
        reason = "" if other.what == self._what else f", {clash}"
        return ConfigError(
            f"{self._storage} is in use: {other}{reason}; wait{stop}, or name another --storage"
        )

    def _announce(self, other: Driver) -> None:
        notify, self._notify = self._notify, lambda _: None
        notify(
            f"{self._storage} may be in use: {other}; taken over unless it renews within {EXPIRES_AFTER:g} s"
        )

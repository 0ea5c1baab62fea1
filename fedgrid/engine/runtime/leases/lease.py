"""A driver's lease on a part of a storage, in `drivers/<token>.json`. It expires unless it is renewed.

Several drivers use a storage at the same time if their keys do not clash (`Keys`). A driver writes its file
first, then reads those of the others, and then writes into its own that it has settled. Of two that clash,
the one that reads last sees the other. If neither has settled yet, the one with the smaller token goes on,
once the other has withdrawn.

A driver whose file is deleted has lost its lease. Another driver deletes it once its holder is gone, as it
takes or renews its own: where the machine is another one, after it has not changed for a minute.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from secrets import token_hex
from threading import Event, Lock
from types import TracebackType
from typing import Self

from fedgrid.engine.federation.errors import ConfigError, DeniedError, FedgridError, RunError
from fedgrid.engine.runtime.leases.driver import (
    NO_KEYS,
    SETTLED,
    Driver,
    LeaseKeys,
    name_driver_file,
    read_driver_files,
)
from fedgrid.engine.runtime.leases.held_file import EXPIRES_AFTER, HeldFile, Observer
from fedgrid.engine.runtime.leases.processes import find_user_name
from fedgrid.engine.runtime.storage.atomic import disk_errors, share_with_group
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock, Patience
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import GIVE_UP_AFTER, Storage

LOOK_EVERY = 1.0
"""Seconds between two looks at a driver that may be gone, or that starts at the same moment."""


class Lease(HeldFile):
    """Holds keys of a storage for the block of a `with`; a thread renews the lease."""

    def __init__(
        self,
        storage: Storage,
        what: str,
        keys: LeaseKeys = NO_KEYS,
        notify: Callable[[str], None] = lambda _: None,
        clock: Clock = CLOCK,
    ) -> None:
        """Prepare a lease on a grid, exclusively, and on further keys; nothing is written yet.

        Args:
            storage: The storage.
            what: Name of the grid.
            keys: Further keys; none by default.
            notify: Receives a line if taking the lease takes up to a minute, as the last holder may be alive.
            clock: The source of time.
        """
        # Other machines of the grid look for a file of this name.
        token = token_hex(8)
        self._name = name_driver_file(token)
        super().__init__(storage.root / self._name, token, clock)
        self.lost = Event()
        """Set once another driver has taken the storage over: this one must stop."""
        self._storage = storage
        self._what = what
        self._notify = notify
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.content = {"user": find_user_name(), "what": what, "since": since}
        self._keys = self._add_grid(keys)
        self._writing = Lock()
        self._observer = Observer(clock)

    def __enter__(self) -> Self:
        """Take the lease; where the holder of a clashing one may have died, wait for a minute.

        Raises:
            ConfigError: if the keys clash with those of another driver, or the storage may not be written.
            RunError: if the storage cannot be read or written at present.
        """
        root = self._storage.root
        try:
            with disk_errors(root):
                share_with_group(root)
                try:
                    while not self._try_to_settle():
                        pass
                except BaseException:
                    self.release()
                    raise
        except DeniedError as error:
            raise ConfigError(f"--storage {error}") from error
        self.start_renewing()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def check_ownership(self) -> None:
        """Check that no other driver has taken over what this one holds.

        Raises:
            RunError: one has.
        """
        if self.lost.is_set():
            raise RunError("another fedgrid has taken over this storage, so this one stops; nothing is lost")

    def replace_keys(self, keys: LeaseKeys) -> None:
        """Hold the grid and `keys` instead of the earlier ones.

        Raises:
            ConfigError: if they clash with those of another driver; this one must end.
            RunError: if the storage cannot be read or written.
        """
        self._keys = self._add_grid(keys)
        patience = Patience(GIVE_UP_AFTER, self._notify, self._clock)
        with disk_errors(self._storage.root):
            # The new keys are written before others are read, as on taking the lease: of two drivers that
            # change theirs at once, at least one sees the clash.
            patience.retry_call(lambda: self._write_file(settled=True), (OSError, RunError))
            while not patience.retry_call(self._is_free, (OSError, RunError)):
                pass

    def release(self) -> None:
        """Give the lease back."""
        super().release()
        with suppress(FedgridError):  # If it cannot be deleted, it expires.
            self._storage.remove(self._name)

    def renew(self) -> bool:
        """Extend the lease by a minute; if it is no longer ours, set `lost` and return False.

        Raises:
            OSError, RunError: if the storage cannot be reached; the lease then lasts until it expires.
        """
        # Two drivers may both have settled if one of them was stopped for long in between. Then the one with
        # the larger token gives way.
        if self._renew_file() and not any(
            other.is_confirmed and other.token < self.token for other, _ in self._find_clashing()
        ):
            return True
        self.lost.set()
        return False

    def _add_grid(self, keys: LeaseKeys) -> LeaseKeys:
        """Add the grid's own key to keys."""
        return LeaseKeys(keys.exclusive | {f"the grid {self._what}"}, keys.shared)

    def _write_file(self, *, settled: bool) -> None:
        """Write the driver's file with its keys, here and at the URI."""
        with self._writing:
            self.content |= {SETTLED: int(settled), **self._keys.to_json()}
            self._storage.put({self._name: self.format_text().encode()})

    def _renew_file(self) -> bool:
        """Renew the file; return False if another driver has deleted it."""
        with self._writing:
            while True:
                begun = self._clock.now()
                # At a URI the file that counts is there: another driver deletes it there, and the mirror
                # follows.
                self._storage.refresh(self._name)
                if not super().renew():
                    return False
                # A process that was stopped in between looks again: another driver may have deleted the file.
                if self._clock.now() - begun < EXPIRES_AFTER / 2:
                    self._storage.push(self._name)
                    return True

    def _try_to_settle(self) -> bool:
        """Try to take the lease; return False if that must be tried again."""
        # 1. Announce the keys, so that drivers that read from now on see them.
        self._write_file(settled=False)
        # 2. Read the others' files. Each driver announces before it reads, so two that clash cannot both miss
        # the other.
        if not self._is_free():
            return False
        # 3. Settle by a renewal, which fails if another driver has deleted the file meanwhile.
        self.content[SETTLED] = 1
        return self._renew_file()

    def _is_free(self) -> bool:
        """Check whether no other driver's keys clash; if that cannot be said yet, pause and return False.

        Raises:
            ConfigError: they clash with those of a driver that goes on.
        """
        for other, is_gone in self._find_clashing():
            if is_gone is None:
                self._notify_once(other)
            elif other.is_confirmed or other.token < self.token:
                raise self._build_refusal(other)
            self._clock.pause(LOOK_EVERY)
            return False
        return True

    def _find_clashing(self) -> Iterator[tuple[Driver, bool | None]]:
        """Yield the other drivers whose keys clash, and False, or None for those that may be gone.

        Files of those that are gone are deleted.
        """
        for other in read_driver_files(self._storage):
            if other.name == self._name:
                continue
            is_gone = self._observer.is_gone(other.name, other.data)
            if is_gone:
                self._delete_file(other)
            elif other.keys is None or self._keys.find_clashes(other.keys):
                yield other, is_gone

    def _delete_file(self, gone: Driver) -> None:
        """Delete the file of a driver that is gone, unless it has changed; if that fails, it stays."""
        with suppress(PermissionError, DeniedError):
            if self._storage.read(gone.name) == gone.data:
                self._storage.remove(gone.name)

    def _build_refusal(self, other: Driver) -> ConfigError:
        """Build the error that names the other driver, and what to do."""
        is_mine = other.about.get("user") == find_user_name()
        stop = f", `{format_command(self._storage, 'stop', other.what)}`" if is_mine else ""
        reason = "" if other.what == self._what else f", {self._describe_clash(other)}"
        return ConfigError(
            f"{self._storage} is in use: {other}{reason}; wait{stop}, or name another --storage"
        )

    def _describe_clash(self, other: Driver) -> str:
        """Describe which keys clash, those that the other driver holds exclusively first."""
        if other.keys is None:
            return "may change any run"
        theirs = other.keys.exclusive
        first, *more = sorted(self._keys.find_clashes(other.keys), key=lambda key: (key not in theirs, key))
        verb = "works on" if first in theirs else "needs"
        return f"{verb} {first}" + (f" and {len(more)} more" if more else "")

    def _notify_once(self, other: Driver) -> None:
        """Notify the user once that taking the lease may take a minute."""
        notify, self._notify = self._notify, lambda _: None
        notify(
            f"{self._storage} may be in use: {other}; taken over unless it renews within {EXPIRES_AFTER:g} s"
        )

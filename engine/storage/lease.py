"""One driver at a time: a lease on a storage that expires, in `lease.json` at its root.

Whoever takes a lease over links a claim that names the lease it follows. A link exists once, so of
several only one may replace `lease.json`; a claimant that died is followed in the same way. At a URI
there is nothing that exists once: two drivers that start in the same second may both go on, until one of
them finds the other's lease at its next renewal.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from platform import node
from secrets import token_hex
from threading import Event, Thread
from types import TracebackType
from typing import Self

from fedgrid.engine.errors import ConfigError, FedgridError
from fedgrid.engine.storage.atomic import PARTIAL, disk_errors
from fedgrid.engine.storage.processes import is_gone, machine, start_time
from fedgrid.engine.storage.storage import Storage

NAME = "lease.json"
EXPIRES_AFTER = timedelta(seconds=60)
RENEW_EVERY = 15.0
"""Seconds: a lease outlives three renewals that the storage refuses."""


@dataclass(frozen=True)
class Holder:
    """Who drives a storage; as JSON, of the same length at every renewal."""

    token: str
    host: str
    machine: str
    """Boot and process namespace: only where they are the same does `pid` mean anything."""
    pid: int
    started: str
    """The kernel's start time of that process: a number may be another process's by now."""
    what: str
    since: str
    expires: str
    """UTC, ISO 8601, to the second."""

    @property
    def is_gone(self) -> bool:
        """Whether the lease has expired, or its process is known to be no more."""
        if datetime.fromisoformat(self.expires) <= datetime.now(UTC):
            return True
        return (self.host, self.machine) == (node(), machine()) and is_gone(self.pid, self.started)


def holder(storage: Storage) -> Holder | None:
    """Return who drives a storage at present, None if nobody does.

    Raises:
        RunError: if the storage cannot be read.
    """
    storage.refresh(NAME)
    found = _read(storage.root / NAME)
    return None if found is None or found.is_gone else found


class Lease:
    """Holds a storage for the block of a `with`; a thread of its own renews it."""

    def __init__(self, storage: Storage, what: str) -> None:
        """Prepare a lease for the grid `what`; nothing is written yet."""
        self.lost = Event()
        """Set once another driver has taken the storage over: this one must stop."""
        self._storage = storage
        self._what = what
        self._token = token_hex(8)
        self._path = storage.root / NAME
        self._ended = Event()
        self._thread = Thread(target=self._renew_until_ended, name="lease", daemon=True)

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
        holder = _read(self._path)
        if holder is None or holder.token != self._token:
            raise self._refusal(holder)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(OSError, FedgridError):  # What cannot be given back expires.
            holder = _read(self._path)
            if holder is not None and holder.token == self._token:
                self._path.unlink(missing_ok=True)
                self._storage.remove(NAME)

    def renew(self) -> None:
        """Put the expiry off by a minute, or set `lost` if the lease is no longer ours.

        Raises:
            OSError, RunError: if the storage cannot be reached; the lease then lasts until it expires.
        """
        self._storage.refresh(NAME)
        try:
            # Written into the file that was read: should it be replaced meanwhile, the new one is unharmed.
            with self._path.open("r+") as file:
                holder = Holder(**json.load(file))
                if holder.token != self._token:
                    self.lost.set()
                    return
                renewed = replace(holder, expires=_text(datetime.now(UTC) + EXPIRES_AFTER))
                os.pwrite(file.fileno(), _json(renewed).encode(), 0)
                os.fsync(file.fileno())
        except FileNotFoundError:
            self.lost.set()
            return
        self._storage.push(NAME)

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(RENEW_EVERY) and not self.lost.is_set():
            try:
                self.renew()
            except (OSError, ValueError, TypeError, FedgridError):
                # Tried again until it works: training goes on, and a driver that takes over is found then.
                continue

    @contextmanager
    def _written(self) -> Iterator[Path]:
        """Give a file with this lease, for links and replacements."""
        now = datetime.now(UTC)
        holder = Holder(
            token=self._token,
            host=node(),
            machine=machine(),
            pid=os.getpid(),
            started=start_time(os.getpid()),
            what=self._what,
            since=_text(now),
            expires=_text(now + EXPIRES_AFTER),
        )
        mine = self._path.with_name(f"{NAME}{PARTIAL}{self._token}")
        try:
            mine.write_text(_json(holder))
            yield mine
        finally:
            mine.unlink(missing_ok=True)

    def _taken(self, mine: Path) -> bool:
        """Try to take the lease; False if another driver came between, which must be looked at anew."""
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
            # The claim is given up last: until then nobody else may do this.
            os.replace(claims[-1], self._path)
            claims.pop()
        for claim in claims if is_ours else claims[-1:]:
            claim.unlink(missing_ok=True)
        return is_ours

    def _refusal(self, holder: Holder | None) -> ConfigError:
        if holder is None:
            return ConfigError(f"{self._storage}: another fedgrid took it in this moment; try again")
        return ConfigError(
            f"{self._storage} is in use: grid {holder.what}, process {holder.pid} on {holder.host}, since "
            f"{_readable(holder.since)}; wait, or `fedgrid stop {holder.what}`; should that machine be gone, "
            f"it is free at {_readable(holder.expires)}"
        )


def _linked(mine: Path, path: Path) -> bool:
    """Link a file to a name, unless that exists."""
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    return True


def _read(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} is damaged; delete it if no other fedgrid uses this storage") from error


def _json(holder: Holder) -> str:
    return json.dumps(asdict(holder)) + "\n"


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _readable(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"

"""A claim on a piece of work that several processes want done: one does it, the others may wait.

A file that exists once. Its holder touches it while it lives; of this machine a dead holder is known at
once, of another by a file that no longer changes. Should two hold one claim nevertheless (a machine that
slept), both do the same work: a claim saves time and guards nothing.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_EX, flock
from os.path import samestat
from pathlib import Path
from platform import node
from secrets import token_hex
from threading import Event, Thread
from time import monotonic
from typing import TextIO

from fedgrid.engine.storage.processes import is_gone, machine, start_time

RENEW_EVERY = 10.0
EXPIRES_AFTER = 90.0
"""Seconds without a change: more than a network file system takes to show one (60 by default)."""


class RoundLock:
    """A claim that this process may take, once; `release` it in any case."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = token_hex(8)
        self._released = Event()
        self._seen: tuple[str, float] | None = None
        self._seen_at = 0.0
        self.held = False

    def take(self) -> bool:
        """Return whether the claim is ours now, which it may have been before.

        Where no file can be written it is, too.
        """
        if self.held:
            return True
        try:
            while not self._written():
                if not self._gone_if(self._is_stale):
                    return False
        except OSError:
            self.held = True
            return True
        self.held = True
        Thread(target=self._renew, name="claim", daemon=True).start()
        return True

    def release(self) -> None:
        """Give the claim back, if it is ours."""
        self._released.set()
        if self.held:
            self.held = False
            with suppress(OSError):  # What cannot be given back expires.
                self._gone_if(self._is_ours)

    def _written(self) -> bool:
        """Write the file, unless there is one."""
        holder = {
            "token": self._token,
            "host": node(),
            "machine": machine(),
            "pid": os.getpid(),
            "started": start_time(os.getpid()),
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._path.open("x") as file:
                json.dump(holder, file)
        except FileExistsError:
            return False
        return True

    def _gone_if(self, condition: Callable[[TextIO], bool]) -> bool:
        """Delete the file if the condition holds for it; return whether it is gone, or another by now.

        One at a time, where files can be locked: nobody deletes what has come in place of what they judged.
        """
        try:
            with self._path.open() as file:
                with suppress(OSError):
                    flock(file, LOCK_EX)
                if samestat(os.fstat(file.fileno()), self._path.stat()):
                    if not condition(file):
                        return False
                    self._path.unlink()
        except FileNotFoundError:
            pass
        return True

    def _is_ours(self, file: TextIO) -> bool:
        return _holder(file).get("token") == self._token

    def _is_stale(self, file: TextIO) -> bool:
        """Return whether the holder is gone, or has not moved for too long while we looked."""
        holder, changed = _holder(file), os.fstat(file.fileno()).st_mtime
        if (holder.get("host"), holder.get("machine")) == (node(), machine()):
            pid, started = holder.get("pid"), holder.get("started")
            if isinstance(pid, int) and isinstance(started, str):
                return is_gone(pid, started)
        seen = (str(holder.get("token")), changed)
        if seen != self._seen:
            self._seen, self._seen_at = seen, monotonic()
        return monotonic() - self._seen_at > EXPIRES_AFTER

    def _renew(self) -> None:
        while not self._released.wait(RENEW_EVERY):
            # Tried again; meanwhile others may do the work too.
            with suppress(OSError), self._path.open() as file:
                if self._is_ours(file):
                    os.utime(file.fileno())


def _holder(file: TextIO) -> dict[str, object]:
    """Return who holds the claim, nothing if that is not written yet, or not readable."""
    try:
        found = json.load(file)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

"""A file that names the process that holds it: the mechanism behind a storage's lease and a round's lock.

The holder renews the file from a thread. A process of this machine that has ended is detected at once. When a
silent holder on another machine loses the file is a rule of its own for leases and for locks.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_EX, flock
from os.path import samestat
from pathlib import Path
from secrets import token_hex
from threading import Event, Thread
from typing import Any, TextIO

from fedgrid.engine.errors import FedgridError
from fedgrid.engine.storage.processes import identity


class HeldFile:
    """One process's side of such a file. It is held if it contains the token of this object."""

    def __init__(self, path: Path, renew_every: float) -> None:
        """Prepare to hold `path` and to renew it every so many seconds; nothing is written yet."""
        self.path = path
        self.token = token_hex(8)
        self._renew_every = renew_every
        self._stopped = Event()
        self._thread: Thread | None = None

    def holder(self) -> dict[str, Any]:
        """Return what the file says while this object holds it: token and identity of the process."""
        return {"token": self.token, **identity()}

    def is_ours(self, file: TextIO) -> bool:
        """Return whether an open file is the one that this object holds.

        Raises:
            ValueError: it is damaged.
        """
        return read_holder(file).get("token") == self.token

    def renew(self, touch: Callable[[TextIO], None]) -> bool:
        """Renew the file with `touch`; return False, and change nothing, if it is gone or another's.

        The file that is written is the one that was read: a file that replaces it meanwhile is not changed.

        Raises:
            OSError, ValueError: it cannot be read or written, or is damaged.
        """
        try:
            with self.path.open("r+") as file:
                is_ours = self.is_ours(file)
                if is_ours:
                    touch(file)
                return is_ours
        except FileNotFoundError:
            return False

    def delete_if(self, condition: Callable[[TextIO], bool]) -> bool:
        """Delete the file if the condition holds for it; return whether this call has deleted it.

        Where files can be locked, one process at a time does this, so no process deletes a file that has
        replaced the one it looked at.

        Raises:
            OSError: it cannot be read or deleted.
        """
        try:
            with self.path.open() as file:
                with suppress(OSError):  # A file system without locks.
                    flock(file, LOCK_EX)
                if not samestat(os.fstat(file.fileno()), self.path.stat()) or not condition(file):
                    return False
                self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def start_renewing(self, renew: Callable[[], bool]) -> None:
        """Call `renew` from a thread until `stop_renewing`, or until it returns False. Errors are retried."""
        self._thread = Thread(target=self._renew_until_stopped, args=(renew,), name="renewal", daemon=True)
        self._thread.start()

    def stop_renewing(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _renew_until_stopped(self, renew: Callable[[], bool]) -> None:
        while not self._stopped.wait(self._renew_every):
            # If renewing fails, training goes on. It is retried; meanwhile another process may take the file.
            with suppress(OSError, ValueError, FedgridError):
                if not renew():
                    return


def read_holder(file: TextIO) -> dict[str, Any]:
    """Return what an open file says about its holder.

    Raises:
        ValueError: it is damaged, or not completely written yet.
    """
    try:
        found = json.load(file)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found

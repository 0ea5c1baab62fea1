"""`lease.json` at a storage's root: says to earlier versions of fedgrid that the storage is in use.

They know one driver a storage, which renews that file and is gone once it has not changed for a minute. All
drivers of this version renew it together; the last one deletes it. It names no process, so that an earlier
version does not take the end of one driver for that of all. If an earlier version has the storage, the file
is its own, and no driver of this version starts.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from fedgrid.engine.format import FORMAT, VERSION
from fedgrid.engine.storage.atomic import write_text
from fedgrid.engine.storage.clock import Clock
from fedgrid.engine.storage.driver import FOLDER, OTHERS, SIGN, files, read
from fedgrid.engine.storage.held_file import Holder, link, read_holder, stamped, temporary_beside
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.takeover import take

SHARED = "shared"
"""Token of all drivers of this version."""


class Sign:
    """One driver's part in that file."""

    def __init__(self, storage: Storage, token: str, clock: Clock) -> None:
        """Prepare for the driver with `token`; nothing is written yet."""
        self._storage = storage
        self._token = token
        self._clock = clock
        self._path = storage.root / SIGN

    def renew(self) -> bool:
        """Write the file or renew it; return False, and change nothing, if it is an earlier version's.

        Raises:
            OSError, ValueError, RunError: it cannot be read or written, or is damaged.
        """
        if self._storage.uri:
            found = self._storage.read(SIGN)
            if found is not None and OTHERS not in read_holder(found.decode(errors="replace")):
                return False
            write_text(self._path, self._text())
            self._storage.push(SIGN)
            return True
        try:
            with self._path.open("r+") as file:
                is_ours = _is_ours(file)
                if is_ours:
                    # As long as before: no reader finds half of it.
                    os.pwrite(file.fileno(), self._text().encode(), 0)
                return is_ours
        except FileNotFoundError:
            with temporary_beside(self._path, self._text(), self._token) as mine, suppress(FileExistsError):
                link(mine, self._path)
            return read(self._storage, SIGN) is None

    def take_over(self, is_gone: Callable[[Holder, Path], bool]) -> bool:
        """Replace the lease of an earlier version's driver that is gone; return False to try it again.

        `is_gone` is as in `take`.

        Raises:
            OnlyOwnerError: it cannot be replaced.
            OSError, RunError: the storage cannot be read or written.
        """
        if not self._storage.uri:
            with temporary_beside(self._path, self._text(), self._token) as mine:
                return take(mine, self._path, is_gone)
        write_text(self._path, self._text())
        self._storage.push(SIGN)
        return True

    def withdraw(self) -> None:
        """Delete the file if no driver of this version is left.

        Raises:
            OSError, ValueError, RunError: it cannot be read or deleted, or is damaged.
        """
        if files(self._storage):
            return
        if self._storage.uri:
            found = self._storage.read(SIGN)
            if found is not None and OTHERS in read_holder(found.decode(errors="replace")):
                self._path.unlink(missing_ok=True)
                self._storage.remove(SIGN)
        else:
            with suppress(FileNotFoundError):
                if OTHERS in read_holder(self._path.read_text(errors="replace")):
                    self._path.unlink()
        # One that has come meanwhile may have renewed the file that is gone now.
        if files(self._storage):
            self.renew()

    def _text(self) -> str:
        about = {"token": SHARED, "what": "of newer fedgrids", OTHERS: FOLDER, VERSION: FORMAT}
        return stamped(about, self._clock)


def _is_ours(file: TextIO) -> bool:
    return OTHERS in read_holder(file.read())

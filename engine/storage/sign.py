"""`lease.json` at a storage's root: says to earlier versions of fedgrid that the storage is in use.

They know one driver a storage, which renews that file and is gone once it has not changed for a minute. All
drivers of this version renew it together; the last one deletes it. It names no process, so that an earlier
version does not take the end of one driver for that of all. If an earlier version has the storage, the file
is its own, and no driver of this version starts.
"""

import json
import os
from contextlib import suppress
from typing import TextIO

from fedgrid.engine.format import FORMAT, VERSION
from fedgrid.engine.storage.atomic import PARTIAL, write_text
from fedgrid.engine.storage.clock import Clock
from fedgrid.engine.storage.driver import FOLDER, OTHERS, SIGN, files, read
from fedgrid.engine.storage.held_file import RENEWED, HeldFile, link, read_holder
from fedgrid.engine.storage.storage import Storage


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
        about = {"what": f"list in {FOLDER}/", OTHERS: FOLDER, VERSION: FORMAT}
        text = json.dumps({**about, RENEWED: f"{self._clock.now():020.6f}"}) + "\n"
        if self._storage.uri:
            found = self._storage.read(SIGN)
            if found is not None and OTHERS not in read_holder(found.decode(errors="replace")):
                return False
            write_text(self._path, text)
            self._storage.push(SIGN)
            return True
        try:
            with self._path.open("r+") as file:
                is_ours = _is_ours(file)
                if is_ours:
                    # As long as before: no reader finds half of it.
                    os.pwrite(file.fileno(), text.encode(), 0)
                return is_ours
        except FileNotFoundError:
            return self._created(text)

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
            HeldFile(self._path, 0.0).delete_if(_is_ours)
        # One that has come meanwhile may have renewed the file that is gone now.
        if files(self._storage):
            self.renew()

    def _created(self, text: str) -> bool:
        temporary = self._path.with_name(f"{SIGN}{PARTIAL}{self._token}")
        try:
            temporary.write_text(text)
            with suppress(FileExistsError):
                link(temporary, self._path)
        finally:
            temporary.unlink(missing_ok=True)
        return read(self._storage, SIGN) is None


def _is_ours(file: TextIO) -> bool:
    return OTHERS in read_holder(file.read())

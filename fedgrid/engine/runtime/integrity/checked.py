"""Finished runs that had no damage when last checked, by the sizes, times and inodes of their files.

To read all files of thousands of runs takes seconds. What is remembered lies in the user's cache, a file for
each storage: other users cannot write it, and it works for a read-only storage too. If it is lost or
damaged, everything is checked again.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import seal, unseal
from fedgrid.engine.runtime.storage.user_paths import cache_folder

FOLDER = "checked"
SETTLED = 2.0
"""Age in seconds from which a file's times tell a later change: clocks of file systems tick slowly."""

Stat: TypeAlias = tuple[int, ...]
"""Size, time of the last change of content and of anything (ns), and inode; empty if there is no file."""


class Checked:
    """What is remembered of one storage."""

    def __init__(self, root: Path) -> None:
        """Read what is remembered of the storage at `root`; nothing if it cannot be read."""
        self._root = root
        self._runs: dict[str, list[Any]] = {}
        """Folder -> digest of what tells a change of its files, then numbers read from them, if any."""
        self._is_new = False
        with suppress(OSError, FedgridError):
            known = unseal(self._place()).get("runs")
            self._runs = known if isinstance(known, dict) else {}

    def has(self, name: str, files: Iterable[Stat]) -> bool:
        """Return whether the run in the folder `name` was undamaged when it had these files."""
        return bool(self._runs.get(name, [None])[0] == _digest(files))

    def add(self, name: str, files: tuple[Stat, ...]) -> None:
        """Remember that the run in the folder `name` is undamaged, unless a file may be changing just now."""
        newest = max((moment for file in files for moment in file[1:3]), default=0)
        if newest < (time.time() - SETTLED) * 1e9:
            self._runs[name] = [_digest(files)]
            self._is_new = True

    def numbers(self, name: str, files: Iterable[Stat]) -> list[Any]:
        """Return what `note` was given for a run that has these files, nothing if that is not known."""
        return self._runs[name][1:] if self.has(name, files) else []

    def note(self, name: str, files: Iterable[Stat], numbers: Iterable[float | None]) -> None:
        """Remember numbers that were read from the files of an undamaged run."""
        if self.has(name, files):
            self._runs[name][1:] = numbers
            self._is_new = True

    def save(self) -> None:
        """Write what is new, where that is possible."""
        if not self._is_new:
            return
        # It only saves time: a cache that cannot be written costs nothing else.
        with suppress(OSError, FedgridError):
            place = self._place()
            place.parent.mkdir(parents=True, exist_ok=True)
            write_text(place, seal({"runs": self._runs}))
            self._is_new = False

    def _place(self) -> Path:
        key = sha256(str(self._root.absolute()).encode()).hexdigest()[:16]
        return cache_folder() / FOLDER / f"{key}.json"


def _digest(files: Iterable[Stat]) -> str:
    return sha256(repr(tuple(files)).encode()).hexdigest()[:32]

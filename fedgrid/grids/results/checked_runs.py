"""Finished runs without damage, by sizes, times and inodes of their files, in the user's cache.

To read all files of thousands of runs takes seconds. If the cache is lost or damaged, everything is checked
again.
"""

import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from fedgrid.engine.runtime.storage.user_files import load_values, store_values

CHECKED = "checked"
"""Kind of these files in the user's cache."""
SETTLED = 2.0
"""Age in seconds from which a file's times show a later change: clocks of file systems tick slowly."""
Stat: TypeAlias = tuple[int, ...]
"""Size, time of the last change of content and of anything (ns), and inode; empty if there is no file."""


class CheckedRuns:
    """The runs of one storage that earlier commands found undamaged."""

    def __init__(self, root: Path) -> None:
        """Read what the cache has of the storage at `root`; nothing if it cannot be read."""
        self._root = str(root.absolute())
        runs = load_values(CHECKED, self._root).get("runs")
        self._runs: dict[str, list[Any]] = runs if isinstance(runs, dict) else {}
        """Folder -> digest of the signatures of its files, then numbers read from them, if any."""
        self._is_new = False

    def is_undamaged(self, name: str, files: Iterable[Stat]) -> bool:
        """Check whether the run in the folder `name` was undamaged when it had these files."""
        return bool(self._runs.get(name, [None])[0] == _digest_files(files))

    def add_run(self, name: str, files: tuple[Stat, ...]) -> None:
        """Record that the run in the folder `name` is undamaged, unless a file may be changing just now."""
        newest = max((moment for file in files for moment in file[1:3]), default=0)
        # A second write within one tick of the file system's clock would leave the same times (Git's racy
        # entries).
        if newest < (time.time() - SETTLED) * 1e9:
            self._runs[name] = [_digest_files(files)]
            self._is_new = True

    def read_numbers(self, name: str, files: Iterable[Stat]) -> list[Any]:
        """Read the numbers that `add_numbers` recorded of a run with these files; empty if there are none."""
        return self._runs[name][1:] if self.is_undamaged(name, files) else []

    def add_numbers(self, name: str, files: Iterable[Stat], numbers: Iterable[float | None]) -> None:
        """Record numbers that were read from the files of an undamaged run."""
        if self.is_undamaged(name, files):
            self._runs[name][1:] = numbers
            self._is_new = True

    def save(self) -> None:
        """Write the cache if there is something new; without effect where it cannot be written."""
        if self._is_new:
            self._is_new = not store_values(CHECKED, self._root, {"runs": self._runs})


def _digest_files(files: Iterable[Stat]) -> str:
    """Compute a short digest of the signatures of a run's files."""
    return sha256(repr(tuple(files)).encode()).hexdigest()[:32]

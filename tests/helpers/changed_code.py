"""A copy of fedgrid with something changed in it, as another version or a contributor has it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREE = ("fedgrid", "tests", "benchmarks")
FILES = ("pyproject.toml", "CHANGELOG.md")


def copy_with_changes(folder: Path, file: str, changes: Mapping[str, str]) -> Path:
    """Copy the code to `folder` and set constants of a file by name; find the value of PYTHONPATH."""
    _copy("fedgrid", folder)
    path = folder / "fedgrid" / file
    text = path.read_text()
    for name, value in changes.items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.M)
        assert count == 1, f"{file} has {count} lines {name} = ..."
    path.write_text(text)
    return folder


class CodeCopy:
    """A copy of the tree, to which a contributor adds something."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[str] = []
        """The files that were written or changed, once for each change."""
        for name in TREE:
            _copy(name, folder)
        for name in FILES:
            shutil.copy(ROOT / name, folder)

    def write(self, file: str, text: str) -> None:
        """Add a file."""
        path = self.folder / file
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        self._write(file, text.lstrip("\n"))

    def insert(self, file: str, at: str, text: str, *, before: bool = False) -> None:
        """Add text to a file after, or before, a text that is there once."""
        old = (self.folder / file).read_text()
        assert old.count(at) == 1, f"{file} has {old.count(at)} times {at!r}"
        self._write(file, old.replace(at, text + at if before else at + text))

    def prepend(self, file: str, text: str) -> None:
        """Add text before the first line of a file that is not a docstring's or a comment's."""
        old = (self.folder / file).read_text()
        first = re.search(r"^(from|import|- ) ?", old, flags=re.M)
        assert first is not None
        self._write(file, old[: first.start()] + text + old[first.start() :])

    def _write(self, file: str, text: str) -> None:
        (self.folder / file).write_text(text)
        self.written.append(file)

    def run_python(self, code: str) -> str:
        """Run code that imports this copy, and read what it prints."""
        here = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.folder,
            env=here,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        return done.stdout


def _copy(name: str, folder: Path) -> None:
    """Copy a folder with its compiled files."""
    # Compiled files hold as long as their source keeps its time and size; those being written may vanish.
    being_written = shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(ROOT / name, folder / name, ignore=being_written)

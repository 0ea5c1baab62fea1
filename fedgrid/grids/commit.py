"""Read which commit the code is of, and which versions of packages it runs with."""

import os
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

UNKNOWN = "unknown"


def read_commit() -> str:
    """Read the git commit of this code, with `-dirty` if files differ from it; `unknown` without one.

    FEDGRID_COMMIT gives it where the code was copied without git. An installed wheel has no commit, even if
    its environment lies in the repository of something else.
    """
    if given := os.environ.get("FEDGRID_COMMIT"):
        return given
    file = Path(__file__)
    try:
        # Fails if git does not track this file: the repository around it is then that of something else.
        _run_git(file.parent, "ls-files", "--error-unmatch", file.name)
        return _run_git(file.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN


def _run_git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def find_version(package: str) -> str:
    """Find the version of an installed package; `unknown` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN

"""Which commit this code is of, and which versions of packages it runs with."""

import os
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

UNKNOWN = "unknown"


def commit() -> str:
    """Return the git commit of this code, `-dirty` if files differ from it.

    FEDGRID_COMMIT says it where the code travelled without git. An installed wheel has no commit, also if its
    environment lies in the repository of something else.
    """
    if given := os.environ.get("FEDGRID_COMMIT"):
        return given
    file = Path(__file__)
    try:
        _git(file.parent, "ls-files", "--error-unmatch", file.name)
        return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def version_of(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN

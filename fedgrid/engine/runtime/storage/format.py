"""Errors of reading files, and JSON files that carry their checksum (`sealed_json`).

A file of another version is distinguished from a damaged one: it is refused and left as it is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError, FedgridError, RunError, StorageError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.manifest import BadRun, Manifest, read_manifest
from fedgrid.sealed_json import LAYOUT, OtherLayout, unseal_text

METADATA = "fedgrid_format"
"""Key of the version in the metadata of Parquet and safetensors files that stand alone."""


class OtherVersion(ConfigError):
    """A file was written by another version of fedgrid, in a form that this one does not read."""

    def __init__(self, path: Path, what: object) -> None:
        super().__init__(
            f"{path} was written by another fedgrid ({what}; this one reads layout {LAYOUT} and format "
            f"{FORMAT}): use that version, or name another --storage; nothing was changed"
        )


class DamagedFile(RunError):
    """A file's bytes are not those that were written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged ({reason})")


class UnreadableFile(StorageError):
    """A file cannot be read at present: a disk error, or a missing permission.

    Its content may be undamaged, so it is not set aside.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {CANNOT_BE_READ}: {reason}")


CANNOT_BE_READ = "cannot be read"


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert errors of reading a file in the block, except that it is missing.

    Raises:
        UnreadableFile: the system gives the reason.
        OtherVersion: another fedgrid wrote it.
        DamagedFile: the file's content is wrong.
    """
    try:
        yield
    except (FileNotFoundError, FedgridError):
        raise
    except OtherLayout as error:
        raise OtherVersion(path, error) from error
    except BadRun as error:
        raise DamagedFile(error.path, str(error)) from error
    except (OSError, ValueError) as error:
        # Libraries raise OSError without a number for content that they cannot parse; only the system's own
        # errors have one.
        if isinstance(error, OSError) and error.errno is not None:
            named = Path(os.fsdecode(error.filename)) if error.filename else path
            raise UnreadableFile(named, error.strerror or os.strerror(error.errno)) from error
        raise DamagedFile(path, str(error).splitlines()[0]) from error


def load_manifest(folder: Path) -> Manifest:
    """Load the manifest of the run in a folder.

    Raises:
        FileNotFoundError: there is none, and nothing that a run has written.
        UnreadableFile, OtherVersion, DamagedFile: as `read_errors`.
    """
    with read_errors(folder):
        return read_manifest(folder)


def compute_checksum(path: Path) -> str:
    """Compute the SHA-256 sum of the bytes of a file.

    Raises:
        FileNotFoundError: there is no such file.
        UnreadableFile: the disk does not give it.
    """
    with read_errors(path), path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def describe_next_step(reason: str, if_damaged: str) -> str:
    """Describe why a file cannot be used and what to do, or what a launch does with a damaged one."""
    if CANNOT_BE_READ in reason:
        return f"{reason}; fix that, then the same command continues, or move its run's folder away"
    return f"{reason}: {if_damaged}"


def check_format(version: object, path: Path) -> None:
    """Check that a file names this code's format; None stands for a file that names none.

    Raises:
        OtherVersion: it names another one.
        DamagedFile: it is no format.
    """
    text = str(version)
    if isinstance(version, bool) or not (text.isascii() and text.isdecimal()):
        raise DamagedFile(path, "it has no format")
    if int(text) != FORMAT:
        raise OtherVersion(path, f"format {text}")


def check_run(path: Path, stored: object, run_id: str) -> None:
    """Check that a file belongs to a run.

    Raises:
        DamagedFile: it names another run, or none.
    """
    if stored != run_id:
        raise DamagedFile(path, f"it is of run {stored}, not {run_id}" if stored else "it names no run")


def unseal_file(path: Path, text: str | bytes | None = None) -> dict[str, Any]:
    """Read the values of a sealed file; `text` is its content, if it has been read already.

    Raises:
        FileNotFoundError: there is no such file.
        OtherVersion: another fedgrid wrote it.
        UnreadableFile: the disk does not give it.
        DamagedFile: it is not what was written.
    """
    with read_errors(path):
        return unseal_text(path.read_bytes() if text is None else text)

"""The form of all files of a run.

Every file says its version, which distinguishes a file of a newer fedgrid from a damaged one: it is refused
and left as it is. JSON files are sealed: they have the keys `format`, and `sha256` of all other keys.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError, FedgridError, RunError, StorageError
from fedgrid.engine.federation.format import FORMAT

METADATA = "fedgrid_format"
"""The key of the version in the metadata of Parquet and safetensors files."""
VERSION, CHECKSUM = "format", "sha256"


class NewerFormat(ConfigError):
    """A file was written by a newer fedgrid."""

    def __init__(self, path: Path, version: object) -> None:
        super().__init__(
            f"{path} was written by a newer fedgrid ({version}; this one reads up to format {FORMAT}): "
            "update fedgrid, or name another --storage; nothing was changed"
        )


class DamagedFile(RunError):
    """A file's bytes are not those that were written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is damaged ({why})")


class UnreadableFile(StorageError):
    """A file cannot be read at present: a disk error, or a missing permission.

    Its content may be undamaged, so it is not set aside.
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {CANNOT_BE_READ}: {why}")


CANNOT_BE_READ = "cannot be read"


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert errors of reading a file in the block, but not that it is missing.

    Raises:
        UnreadableFile: the system says why.
        DamagedFile: the file itself is to blame.
    """
    try:
        yield
    except (FileNotFoundError, FedgridError):
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UnreadableFile(path, error.strerror or os.strerror(error.errno)) from error
        raise DamagedFile(path, str(error).splitlines()[0]) from error


def holds(path: Path, data: bytes) -> bool:
    """Return whether a file is there with these bytes; raises UnreadableFile as `read_errors`."""
    try:
        with read_errors(path):
            return path.read_bytes() == data
    except (FileNotFoundError, DamagedFile):
        return False


def next_step(why: str, if_damaged: str) -> str:
    """Return why a file cannot be used, and what to do, or what a launch does with a damaged one."""
    if CANNOT_BE_READ in why:
        return f"{why}; fix that, then the same command continues, or move its run's folder away"
    return f"{why}: {if_damaged}"


def check_format(version: object, path: Path) -> None:
    """Check the version that a file names, None if it names none.

    Raises:
        NewerFormat: it is another one than this code's.
        DamagedFile: it is no version.
    """
    text = str(version)
    if isinstance(version, bool) or not (text.isascii() and text.isdecimal()):
        raise DamagedFile(path, "it has no format")
    if int(text) != FORMAT:
        raise NewerFormat(path, f"format {text}")


def check_run(path: Path, stored: object, run_id: str) -> None:
    """Check that a file belongs to a run.

    Raises:
        DamagedFile: it names another run, or none.
    """
    if stored != run_id:
        raise DamagedFile(path, f"it is of run {stored}, not {run_id}" if stored else "it names no run")


def seal(values: Mapping[str, Any], indent: int | None = None) -> str:
    """Return values, in their order, as the text of a JSON file, with its format and a checksum."""
    body = {**values, VERSION: FORMAT}
    return json.dumps({**body, CHECKSUM: _checksum(body)}, indent=indent) + "\n"


def unseal(path: Path, text: str | bytes | None = None) -> dict[str, Any]:
    """Return the values of a sealed file, without format and checksum; `text` is its content, if known.

    Raises:
        FileNotFoundError: there is no such file.
        NewerFormat: a newer fedgrid wrote it.
        UnreadableFile: the disk does not give it.
        DamagedFile: it is not what was written.
    """
    if text is None:
        with read_errors(path):
            text = path.read_bytes()
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, "it is not JSON") from error
    if not isinstance(values, dict):
        raise DamagedFile(path, "it is not a JSON object")
    check_format(values.get(VERSION), path)
    if values.pop(CHECKSUM, None) != _checksum(values):
        raise DamagedFile(path, "its checksum differs")
    del values[VERSION]
    return values


def _checksum(body: Mapping[str, Any]) -> str:
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

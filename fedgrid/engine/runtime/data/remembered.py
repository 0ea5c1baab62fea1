"""Digests of files that take long to read, remembered in the user's cache until a file changes."""

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import seal, unseal
from fedgrid.engine.runtime.storage.user_paths import cache_folder

FOLDER = "images"
FILES, DIGEST = "files", "digest"


def fingerprint(paths: Iterable[Path]) -> str:
    """Return a digest of names, sizes, times and inodes of files; their content is not read."""
    digest = sha256()
    for path in paths:
        try:
            about = path.stat()
            line = f"{path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}\n"
        except FileNotFoundError:
            line = f"{path} missing\n"
        digest.update(line.encode())
    return digest.hexdigest()


def recall(what: str, files: str) -> str | None:
    """Return what was remembered of `what` for files of this fingerprint; None if it was of others."""
    # Whatever is wrong with what is remembered, the files themselves are right.
    with suppress(OSError, FedgridError, KeyError):
        known = unseal(_place(what))
        if known[FILES] == files:
            return str(known[DIGEST])
    return None


def remember(what: str, files: str, digest: str) -> None:
    """Remember a digest for files of this fingerprint; a cache that cannot be written costs time alone."""
    with suppress(OSError, FedgridError):
        place = _place(what)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, seal({FILES: files, DIGEST: digest}))


def _place(what: str) -> Path:
    return cache_folder() / FOLDER / f"{sha256(what.encode()).hexdigest()[:16]}.json"

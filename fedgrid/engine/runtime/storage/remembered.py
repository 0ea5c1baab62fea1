"""What takes long to find out, remembered in the user's cache: losing it costs time alone.

Nobody else writes there, and a storage that cannot be written is served as well.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import seal, unseal
from fedgrid.engine.runtime.storage.user_paths import cache_folder

IMAGES, FILES, DIGEST = "images", "files", "digest"


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


def recall_digest(what: str, files: str) -> str | None:
    """Return the digest of `what` for files of this fingerprint; None if none is remembered."""
    values = recall(IMAGES, what)
    return str(values[DIGEST]) if values.get(FILES) == files and DIGEST in values else None


def remember_digest(what: str, files: str, digest: str) -> None:
    """Remember a digest for files of this fingerprint."""
    remember(IMAGES, what, {FILES: files, DIGEST: digest})


def recall(kind: str, what: str) -> dict[str, Any]:
    """Return what was remembered of `what`, which is of a kind; empty if nothing can be read."""
    with suppress(OSError, FedgridError):
        return unseal(_place(kind, what))
    return {}


def remember(kind: str, what: str, values: Mapping[str, Any]) -> bool:
    """Remember values, and return whether that was possible."""
    with suppress(OSError, FedgridError):
        place = _place(kind, what)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, seal(values))
        return True
    return False


def _place(kind: str, what: str) -> Path:
    return cache_folder() / kind / f"{sha256(what.encode()).hexdigest()[:16]}.json"

"""Where the user's own images lie that a run names by content (`federation.data.names`).

Their place stands beside the configuration, in `images.json`. A process knows the places of the images that
it has named itself, and those that it was given with `know`.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from fedgrid.engine.federation.data.readers import check_is_file
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.storage.format import DamagedFile, seal, unseal
from fedgrid.engine.runtime.storage.remembered import fingerprint, recall_digest, remember_digest

PLACES = "images.json"
"""File beside configurations, with the places of the images that they name."""

Places = Mapping[str, str]
"""Name, as in a run's configuration -> absolute path."""

_known: dict[str, Path] = {}
"""Name -> place: what this process can find."""


def name(kind: str, place: Path, size: str, files: Sequence[Path]) -> str:
    """Return what a run calls the images at a place, and know where they are from now on.

    Args:
        kind: `folder` or `npz`.
        place: of the folder or file, absolute.
        size: to which a folder is scaled, as in `#64x64`; empty if it is not.
        files: those of the folder that are images, or the file itself.

    Raises:
        DataError: one of them cannot be read.
    """
    found = f"{kind}:{place.name}{size}@{digest_of(place, files)}"
    _known[found] = place
    return found


def place(dataset: str) -> Path:
    """Return where the images are that a run names.

    Raises:
        DataError: that is not known here.
    """
    if dataset not in _known:
        raise DataError(
            f"{dataset}: the location of these images is not known here; repeat the run with their path, as "
            f"in --dataset {dataset.partition(':')[0]}:PATH"
        )
    return _known[dataset]


def know(places: Places) -> None:
    """Let runs find images whose places came from elsewhere: another process, or a file beside them."""
    for dataset, path in places.items():
        _known.setdefault(dataset, Path(path))


def places(datasets: Iterable[str]) -> Places:
    """Return the places of those data sets that are the user's own, by their names."""
    return {dataset: str(_known[dataset]) for dataset in sorted(set(datasets)) if dataset in _known}


def sealed(datasets: Iterable[str]) -> str:
    """Return the content of `images.json` beside runs with these data sets, empty if it needs none."""
    found = places(datasets)
    return seal({"images": found}) if found else ""


def know_from(folder: Path) -> None:
    """Know the places that stand in a folder's `images.json`; a folder without the file has none.

    Raises:
        DamagedFile: the file is not what was written.
    """
    if (folder / PLACES).exists():
        found = unseal(folder / PLACES).get("images")
        if not isinstance(found, dict) or not all(
            isinstance(text, str) for text in (*found, *found.values())
        ):
            raise DamagedFile(folder / PLACES, "it does not list images")
        know(found)


def digest_of(place: Path, files: Sequence[Path]) -> str:
    """Return twelve hexadecimal digits of the names below a place, and of the bytes, of files.

    Raises:
        DataError: one of them cannot be read.
    """
    key, now = f"content of {place}", fingerprint(files)
    known = recall_digest(key, now)
    if known is None:
        digest = sha256()
        for file in sorted(files):
            digest.update(f"{file.relative_to(place).as_posix()} {_content(file)}\n".encode())
        known = digest.hexdigest()[:12]
        remember_digest(key, now, known)
    return known


def _content(file: Path) -> str:
    check_is_file(file, "an image file")
    try:
        with file.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; replace it or remove it") from error

"""The user's own images: a run names them by short name and content, never by their path.

`folder:/home/me/cats#64` is `folder:cats#64x64@3f2a91c0d4e5` in a run's configuration, so that the run has
the same id wherever the images lie. Their place stands beside the configuration, in `images.json`. A process
knows the places of the images that it has named itself, and those that it was given with `know`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from fedgrid.engine.data import remembered
from fedgrid.engine.data.images import check_is_file
from fedgrid.engine.data.resizing import mark, place_and_size
from fedgrid.engine.errors import DataError
from fedgrid.engine.format import DamagedFile, seal, unseal

NAME = re.compile(r"(?P<kind>folder|npz):(?P<short>[^/]+)@(?P<digest>[0-9a-f]{12})")
"""What a run calls images: format, name of the folder or file with the size it is scaled to, and a digest."""
PLACES = "images.json"
"""File beside configurations, with the places of the images that they name."""

Places = Mapping[str, str]
"""Name, as in a run's configuration -> absolute path."""

_known: dict[str, Path] = {}
"""Name -> place: what this process can find."""


def is_name(dataset: str) -> bool:
    """Return whether a data set is named by content, as in a run's configuration."""
    return NAME.fullmatch(dataset) is not None


def digest_in(dataset: str) -> str:
    """Return the digest in what a run calls images."""
    return dataset.rpartition("@")[2]


def without_digest(dataset: str) -> str:
    """Return a data set's name without the digest: `folder:cats#64x64`; other names as they are."""
    return dataset.rpartition("@")[0] if is_name(dataset) else dataset


def short_name(dataset: str) -> str:
    """Return a data set's name without a path or a digest: `mnist`, `folder_cats`, `folder_cats-64x64`."""
    kind, _, given = without_digest(dataset).partition(":")
    path, size = place_and_size(given)
    return f"{kind}_{Path(path).stem}{mark(size, '-')}" if given else kind


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


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of the user's own images in a value and the values within it."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from names_in(inner)
    elif isinstance(value, str) and is_name(value):
        yield value


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
    key, now = f"content of {place}", remembered.fingerprint(files)
    known = remembered.recall(key, now)
    if known is None:
        digest = sha256()
        for file in sorted(files):
            digest.update(f"{file.relative_to(place).as_posix()} {_content(file)}\n".encode())
        known = digest.hexdigest()[:12]
        remembered.remember(key, now, known)
    return known


def _content(file: Path) -> str:
    check_is_file(file, "an image file")
    try:
        with file.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; replace it or remove it") from error

"""Places of the user's own images that a run names by content (`federation.data.names`).

The place is stored next to the configuration, in `images.json`. A process can find the images that it has
named itself, and those whose places `register_places` has registered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.data.files import check_is_file
from fedgrid.engine.federation.data.images import Images
from fedgrid.engine.federation.data.names import PARTITION
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.engine.runtime.storage.user_files import fingerprint_files, load_stored_digest, store_digest
from fedgrid.sealed_json import seal_values

PLACES = "images.json"
"""File next to configurations, with the places of the images that they name."""

COMPARED_IMAGES = 500
"""Number of images that are compared with one another."""
EQUAL_SHARE = 0.9
"""Share of equal images from which on there is a note."""

Places = Mapping[str, str]
"""Absolute path by name, as in a run's configuration."""

OWN_FORMATS = {
    "folder": "image folder: train/<class>/* and test/<class>/*, or <group>/<class>/*",
    "npz": "npz file with MedMNIST's keys",
    "csv": "csv file",
    "parquet": "Parquet file",
    "hf": "Hugging Face hub, or a folder that datasets has saved",
}
"""Formats, given as `folder:PATH`, `folder:PATH#WIDTHxHEIGHT`, `npz:PATH`, `csv:PATH#label=COLUMN`, `hf:NAME`
and so on."""

_places: dict[str, Path] = {}
"""Places by name, as far as this process can find them."""


def name_by_digest(kind: str, place: Path, mark: str, files: Sequence[Path]) -> str:
    """Build what a run calls the data at a place, and register the place.

    Args:
        kind: A format such as `folder`.
        place: An absolute path.
        mark: The options after the path, as in `names.split_mark`.
        files: Those of the folder that are images, or the file itself.

    Raises:
        DataError: one of them cannot be read.
    """
    return register_place(f"{kind}:{place.name}{mark}@{digest_files(place, files)}", place)


def register_place(dataset: str, place: Path) -> str:
    """Register where the data are that a run calls `dataset`; return that name."""
    _places[dataset] = place
    return dataset


def find_place(dataset: str) -> Path | None:
    """Find where the data are that a run names, None if that is not registered here."""
    return _places.get(dataset)


def require_place(dataset: str) -> Path:
    """Find where the images are that a run names.

    Raises:
        DataError: that is not registered here.
    """
    if dataset not in _places:
        kind = dataset.partition(":")[0]
        option = "split.path=PATH" if kind == PARTITION else f"--dataset {kind}:PATH"
        raise DataError(
            f"{dataset}: the location of these data is not known here; repeat the run with their path, as in "
            f"{option}"
        )
    return _places[dataset]


def describe_odd_images(dataset: str, images: Images) -> list[str]:
    """Describe in one line each what shows that images were read or saved in a wrong way.

    `images` are as in `ImageSet`; of many, some hundred spread over all are compared.
    """
    notes = []
    looked_at = images[:: max(1, len(images) // COMPARED_IMAGES)]
    [(_, count)] = Counter(image.tobytes() for image in looked_at).most_common(1)
    if count > 1 and count >= EQUAL_SHARE * len(looked_at):
        share = count / len(looked_at)
        notes.append(f"{share:.0%} of the images of {dataset} are the same image: were they read as meant?")
    if images.dtype == np.uint8 and (brightest := int(images.max())) <= 1:
        notes.append(
            f"the brightest pixel of {dataset} is {brightest}, and white is 255: save the images as 0 to 255"
        )
    return notes


def register_places(places: Places) -> None:
    """Let runs find images whose places came from elsewhere: another process, or a file next to them."""
    for dataset, path in places.items():
        _places.setdefault(dataset, Path(path))


def list_places(datasets: Iterable[str]) -> Places:
    """List the places of those data sets that are the user's own, by their names."""
    return {dataset: str(_places[dataset]) for dataset in sorted(set(datasets)) if dataset in _places}


def seal_places(datasets: Iterable[str]) -> str:
    """Build the content of `images.json` next to runs with these data sets, empty if it needs none."""
    images = list_places(datasets)
    return seal_values({"images": images}) if images else ""


def load_places(folder: Path) -> None:
    """Register the places that stand in a folder's `images.json`; a folder without the file has none.

    Raises:
        DamagedFile: the file is not what was written.
    """
    if (folder / PLACES).exists():
        register_places(unseal_file(folder / PLACES)["images"])


def digest_files(place: Path, files: Sequence[Path]) -> str:
    """Compute twelve hexadecimal digits of the names below a place, and of the bytes, of files.

    Raises:
        DataError: one of them cannot be read.
    """
    key, now = f"content of {place}", fingerprint_files(files)
    content = load_stored_digest(key, now)
    if content is None:
        digest = sha256()
        for file in sorted(files):
            digest.update(f"{file.relative_to(place).as_posix()} {_digest_file(file)}\n".encode())
        content = digest.hexdigest()[:12]
        store_digest(key, now, content)
    return content


def _digest_file(file: Path) -> str:
    """Compute the digest of a file's bytes.

    Raises:
        DataError: it cannot be read.
    """
    check_is_file(file, "an image file")
    try:
        with file.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; replace it or remove it") from error

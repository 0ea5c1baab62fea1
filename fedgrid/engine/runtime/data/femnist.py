"""The conversion of FEMNIST to its npz file, from what others publish: LEAF's json files, or Parquet files.

FEMNIST is the letters and digits of EMNIST by writer: 62 classes, 3,550 writers, 805,263 images of 28x28
pixels, dark on white as in LEAF. Every tenth image of a writer, in the order of the files, is the server's.

Source: S. Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.

Shapes: N images.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedgrid.engine.federation.data.images import Images
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.storage.atomic import disk_errors, replace_files
from fedgrid.regular_files import LARGEST_TABLE, open_file, read_file

SIDE, NUM_CLASSES = 28, 62
WRITER, LABEL = ("writer", "writer_id"), ("label", "character")
"""Names that the columns of a Parquet file may have."""
TEST_EVERY = 10
"""Number of a writer's images of which one is in the server's test set."""
LARGEST_JSON = 1 << 30
"""Bytes of one of LEAF's files at most; those of FEMNIST have a hundred million."""
BATCH = 256
"""Rows of a Parquet file that are in memory at a time."""
EXPECTED = "expected a folder with LEAF's *.json or train/*.json and test/*.json, or *.parquet"

Part = tuple[str, Images, list[int]]
"""A writer, images of shape (N, 28, 28), and their classes."""


@dataclass(frozen=True)
class FemnistCounts:
    """Counts of a converted file: writers, images of the pool, and test images."""

    writers: int
    pool: int
    test: int


def convert_femnist_files(source: Path, target: Path) -> FemnistCounts:
    """Write the npz file that the data set `femnist` is read from, with each image's writer as its group.

    Args:
        source: A folder with LEAF's json files, or a Parquet file or a folder of them, with the columns
            `writer`, `label` and `image` (784 grey values, or an encoded image).
        target: The npz file.

    Raises:
        DataError: the source is not of these formats, or too small for a test set of all classes.
        StorageError: the target cannot be written.
    """
    # A writer's images may be in several files.
    by_writer: dict[str, list[Part]] = defaultdict(list)
    for path in _list_sources(source):
        for part in _read_parquet(path) if path.suffix == ".parquet" else _read_leaf(path):
            by_writer[part[0]].append(part)
    arrays = _split_writers(by_writer, source)
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace_files(target) as (temporary,), temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    pool, test = (len(arrays[f"{part}_labels"]) for part in ("train", "test"))
    return FemnistCounts(len(np.unique(arrays["train_group"])), pool, test)


def _split_writers(by_writer: dict[str, list[Part]], source: Path) -> dict[str, NDArray[Any]]:
    """Build the arrays of the npz file; writers are numbered in the order of their names."""
    arrays: dict[str, list[NDArray[Any]]] = defaultdict(list)
    for number, writer in enumerate(sorted(by_writer)):
        images = np.concatenate([part[1] for part in by_writer[writer]])
        labels = np.concatenate([np.array(part[2], np.int64) for part in by_writer[writer]])
        is_test = np.arange(1, len(labels) + 1) % TEST_EVERY == 0
        for name, where in (("train", ~is_test), ("test", is_test)):
            arrays[f"{name}_images"].append(images[where])
            arrays[f"{name}_labels"].append(labels[where])
            arrays[f"{name}_group"].append(np.full(where.sum(), number, np.int32))
    joined = {name: np.concatenate(parts) for name, parts in arrays.items()}
    for name in ("train", "test"):
        counts_L = np.bincount(joined[f"{name}_labels"], minlength=NUM_CLASSES)
        if not counts_L.all():
            raise DataError(
                f"{source} has {counts_L.sum()} {name} images, and none of class {int(np.argmin(counts_L))}; "
                "take more writers (every tenth image of a writer is test)"
            )
    return joined


def _list_sources(source: Path) -> list[Path]:
    """List the files to read, all of one kind."""
    if not source.is_dir():
        files = [source]
    else:
        patterns = (("*.json",), ("train/*.json", "test/*.json"), ("*.parquet",))
        kinds = ([path for pattern in kind for path in sorted(source.glob(pattern))] for kind in patterns)
        # Finder writes a file `._NAME` next to each on some disks.
        visible = ([path for path in paths if not path.name.startswith(".")] for paths in kinds)
        files = next(filter(None, visible), [])
    if not files or any(file.suffix not in (".json", ".parquet") for file in files):
        raise DataError(f"{source} has no images of FEMNIST; {EXPECTED}")
    return [file.resolve() for file in files]


def _read_leaf(file: Path) -> Iterator[Part]:
    """Yield the writers of one of LEAF's files: `user_data`, by user 784 numbers from 0 to 1 an image."""
    try:
        users = json.loads(read_file(file, LARGEST_JSON))["user_data"]
        for writer, data in users.items():
            values = np.array(data["x"], np.float64).reshape(-1, SIDE, SIDE)
            if not ((values >= 0) & (values <= 1)).all():
                raise ValueError("a pixel outside 0 to 1")
            # LEAF divided bytes by 255; rounding gives the very bytes back.
            yield _check_part(writer, np.rint(255 * values).astype(np.uint8), data["y"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{file} is not one of LEAF's files for FEMNIST: {_describe_cause(error)}") from error


def _read_parquet(file: Path) -> Iterator[Part]:
    """Yield the images of a Parquet file, each with its writer."""
    # Imported here because only this command needs it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fedgrid.parquet_files import check_fits

    # A damaged PNG is a SyntaxError for PIL.
    damage = (OSError, ValueError, KeyError, TypeError, SyntaxError, pa.ArrowException)
    try:
        with open_file(file, LARGEST_TABLE) as data:
            table = pq.ParquetFile(data, page_checksum_verification=True)
            columns = [_find_column(table.schema_arrow.names, names) for names in (WRITER, LABEL, ("image",))]
            check_fits(table, len(columns))
            for batch in table.iter_batches(BATCH, columns=columns):
                rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
                for writer, label, image in rows:
                    yield _check_part(str(writer), _decode_image(image)[None], [label])
    except (*damage, Image.DecompressionBombError) as error:
        raise DataError(f"{file} is not a Parquet file of FEMNIST: {_describe_cause(error)}") from error


def _find_column(names: list[str], accepted: tuple[str, ...]) -> str:
    """Find the column that has one of the accepted names.

    Raises:
        ValueError: there is none.
    """
    for name in accepted:
        if name in names:
            return name
    raise ValueError(f"it has no column {' or '.join(accepted)}, but {', '.join(names)}")


def _decode_image(given: Any) -> Images:
    """Decode an image from 784 grey values, or from an encoded image, alone or as `bytes` of a mapping."""
    encoded = given["bytes"] if isinstance(given, dict) else given
    if not isinstance(encoded, bytes):
        values = np.array(given)
        if not ((values >= 0) & (values <= 255) & (values == np.rint(values))).all():
            raise ValueError("a grey value that is not a whole number from 0 to 255")
        return values.astype(np.uint8).reshape(SIDE, SIDE)
    with Image.open(BytesIO(encoded), formats=("PNG", "JPEG")) as image:
        if image.size != (SIDE, SIDE):
            raise ValueError(f"an image of {image.size[0]}x{image.size[1]} pixels")
        return np.asarray(image.convert("L"), np.uint8)


def _check_part(writer: str, images: Images, labels: list[int]) -> Part:
    """Check that each image has a class, and return the part.

    Raises:
        ValueError: one has not.
    """
    if len(labels) != len(images):
        raise ValueError(f"{len(labels)} labels for {len(images)} images of writer {writer}")
    for label in labels:
        if not isinstance(label, int) or not 0 <= label < NUM_CLASSES:
            raise ValueError(f"label {label!r} of writer {writer} is not a class from 0 to {NUM_CLASSES - 1}")
    return writer, images, labels


def _describe_cause(error: Exception) -> str:
    """Describe an error in one line, with what was expected."""
    missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return f"{' '.join(missing.split())[:200]}; {EXPECTED}"

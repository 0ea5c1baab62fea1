"""Examples in one npz file with MedMNIST's keys: MedMNIST's own files and the user's.

The arrays' type says what the examples are: uint8 images, numbers (floats) or tokens (other integers).

A file may name the group of each example, such as its writer: `train_group`, `test_group` and, with val,
`val_group`, numbers or texts. Groups are numbered from 0 in their order. It may likewise name the client that
holds each example of the pool: `train_client` and, with val, `val_client`.

Shapes: N images, G groups, P parts of the file (train, val, test).
"""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import DataSource, Facts, check_numbered_from_zero
from fedgrid.engine.federation.data.files import (
    check_format,
    check_is_file,
    check_memory,
    damaged_file_error,
    map_member,
)
from fedgrid.engine.federation.data.images import ClassLabels, Groups, Images, ImageSet, Pair
from fedgrid.engine.federation.data.names import TEST_SHARE, compose_accents, sort_names
from fedgrid.engine.federation.data.partition import Positions, assign_clients, number_names
from fedgrid.engine.federation.data.precision import (
    OVERFLOW_HELP,
    cast_parts,
    check_tokens,
    find_overflow,
)
from fedgrid.engine.federation.data.server_share import draw_test_rows
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.inputs import Inputs

DAMAGE = (
    *(OSError, ValueError, TypeError, KeyError, EOFError, MemoryError, struct.error),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError),
)
"""Errors that NumPy and zipfile raise for damaged files. RuntimeError: encrypted, or of unknown
compression."""
LARGE = 1 << 26
"""Size in bytes from which on images are mapped into memory and read when they are used."""


def open_npz(path: Path, share: float | None = None) -> DataSource:
    """Find the facts of a file, and build the function that reads its examples: (pool, server's test set).

    The pool is train, with val if the file has it. Labels, groups and clients are read now; of tokens the
    largest one is searched, other examples stay in the file.

    Args:
        path: the npz file.
        share: share of train that is drawn as the test set of a file that has a training part alone. Default:
            the file has a test part.

    Raises:
        DataError: the file cannot be read as such.
    """
    with _open_file(path, share) as file:
        parts = _list_parts(file)
        labels_P = [_read_labels(path, file, part) for part in parts]
        inputs = _read_inputs(path, file)
        num_classes = _count_classes(path, np.concatenate(labels_P))
        groups_P = _read_texts(path, file, "group", parts)
        # No client holds examples of the test part.
        clients_P = _read_texts(path, file, "client", parts if len(parts) == 1 else parts[:-1])
    # From here on a drawn test set looks like a part of the file: the last one.
    drawn: list[Positions] = []
    if share is not None:
        is_test_N = draw_test_rows(f"{path}", labels_P[0], share)
        drawn = [np.flatnonzero(~is_test_N), np.flatnonzero(is_test_N)]
        labels_P = [labels_P[0][part] for part in drawn]
        groups_P = [groups[part] for groups in groups_P for part in drawn]
        clients_P = [clients[drawn[0]] for clients in clients_P]
    names, pool_groups, test_groups = _number_groups(path, groups_P, is_drawn=share is not None)
    assigned = None
    if clients_P:
        groups = None if pool_groups is None else [names[group] for group in pool_groups]
        assigned = assign_clients(path.name, np.concatenate(clients_P).astype(str).tolist(), groups)
    unheld = 0 if assigned is None else (assigned.num_rows or 0) - sum(map(len, assigned.held_K))
    facts = Facts(
        num_classes=num_classes,
        inputs=inputs,
        pool_size=sum(map(len, labels_P[:-1])),
        num_groups=len(names) or None,
        assigned=assigned,
        notes=(f"{path}: nobody has {unheld} examples, which have no client",) if unheld else (),
    )

    def read_pair() -> Pair:
        """Read the pool and the server's test set."""
        with _open_file(path, share) as file:
            images_P = _read_all_examples(path, file, parts)
        if drawn:
            images_P = [images_P[0][part] for part in drawn]
        for images, labels in zip(images_P, labels_P, strict=True):
            _check_alike(path, ImageSet(images, labels, vocabulary=inputs.vocabulary), inputs)
        # A pool of one part is not copied: it may be most of the memory.
        images = images_P[0] if len(images_P) == 2 else np.concatenate(images_P[:-1])
        labels = np.concatenate(labels_P[:-1])
        pool = ImageSet(images, labels, pool_groups, names, inputs.vocabulary, assigned)
        test_names = () if test_groups is None else names
        return pool, ImageSet(images_P[-1], labels_P[-1], test_groups, test_names, inputs.vocabulary)

    return facts, read_pair


def read_images(path: Path) -> Pair:
    """Read (pool, server's test set) of a file with a test part."""
    return open_npz(path)[1]()


def _check_alike(path: Path, part: ImageSet, inputs: Inputs) -> None:
    """Check that a part has examples of the expected kind and shape, and a label for each."""
    if part.inputs != inputs:
        raise DataError(f"{path}: images of different sizes: {inputs} and {part.inputs}; make them one size")
    if len(part.images) != len(part.labels):
        raise DataError(
            f"{path}: {len(part.labels)} labels for {len(part.images)} images; give each image one label"
        )


def _count_classes(path: Path, labels: ClassLabels) -> int:
    # Classes numbered without gaps have no label beyond the number of images. Without this check a single
    # wrong label could mean billions of classes.
    """Count the classes: the largest label plus one."""
    outside = (labels < 0) | (labels >= len(labels))
    if len(labels) == 0 or outside.any():
        label = f"label {labels[outside][0]}" if len(labels) else "no label"
        raise DataError(f"{path}: {label} found; number the classes 0, 1, 2, ... and give each some images")
    check_numbered_from_zero(f"{path}", labels)
    if labels.max() == 0:
        raise DataError(f"{path} has one class; number the classes 0, 1, 2, ... and give each some images")
    return int(labels.max()) + 1


@contextmanager
def _open_file(path: Path, share: float | None) -> Iterator[NpzFile]:
    """Open the file and check its keys; convert every error of reading it to a DataError in one line.

    It must have a test part, unless a `share` of its training part is drawn as such.
    """
    check_is_file(path, "an npz file with MedMNIST's keys (folder:PATH names a folder of images)")
    check_format(path, "npz")
    if path.exists() and not zipfile.is_zipfile(path):
        raise DataError(
            f"{path} is not a complete npz file; expected what numpy.savez writes, with "
            "train_images, train_labels, test_images and test_labels; was it downloaded or copied completely?"
        )
    try:
        # A pickle in the file could run any code. NumPy would refuse it only when the array is read;
        # `_check_plain` does so at once, with advice.
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, NpzFile):
                raise ValueError("an npy file")
            parts = dict.fromkeys(["train", *_list_parts(file), *(["test"] if share is None else [])])
            if share is not None and (others := [part for part in parts if part != "train"]):
                raise DataError(
                    f"{path} has {others[0]}_images; leave out the drawn share #{TEST_SHARE}={share}"
                )
            keys = [f"{part}_{what}" for part in parts for what in ("images", "labels")]
            for key in keys:
                if key not in file:
                    raise DataError(
                        f"{path} has no '{key}'; expected train_images, train_labels, test_images and "
                        "test_labels (val_images and val_labels are optional; #test=0.2 draws a test set), "
                        f"found: {', '.join(file) or 'nothing'}"
                    )
            groups = [f"{part}_group" for part in parts if f"{part}_group" in file]
            for key in file:
                _check_plain(path, file, key)
            # By the headers: a compressed file may be a thousand times smaller than its arrays.
            check_memory(path, sum(_measure_array(file, key) for key in keys + groups))
            yield file
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; expected an npz file with MedMNIST's keys there") from error
    except DAMAGE as error:
        raise damaged_file_error(path, "it cannot be read as an npz file of plain arrays") from error


def _check_plain(path: Path, file: NpzFile, key: str) -> None:
    """Check that an array is no pickle of Python objects."""
    with _get_archive(file).open(f"{key}.npy") as member:
        _, _, dtype = _read_header(member)
    if dtype.hasobject:
        raise DataError(
            f"{path}: {key} has Python objects, a pickle, which can run any code when it is read; save it "
            f"with a plain type, numbers or texts: np.array({key}.tolist())"
        )


def _measure_array(file: NpzFile, key: str) -> int:
    """Measure an array in bytes by its header; the archive must hold as many."""
    with _get_archive(file).open(f"{key}.npy") as member:
        shape, _, dtype = _read_header(member)
        size = prod(shape) * dtype.itemsize
        # A crafted header could claim any shape; the size of the archive's member bounds the memory.
        if (
            min(shape, default=0) < 0
            or member.tell() + size != _get_archive(file).getinfo(f"{key}.npy").file_size
        ):
            raise ValueError(f"{key} has another size than its header says")
    return size


def _get_archive(file: NpzFile) -> zipfile.ZipFile:
    """Get the open zip archive of the file."""
    assert file.zip is not None, "it is open"
    return file.zip


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, whether the first index runs fastest, and type of an array."""
    if np.lib.format.read_magic(member) == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)


def _list_parts(file: NpzFile) -> Sequence[str]:
    """List the parts that the file has, in the order train, val, test."""
    return tuple(part for part in ("train", "val", "test") if f"{part}_images" in file)


def _read_inputs(path: Path, file: NpzFile) -> Inputs:
    """Read kind and shape of the examples from the header of the training part."""
    with _get_archive(file).open("train_images.npy") as member:
        shape, _, dtype = _read_header(member)
    if 0 in shape[1:]:
        raise DataError(f"{path}: train_images of shape {shape} has nothing to learn from; add some numbers")
    if dtype == np.uint8:
        return Inputs("pixels", _find_image_shape(path, "train_images", shape))
    if dtype.kind == "f" and len(shape) in (2, 3, 4):
        return Inputs("numbers", shape[1:])
    if dtype.kind in "iu" and len(shape) == 2:
        tokens = [file[key] for key in file if key.endswith("_images")]
        for part in tokens:
            check_tokens(f"{path}: train_images", part)
        return Inputs("tokens", shape[1:], max(int(part.max(initial=0)) for part in tokens) + 1)
    raise DataError(
        f"{path}: train_images is {dtype} of shape {shape}; save images as uint8, 0 to 255, numbers as "
        "float32, shape (rows, columns) or (rows, channels, length), tokens as int64, shape (texts, length)"
    )


def _find_image_shape(path: Path, key: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Find (channels, height, width) of images from the shape of their array."""
    if len(shape) == 3:
        return 1, shape[1], shape[2]
    if len(shape) == 4 and shape[3] in (1, 3):
        return shape[3], shape[1], shape[2]
    raise DataError(
        f"{path}: {key} of shape {shape} are not images of one size; "
        "expected (images, height, width) or (images, height, width, 1 or 3)"
    )


def _read_all_examples(path: Path, file: NpzFile, parts: Sequence[str]) -> list[Images]:
    """Read the examples of all parts, with common offsets of numbers.

    The last part is no part of the pool, if there are several.
    """
    keys = [f"{part}_images" for part in parts]
    images_P = [_read_examples(path, file, key) for key in keys]
    singles = cast_parts(images_P, len(keys) - 1 or 1)
    for key, images, single in zip(keys, images_P, singles, strict=True):
        if (place := find_overflow(single)) is not None:
            row, column = place
            value = images[row, column].flat[np.argmin(np.isfinite(single[row, column]))]
            raise DataError(f"{path}: row {row} of {key} has {value:g} in column {column}; {OVERFLOW_HELP}")
    return singles


def _read_examples(path: Path, file: NpzFile, key: str) -> NDArray[Any]:
    """Read the examples of a part; many uncompressed images become a view of the file instead."""
    entry = _get_archive(file).getinfo(f"{key}.npy")
    with _get_archive(file).open(entry) as member:
        (shape, is_fortran, dtype), start = _read_header(member), member.tell()
        # Bytes can be mapped as they are; other types are checked or converted as a whole.
        is_plain = dtype == np.uint8 and not is_fortran and entry.compress_type == zipfile.ZIP_STORED
        if not is_plain or entry.file_size < LARGE:
            return _convert_stored(path, key, file[key])
        while member.read(LARGE):  # At its end its checksum is compared.
            pass
    return _convert_stored(path, key, map_member(path, entry, start, shape))


def _convert_stored(path: Path, key: str, images: NDArray[Any]) -> NDArray[Any]:
    """Convert stored examples to the layout of `ImageSet.images`; numbers keep the precision of the file."""
    if images.dtype.kind == "f":
        if not np.isfinite(images).all():
            row = int(np.argmin(np.isfinite(images).reshape(len(images), -1).all(axis=1)))
            raise DataError(f"{path}: row {row} of {key} has a value that is missing or infinite; fill it in")
        return images
    if images.dtype != np.uint8:
        check_tokens(f"{path}: {key}", images)
        return np.ascontiguousarray(images, np.int64)
    channels, height, width = _find_image_shape(path, key, images.shape)
    by_pixel = images.reshape(len(images), height, width, channels)
    return np.ascontiguousarray(by_pixel.transpose(0, 3, 1, 2), np.uint8)


def _read_labels(path: Path, file: NpzFile, part: str) -> ClassLabels:
    """Read labels of shape (N,) or (N, 1) as int64 of shape (N,)."""
    labels = file[f"{part}_labels"]
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape not in ((len(labels),), (len(labels), 1)):
        raise DataError(
            f"{path}: {part}_labels is {labels.dtype} of shape {labels.shape}; expected one whole number an "
            "image from 0 on, shape (images,) or (images, 1); np.unique(labels, return_inverse=True) numbers "
            "classes"
        )
    return labels.reshape(-1).astype(np.int64)


def _read_texts(path: Path, file: NpzFile, what: str, parts: Sequence[str]) -> list[NDArray[Any]]:
    """Read the group or client of each example of some parts; empty if no part has any.

    Args:
        path: the file, for messages.
        file: the open file.
        what: `group` or `client`.
        parts: the parts that must all have the key, if one of them has it.
    """
    keys = [f"{part}_{what}" for part in parts]
    if not any(key in file for key in keys):
        return []
    for part, key in zip(parts, keys, strict=True):
        if key not in file:
            raise DataError(f"{path} has no '{key}'; give each image a {what}: {', '.join(keys)}, or none")
        given = file[key]
        if given.dtype.kind not in "iuU" or given.shape != (len(file[f"{part}_labels"]),):
            raise DataError(
                f"{path}: {key} is {given.dtype} of shape {given.shape}; expected a whole number or a text "
                "an image, shape (images,)"
            )
    return [file[key] for key in keys]


def _number_groups(
    path: Path, groups_P: Sequence[NDArray[Any]], *, is_drawn: bool
) -> tuple[tuple[str, ...], Groups | None, Groups | None]:
    """Number the groups from 0, and find the group of each example of the pool and of the test part.

    Args:
        path: the file, for messages.
        groups_P: the group of each example, by part; the last part is the test part. Empty: no groups.
        is_drawn: whether the test part is drawn; it then has no groups if one of them is not in the pool.

    Returns:
        The groups' names, the group of each example of the pool, and that of the test part.
    """
    if not groups_P:
        return (), None, None
    (given, position_N), (test_groups, position_T) = (
        np.unique(groups, return_inverse=True) for groups in (np.concatenate(groups_P[:-1]), groups_P[-1])
    )
    pool_names, test_names = given.astype(str).tolist(), test_groups.astype(str).tolist()
    names = sort_names(set(pool_names)) if is_drawn else list(dict.fromkeys(compose_accents(pool_names)))
    numbers_N = number_names(pool_names, names)[position_N]
    # A group of a drawn test part may be missing from the pool by chance: the part then has no groups. In a
    # test part of the user's it is a mistake.
    if unseen := [name for name in compose_accents(test_names) if name not in names]:
        if is_drawn:
            return tuple(names), numbers_N, None
        raise DataError(
            f"{path}: group '{unseen[0]}' of test_group has no training images; remove its test images"
        )
    return tuple(names), numbers_N, number_names(test_names, names)[position_T]

"""Data sets as the package `datasets` saves them, in Arrow files: of the Hugging Face hub, or in a folder.

What `Dataset.save_to_disk` and `DatasetDict.save_to_disk` write is read, and folders of the cache. Nothing of
it is executed: files have columns, and a description of these as JSON.

Shapes: R rows.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgrid.engine.federation.data.names import HUB, compose_accents
from fedgrid.engine.federation.data.tables.columns import IMAGES, LISTS, NUMBERS, TEXTS, Column, Lists
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.data.tables import check_texts, format_texts, is_text, parse_numbers

if TYPE_CHECKING:
    import pyarrow as pa

FILE = re.compile(r"(?P<stem>.+?)(?:-\d{5}-of-(?P<number>\d{5}))?\.arrow")
CACHE_FILE = re.compile(r"(?:cache|tmp)-?[0-9a-z_]*\.arrow")
"""Names of files that `datasets` leaves next to them."""
CLASSES, PICTURES = "ClassLabel", "Image"
"""What `datasets` calls such columns."""
DATA, WHOLE_SPLIT = "data", "train"
"""Name of the files of a data set that has no splits, or of one split in its own folder; and that split."""


def list_arrow_files(folder: Path) -> list[Path]:
    """List the files that are read in a folder."""
    return [file for split_files in find_splits(folder).values() for file in split_files]


def find_splits(folder: Path) -> dict[str, list[Path]]:
    """Find the files of each split.

    Raises:
        DataError: there are none, or not all.
    """
    splits: dict[str, list[Path]] = {}
    for file in sorted([*folder.glob("*.arrow"), *folder.glob("*/*.arrow")]):
        match = FILE.fullmatch(file.name)
        if match is None or CACHE_FILE.fullmatch(file.name):
            continue
        split = match["stem"].rpartition("-")[2]
        if split == DATA:
            split = file.parent.name if file.parent != folder else WHOLE_SPLIT
        splits.setdefault(split, []).append(file)
    if not splits:
        raise DataError(
            f"{folder} has no files that `save_to_disk` of the package datasets writes; {HUB}:NAME, "
            "without a path, is a data set of the Hugging Face hub"
        )
    for split, split_files in splits.items():
        # Each file's name says how many there are, so that a missing one is noticed.
        numbers = {int(match["number"] or 1) for file in split_files if (match := FILE.fullmatch(file.name))}
        if numbers != {len(split_files)}:
            raise DataError(
                f"{folder}: split {split} has {len(split_files)} files, and {split_files[-1].name} is named "
                "as one "
                f"of {max(numbers)}; save it again into a new folder"
            )
    return splits


def read_splits(source: str, splits: Sequence[Sequence[Path]]) -> "tuple[pa.Table, list[int]]":
    """Read some splits' files as one table, one split after the other; return it, and the rows of each split.

    Raises:
        DataError: files are damaged, or splits differ in their columns.
    """
    import pyarrow as pa

    parts = [_read_split(split_files) for split_files in splits]
    try:
        return pa.concat_tables(parts), [part.num_rows for part in parts]
    except pa.ArrowException as error:
        names = " and ".join(
            ", ".join(f"{field.name} ({field.type})" for field in part.schema) for part in parts
        )
        raise DataError(f"{source}: splits have different columns: {names}; take one of them") from error


def read_columns(source: str, table: "pa.Table") -> dict[str, Column]:
    """Build the columns of such a table.

    Raises:
        DataError: a text is not UTF-8.
    """
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    features = about.get("info", {}).get("features", {})
    return {
        composed_name: _build_column(check_texts(source, name, table[name]), features.get(name, {}))
        for name, composed_name in zip(table.column_names, compose_accents(table.column_names), strict=True)
    }


def _read_split(split_files: Sequence[Path]) -> "pa.Table":
    """Read the files of a split as one table, mapped from disk.

    Raises:
        DataError: one is damaged.
    """
    import pyarrow as pa

    parts = []
    for file in split_files:
        try:
            # Mapped, not read: the files of image data sets may be larger than the memory.
            parts.append(pa.ipc.open_stream(pa.memory_map(str(file))).read_all())
        except (OSError, pa.ArrowException) as error:
            cause = str(error).partition("\n")[0]
            raise DataError(f"{file} is damaged or incomplete: {cause}; save or fetch it again") from error
    return pa.concat_tables(parts)


def _build_column(column: "pa.ChunkedArray", feature: Mapping[str, Any]) -> Column:
    """Build a column from its Arrow type and from what `datasets` says about it."""
    import pyarrow as pa

    kind, stored = feature.get("_type", ""), column.type
    if isinstance(stored, pa.ExtensionType):  # Where `datasets` is imported, its arrays are.
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], stored.storage_type)
        stored = column.type
    if kind == CLASSES:
        classes = tuple(feature["names"])
        return Column(TEXTS, partial(_class_names, column, classes), classes=classes)
    if kind == PICTURES:
        return Column(IMAGES, image=partial(_read_image, column))
    if is_text(stored):
        return Column(TEXTS, lambda: [text or "" for text in column.to_pylist()])
    if _is_number(stored):
        return Column(NUMBERS, partial(format_texts, column), partial(parse_numbers, column))
    inner = stored
    while _is_list(inner):
        inner = inner.value_type
    if _is_number(inner):
        return Column(LISTS, lists=partial(_read_lists, column))
    return Column(f"{stored if kind in ('', 'Value') else kind}")


def _is_number(kind: "pa.DataType") -> bool:
    """Check whether values of a type are numbers or true and false."""
    from pyarrow import types

    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _is_list(kind: "pa.DataType") -> bool:
    """Check whether values of a type are lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _class_names(column: "pa.ChunkedArray", class_names: Sequence[str]) -> list[str]:
    """Find the class of each row, empty where it is missing, for which -1 stands too."""
    classes = dict(enumerate(class_names))
    return [classes.get(label, "") for label in column.to_pylist()]


def _read_image(column: "pa.ChunkedArray", row: int) -> bytes | Path | None:
    """Read what is in the file of an image, or its path, where images of a hub's folder are."""
    value = column[row].as_py() or {}
    content, path = value.get("bytes"), value.get("path")
    return Path(path) if content is None and path else content


def _read_lists(column: "pa.ChunkedArray") -> Lists:
    """Read nested lists as one flat array, and the lengths of the lists at each depth."""
    import pyarrow.compute as pc

    # Level by level, in Arrow: lists of Python would take many times the memory.
    values, lengths = [], []
    for chunk in column.chunks:
        chunk_lengths = []
        while _is_list(chunk.type):
            chunk_lengths.append(pc.list_value_length(chunk).fill_null(0).to_numpy(zero_copy_only=False))
            chunk = chunk.flatten()
        values.append(chunk.to_numpy(zero_copy_only=False))
        lengths.append(chunk_lengths)
    return Lists(np.concatenate(values), [np.concatenate(depth) for depth in zip(*lengths, strict=True)])

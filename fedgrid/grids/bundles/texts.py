"""Texts in the files of a bundle that end up on the user's terminal: none may control it.

Once imported, they are shown as they are.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.parquet_files import read_parquet

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, colour the screen, or reverse the direction of a text."""


def check_texts(path: Path, folder: Path) -> None:
    """Check the JSON files and tables of a bundle that was unpacked into a folder.

    Raises:
        ConfigError: a text has control characters, or a file cannot be read.
    """
    for file in sorted(folder.rglob("*.*")):
        try:
            texts = [text for text in _texts_in(file) if CONTROL.search(text)]
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: {file.name} cannot be read: {str(error):.200}") from error
        if texts:
            name = file.relative_to(folder).as_posix()
            raise ConfigError(f"{path}: {name} has control characters, in {texts[0]!r:.200}: no bundle has")


def _texts_in(file: Path) -> Iterator[str]:
    if file.suffix == ".json":
        yield from _texts(json.loads(file.read_bytes()))
    elif file.suffix == ".jsonl":
        for line in file.read_bytes().splitlines():
            yield from _texts(json.loads(line))
    elif file.suffix == ".parquet":
        with file.open("rb") as data:
            table = read_parquet(data, lambda schema: schema.names)
        for name, column in zip(table.column_names, table.columns, strict=True):
            yield name
            if pa.types.is_string(column.type):
                yield from filter(None, column.unique().to_pylist())


def _texts(value: Any) -> Iterator[str]:
    """Yield each text in a value of JSON, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(inner)

"""JSON files that carry a checksum of themselves, and the number of the storage's layout.

A sealed file has the keys `layout`, and `sha256` of all other keys. The layout is the names and the forms of
a storage's files. It is part of no run's id: `engine.federation.format.FORMAT` is.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

LAYOUT = 2
"""Layout of the storages that this code reads and writes; the first one had no such key, but `format`."""
VERSION, FORMER_VERSION, CHECKSUM = "layout", "format", "sha256"
"""Keys that a sealed file adds; `format` is the key of the first layout."""


class BadFile(ValueError):
    """The bytes of a file are not those that were written."""


class OtherLayout(BadFile):
    """A file is of a storage with another layout; its bytes may be as they were written."""


def seal_values(values: Mapping[str, Any], indent: int | None = None) -> str:
    """Format values, in their order, as the text of a JSON file with the layout and a checksum."""
    body = {**values, VERSION: LAYOUT}
    return json.dumps({**body, CHECKSUM: _compute_checksum(body)}, indent=indent) + "\n"


def unseal_text(text: str | bytes) -> dict[str, Any]:
    """Read the values of a sealed file from its content, without layout and checksum.

    Raises:
        OtherLayout: it is of another layout.
        BadFile: it is not what was written.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFile("it is not JSON") from error
    if not isinstance(values, dict):
        raise BadFile("it is not a JSON object")
    # The layout before the checksum: files of another layout have another checksum, and are not damaged.
    check_layout(1 if VERSION not in values and FORMER_VERSION in values else values.get(VERSION))
    if values.pop(CHECKSUM, None) != _compute_checksum(values):
        raise BadFile("its checksum differs")
    del values[VERSION]
    return values


def check_layout(layout: object) -> None:
    """Check the layout that a file names, None if it names none.

    Raises:
        OtherLayout: it is another one than this code's.
        BadFile: it is not a number.
    """
    if not isinstance(layout, int) or isinstance(layout, bool):
        raise BadFile("it names no layout")
    if layout != LAYOUT:
        raise OtherLayout(f"layout {layout}")


def _compute_checksum(body: Mapping[str, Any]) -> str:
    """Compute the checksum of all other keys, in sorted order."""
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

"""What a run calls the user's own images: by short name, size and content, never by their path.

`folder:/home/me/cats#64` is `folder:cats#64x64@3f2a91c0d4e5` in a run's configuration, so that the run has
the same id wherever the images lie. `#64x64` is the size to which the images of a folder are scaled.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError

SIZED = re.compile(r"(?P<place>.+)#(?P<width>\d+)(x(?P<height>\d+))?")
LARGEST = 4096

Size = tuple[int, int]
"""Width and height in pixels."""


def place_and_size(given: str) -> tuple[str, Size | None]:
    """Return a path without its size, and the size; None if it has none: `("pacs", (64, 64))`.

    Raises:
        ConfigError: for a side that no image has.
    """
    sized = SIZED.fullmatch(given)
    if sized is None:
        return given, None
    width = int(sized["width"])
    size = width, int(sized["height"] or width)
    if not 1 <= min(size) <= max(size) <= LARGEST:
        raise ConfigError(
            f"{given}: expected #SIDE or #WIDTHxHEIGHT behind a folder, 1 to {LARGEST} pixels", ("dataset",)
        )
    return sized["place"], size


def mark(size: Size | None, before: str = "#") -> str:
    """Return a size as it stands behind a path: `#64x64`; empty if there is none."""
    return f"{before}{size[0]}x{size[1]}" if size else ""


PARTITION = "partition"
"""What stands in place of a format before the name of a file that says who holds what."""
NAME = re.compile(rf"(?P<kind>folder|npz|{PARTITION}):(?P<short>[^/]+)@(?P<digest>[0-9a-f]{{12}})")
"""What a run calls images: format, name of the folder or file with the size it is scaled to, and a digest."""


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


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of the user's own images in a value and the values within it."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from names_in(inner)
    elif isinstance(value, str) and is_name(value):
        yield value

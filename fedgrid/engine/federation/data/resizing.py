"""The size to which the images of a folder are scaled, as its name says: `folder:pacs#64` or `#80x60`."""

import re

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
    found = SIZED.fullmatch(given)
    if found is None:
        return given, None
    width = int(found["width"])
    size = width, int(found["height"] or width)
    if not 1 <= min(size) <= max(size) <= LARGEST:
        raise ConfigError(
            f"{given}: expected #SIDE or #WIDTHxHEIGHT behind a folder, 1 to {LARGEST} pixels", ("dataset",)
        )
    return found["place"], size


def mark(size: Size | None, before: str = "#") -> str:
    """Return a size as it stands behind a path: `#64x64`; empty if there is none."""
    return f"{before}{size[0]}x{size[1]}" if size else ""

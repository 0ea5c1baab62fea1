"""What a run calls the user's own images: by short name and content, never by their path.

`folder:/home/me/cats#64` is `folder:cats#64x64@3f2a91c0d4e5` in a run's configuration, so that the run has
the same id wherever the images lie.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.data.resizing import mark, place_and_size

NAME = re.compile(r"(?P<kind>folder|npz):(?P<short>[^/]+)@(?P<digest>[0-9a-f]{12})")
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

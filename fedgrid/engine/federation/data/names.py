"""What a run calls the user's own data: by short name, mark and content, never by their path.

`folder:/home/me/cats#64` is `folder:cats#64x64@3f2a91c0d4e5` in a run's configuration, so that the run has
the same id wherever the images lie. Behind `#` stands a mark: the size to which the images of a folder are
scaled, or options of the reader, as in `csv:t.csv#client=site,label=y`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from unicodedata import normalize

from fedgrid.engine.federation.errors import ConfigError

ITEM = r"(?:\d+(?:x\d+)?|[a-z_]+=[^,]*)"
MARKED = re.compile(rf"(?P<place>.+?)#(?P<items>{ITEM}(?:,{ITEM})*)")
LARGEST = 4096
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")

Size = tuple[int, int]
"""Width and height in pixels."""
Option = tuple[str, str]
"""Key and value."""
TEST_SHARE, TARGET, DROP = "test", "target", "drop"


def place_and_mark(given: str) -> tuple[str, str]:
    """Return a path without its mark, and the mark in the one way in which runs have it.

    `pacs#64` is `("pacs", "#64x64")`, `t.csv#label=y,client=site` is `("t.csv", "#client=site,label=y")`.
    Without a mark that is empty.

    Raises:
        ConfigError: for a side that no image has.
    """
    marked = MARKED.fullmatch(given)
    if marked is None:
        return given, ""
    items = {item if "=" in item else _size(given, item) for item in marked["items"].split(",")}
    return marked["place"], f"#{','.join(sorted(items))}"


def _size(given: str, item: str) -> str:
    width, _, height = item.partition("x")
    size = int(width), int(height or width)
    if not 1 <= min(size) <= max(size) <= LARGEST:
        raise ConfigError(
            f"{given}: expected #SIDE or #WIDTHxHEIGHT behind a folder, 1 to {LARGEST} pixels", ("dataset",)
        )
    return f"{size[0]}x{size[1]}"


def size_and_options(mark: str) -> tuple[Size | None, list[Option]]:
    """Return what a mark says, as `place_and_mark` returns it: a size, if it has one, and options by key."""
    size, options = None, []
    for item in mark.removeprefix("#").split(",") if mark else ():
        key, equals, value = item.partition("=")
        if equals:
            options.append((key, value))
        else:
            width, height = key.split("x")
            size = int(width), int(height)
    return size, options


def has_target(dataset: str) -> bool:
    """Return whether models of a data set predict numbers, not classes: `csv:t.csv#target=y`."""
    _, _, given = without_digest(dataset).partition(":")
    return any(key == TARGET for key, _ in size_and_options(place_and_mark(given)[1])[1])


def parse_share(source: str, value: str) -> float:
    """Return the share that `#test=0.2` asks for.

    Raises:
        ConfigError: it is none.
    """
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ConfigError(
            f"{source}: test = {value}; expected a share, as in #{TEST_SHARE}=0.2", ("dataset",)
        )
    return share


def only_share(source: str, options: Sequence[Option]) -> float | None:
    """Return the share of the test set, None without one, where nothing else can be said of a data set.

    Raises:
        ConfigError: something else is said.
    """
    for key, value in options:
        if key != TEST_SHARE:
            raise ConfigError(
                f"{source}: unknown option '{key}={value}'; allowed: {TEST_SHARE}=SHARE", ("dataset",)
            )
    return parse_share(source, options[-1][1]) if options else None


PARTITION = "partition"
"""What stands in place of a format before the name of a file that says who holds what."""
TABLES = ("csv", "parquet")
"""Formats of tables."""
HUB = "hf"
"""Data sets of the Hugging Face hub, or saved in a folder by `datasets`."""
KINDS = "|".join(("folder", "npz", *TABLES, HUB, PARTITION))
CONFIG = "config"
"""Option: the configuration of a data set on the hub."""
COMMIT = re.compile(r"[0-9a-f]{40}")
"""A revision of a data set on the hub."""
NAME = re.compile(
    rf"(?:{KINDS}):[^/]+(?:#.*)?@[0-9a-f]{{12}}|{HUB}:[^/#]+(?:/[^/#]+)?(?:#.*)?@{COMMIT.pattern}"
)
"""What a run calls data: format, name of the folder or file with its mark, and a digest.

Of a data set on the hub it has the whole revision, from which it can be fetched anywhere.
"""


def is_name(dataset: str) -> bool:
    """Return whether a data set is named by content, as in a run's configuration."""
    return NAME.fullmatch(dataset) is not None


def digest_in(dataset: str) -> str:
    """Return the digest, or the hub's revision, in what a run calls images."""
    return dataset.rpartition("@")[2]


def without_digest(dataset: str) -> str:
    """Return a data set's name without the digest: `folder:cats#64x64`; other names as they are."""
    return dataset.rpartition("@")[0] if is_name(dataset) else dataset


def short_name(dataset: str) -> str:
    """Return a data set's name without path, options or digest: `mnist`, `folder_cats-64x64`."""
    kind, _, given = without_digest(dataset).partition(":")
    path, mark = place_and_mark(given)
    size, _ = size_and_options(mark)
    return f"{kind}_{Path(path).stem}{'-{}x{}'.format(*size) if size else ''}" if given else kind


def seeded_as(name: str) -> str:
    """Return the name from which random numbers are drawn in place of a data set's format or short name.

    The rows of a table are drawn like those of an npz file: the same numbers give the same run.
    """
    kind, line, stem = name.partition("_")
    return f"npz{line}{stem}" if kind in (*TABLES, HUB) else name


def on_hub(dataset: str) -> tuple[str, str] | None:
    """Return name and revision (empty: the newest) of a data set on the Hugging Face hub, None for others.

    `hf:flwrlabs/femnist@main#64` is one; `hf:./femnist`, `hf:/femnist` and what came with a job are none.
    """
    kind, _, given = without_digest(dataset).partition(":")
    if kind != HUB or given.startswith((".", "/", "~", "@")):
        return None
    place, _ = place_and_mark(given)
    if not is_name(dataset):
        repository, _, revision = place.partition("@")
        return repository, revision
    commit = digest_in(dataset)
    return (place, commit) if COMMIT.fullmatch(commit) else None


def names_in(value: Any) -> Iterator[str]:
    """Yield the names of the user's own images in a value and the values within it."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from names_in(inner)
    elif isinstance(value, str) and is_name(value):
        yield value


def composed(texts: Sequence[str]) -> list[str]:
    """Return texts with letters and their accents composed (NFC): two spellings of one name are one name."""
    return [text if text.isascii() else normalize("NFC", text) for text in texts]


def sort_names(names: Collection[str]) -> list[str]:
    """Return different names, composed: ascending as numbers if all are numbers, else as texts.

    Texts are in the order in which they are written, composed or not.
    """
    if all(map(NUMBER.fullmatch, names)):
        return sorted(names, key=lambda name: (Decimal(name), name))
    return list(dict.fromkeys(composed(sorted(names))))


def are_numbers(names: Collection[str]) -> bool:
    """Return whether all names are whole numbers."""
    return all(name.isdecimal() for name in names)

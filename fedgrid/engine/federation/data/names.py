"""Names that a run gives the user's own data: short name, mark and content, never a path.

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
# The path is matched as short as possible: it may hold a `#` itself, as long as no option follows that one.
MARKED = re.compile(rf"(?P<place>.+?)#(?P<items>{ITEM}(?:,{ITEM})*)")
LARGEST = 4096
"""Most pixels of a side in a mark."""
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")

Size = tuple[int, int]
"""Width and height in pixels."""
Option = tuple[str, str]
"""Key and value."""
TEST_SHARE, TARGET, DROP = "test", "target", "drop"


def split_mark(given: str) -> tuple[str, str]:
    """Split a path from its mark, and bring the mark into the form that runs use.

    `pacs#64` gives `("pacs", "#64x64")`, `t.csv#label=y,client=site` gives `("t.csv",
    "#client=site,label=y")`. Without a mark the second part is empty.

    Raises:
        ConfigError: the mark is a size that no image has.
    """
    marked = MARKED.fullmatch(given)
    if marked is None:
        return given, ""
    # Sorted and each once: two spellings of the same options must give one name, and so one run id.
    items = {item if "=" in item else _format_size(given, item) for item in marked["items"].split(",")}
    return marked["place"], f"#{','.join(sorted(items))}"


def _format_size(given: str, item: str) -> str:
    """Format a size as `WIDTHxHEIGHT`; a single number is a square."""
    width, _, height = item.partition("x")
    size = int(width), int(height or width)
    if not 1 <= min(size) <= max(size) <= LARGEST:
        raise ConfigError(
            f"{given}: expected #SIDE or #WIDTHxHEIGHT behind a folder, 1 to {LARGEST} pixels", ("dataset",)
        )
    return f"{size[0]}x{size[1]}"


def parse_mark(mark: str) -> tuple[Size | None, list[Option]]:
    """Parse a mark, as `split_mark` returns it, into its size, if any, and its (key, value)s."""
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
    """Check whether models of a data set predict numbers and not classes, as in `csv:t.csv#target=y`."""
    _, _, given = strip_digest(dataset).partition(":")
    return any(key == TARGET for key, _ in parse_mark(split_mark(given)[1])[1])


def parse_share(source: str, value: str) -> float:
    """Parse the share of a test set, as in `#test=0.2`.

    Raises:
        ConfigError: the value is no number between 0 and 1.
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


def parse_sole_share(source: str, options: Sequence[Option]) -> float | None:
    """Parse the share of the test set where no other option is allowed; None without one.

    Raises:
        ConfigError: there is another option.
    """
    for key, value in options:
        if key != TEST_SHARE:
            raise ConfigError(
                f"{source}: unknown option '{key}={value}'; allowed: {TEST_SHARE}=SHARE", ("dataset",)
            )
    return parse_share(source, options[-1][1]) if options else None


PARTITION = "partition"
"""Stands in place of a format before the name of a split's file."""
TABLES = ("csv", "parquet")
"""Formats of tables that are files."""
HUB = "hf"
"""Format of data sets of the Hugging Face hub, or saved in a folder by the package `datasets`."""
KINDS = "|".join(("folder", "npz", *TABLES, HUB, PARTITION))
CONFIG = "config"
"""Option that chooses the configuration of a data set on the hub."""
COMMIT = re.compile(r"[0-9a-f]{40}")
"""A revision of a data set on the hub."""
NAME = re.compile(
    rf"(?:{KINDS}):[^/]+(?:#.*)?@[0-9a-f]{{12}}|{HUB}:[^/#]+(?:/[^/#]+)?(?:#.*)?@{COMMIT.pattern}"
)
"""Name that a run gives data: format, name of the folder or file with its mark, and a digest of the content.

For a data set on the hub the digest is the whole revision, from which it can be fetched anywhere."""


def is_content_name(dataset: str) -> bool:
    """Check whether a data set is named by content, as in a run's configuration."""
    return NAME.fullmatch(dataset) is not None


def extract_digest(dataset: str) -> str:
    """Extract the digest, or the hub's revision, from a name by content."""
    return dataset.rpartition("@")[2]


def strip_digest(dataset: str) -> str:
    """Remove the digest from a name by content: `folder:cats#64x64`; other names stay as they are."""
    return dataset.rpartition("@")[0] if is_content_name(dataset) else dataset


def shorten_name(dataset: str) -> str:
    """Shorten a data set's name to one without path, options or digest: `mnist`, `folder_cats-64x64`."""
    kind, _, given = strip_digest(dataset).partition(":")
    path, mark = split_mark(given)
    size, _ = parse_mark(mark)
    return f"{kind}_{Path(path).stem}{'-{}x{}'.format(*size) if size else ''}" if given else kind


def find_seed_name(name: str) -> str:
    """Find the name that random numbers are drawn for, given a data set's format or short name.

    A table counts as an npz file: the same numbers give the same run, whatever file they are in.
    """
    kind, line, stem = name.partition("_")
    return f"npz{line}{stem}" if kind in (*TABLES, HUB) else name


def parse_hub_name(dataset: str) -> tuple[str, str] | None:
    """Parse name and revision (empty: the newest) of a data set on the Hugging Face hub; None for others.

    `hf:flwrlabs/femnist@main#64` is one; `hf:./femnist`, `hf:/femnist` and data that came with a job are
    none.
    """
    kind, _, given = strip_digest(dataset).partition(":")
    if kind != HUB or given.startswith((".", "/", "~", "@")):
        return None
    place, _ = split_mark(given)
    if not is_content_name(dataset):
        repository, _, revision = place.partition("@")
        return repository, revision
    commit = extract_digest(dataset)
    return (place, commit) if COMMIT.fullmatch(commit) else None


def find_content_names(value: Any) -> Iterator[str]:
    """Yield the names by content in a value and the values within it."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from find_content_names(inner)
    elif isinstance(value, str) and is_content_name(value):
        yield value


def compose_accents(texts: Sequence[str]) -> list[str]:
    """Compose letters and their accents (NFC), so that two spellings of one name are one name."""
    # macOS stores accents apart from their letters, Linux as they are typed; `isascii` skips the slow call
    # for most names.
    return [text if text.isascii() else normalize("NFC", text) for text in texts]


def sort_names(names: Collection[str]) -> list[str]:
    """Sort different names, composed: ascending as numbers if all are numbers, else as texts.

    Texts are in the order in which they are written, composed or not.
    """
    if all(map(NUMBER.fullmatch, names)):
        # Decimals, since floats would take 9007199254740993 for its neighbour; the text decides between 1 and
        # 1.0.
        return sorted(names, key=lambda name: (Decimal(name), name))
    # Sorted as written: to compose first would move accented names, and with them the numbers of classes and
    # groups.
    return list(dict.fromkeys(compose_accents(sorted(names))))


def are_numbers(names: Collection[str]) -> bool:
    """Check whether all names are whole numbers."""
    return all(name.isdecimal() for name in names)

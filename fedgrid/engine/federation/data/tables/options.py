"""Options behind the path of a table, or behind the name of a data set whose format describes its columns.

`#label=character,client=writer_id,64`: roles of columns, how they are read, which rows are left out; for what
the package `datasets` saves also splits, the column to learn from, and how texts become tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.names import (
    CONFIG,
    DROP,
    NUMBER,
    TARGET,
    TEST_SHARE,
    Option,
    Size,
    compose_accents,
    parse_mark,
    parse_share,
)
from fedgrid.engine.federation.errors import ConfigError, abbreviate_names

LABEL, CLIENT, GROUP, SUBJECT, TEST = ROLES = ("label", "client", "group", "subject", "test")
"""Roles of columns that are no numbers to learn from: a column has a role by its name, or by an option."""
TRAIN = "train"
FILL, MEAN = "fill", "mean"
SKIP, MISSING, MIN_ROWS = "skip", "missing", "min_rows"
TO_SKIP = f"#{SKIP}={MISSING} leaves such rows out"
"""Advice for rows without a label or a client."""
INPUT, TOKENS, LENGTH, PAD = "input", "tokens", "length", "pad"
CHARS, BYTES = TOKENISERS = ("chars", "bytes")
"""Ways to turn texts into tokens."""
SAVED_OPTIONS = (
    *(f"{TRAIN}=SPLIT", f"{TEST}=SPLIT", f"{INPUT}=COLUMN", f"{TOKENS}={'|'.join(TOKENISERS)}"),
    *(f"{LENGTH}=TOKENS", f"{PAD}=TOKEN"),
)
"""Options of data that the package `datasets` has saved; csv and Parquet have none of them."""
SHARE = re.compile(r"[\d.]+")
MAX_LISTED = 20
"""Most columns that a message lists."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options that a user gives with a table."""

    source: str
    """What messages call the table: its path, or its name on the hub."""
    columns: tuple[Option, ...] = ()
    """(role, name) of the columns that options name."""
    share: float | None = None
    """Share of the rows that is drawn as the server's test set; None: the default share, or marked rows."""
    fills: bool = False
    """Whether missing numbers are filled with the mean of their column."""
    dropped: frozenset[str] = frozenset()
    """Columns that are left out."""
    skips: bool = False
    """Whether rows without a label or a client are left out."""
    min_rows: int = 0
    """Clients with fewer rows are left out."""
    is_saved: bool = False
    """Whether the package `datasets` has saved it; the options below belong to such tables alone."""
    size: Size | None = None
    """Width and height that images are scaled to; None: their own."""
    input: str = ""
    """The one column to learn from; empty: it follows from the columns' kinds."""
    tokens: str = ""
    """How texts become tokens, one of `TOKENISERS`; empty: not given."""
    length: int | None = None
    """Number of tokens of a text; None: that of the longest text."""
    pad: int | None = None
    """The token that fills lists of tokens."""
    train: str = ""
    """Splits of the pool, joined by +; empty: `train`, or the only one."""
    test: str = ""
    """Split of the server's test set; empty: `test`, if there is one."""
    parts: tuple[tuple[str, int], ...] = ()
    """(name, number of rows) of the splits that the rows come from, in order."""
    numbers_R: NDArray[np.int64] | None = field(default=None, compare=False)
    """Number of each row in the file, from 1; None: no row is left out."""

    @classmethod
    def from_mark(
        cls, source: str, mark: str, *, is_saved: bool = False, is_on_hub: bool = False
    ) -> "TableOptions":
        """Parse a mark, as `names.split_mark` returns it.

        Args:
            source: what messages call the table.
            mark: the options, as `#client=site,label=y`; empty: none.
            is_saved: whether the package `datasets` has saved it. Default: False, a csv or Parquet file.
            is_on_hub: whether it comes from the hub, where a configuration can be named. Default: False.

        Raises:
            ConfigError: a key or a value is not allowed.
        """
        size, options = parse_mark(mark)
        columns: dict[str, str] = {}
        dropped: set[str] = set()
        given: dict[str, Any] = {}
        for key, value in options:
            if key == DROP:
                dropped |= {*compose_accents([value])}
            elif key == FILL and value == MEAN:
                given["fills"] = True
            elif key == SKIP and value == MISSING:
                given["skips"] = True
            elif key == MIN_ROWS and value.isdecimal() and int(value) > 1:
                given["min_rows"] = int(value)
            elif is_saved and key in (TRAIN, INPUT, TOKENS, LENGTH, PAD):
                given[key] = _check_value(source, key, value)
            elif is_on_hub and key == CONFIG:
                pass  # `runtime.data.hub` has chosen it.
            elif is_saved and key == TEST and not SHARE.fullmatch(value):
                given[TEST] = value
            elif key == TEST_SHARE and value.replace(".", "", 1).isdecimal():
                given["share"] = parse_share(source, value)
            elif key in (*ROLES, TARGET):
                [columns[key]] = compose_accents([value])
            else:
                allowed = [f"{role}=COLUMN" for role in (*ROLES, TARGET) if not (is_saved and role == TEST)]
                allowed += [f"{TEST_SHARE}=SHARE", f"{FILL}={MEAN}", f"{SKIP}={MISSING}"]
                allowed += [f"{MIN_ROWS}=NUMBER (2 or more)", f"{DROP}=COLUMN"]
                allowed += [f"{CONFIG}=NAME"] if is_on_hub else []
                allowed += SAVED_OPTIONS if is_saved else []
                raise ConfigError(
                    f"{source}: unknown option '{key}={value}'; allowed: {', '.join(allowed)}", ("dataset",)
                )
        return cls(
            source=source,
            columns=tuple(columns.items()),
            dropped=frozenset(dropped),
            is_saved=is_saved,
            size=size,
            **given,
        )

    def number_row(self, row: int) -> int:
        """Convert the index of a row among those that are left to its number in the file, from 1."""
        return row + 1 if self.numbers_R is None else int(self.numbers_R[row])

    def choose_splits(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Choose the splits of the pool and those of the server's test set; if none, a share is drawn.

        Args:
            names: the splits of the data set.

        Raises:
            ConfigError: a split that is named is not there, or on both sides.
        """
        default = TRAIN if TRAIN in names or len(names) > 1 else names[0]
        held, tested = (self.train or default).split("+"), [self.test] if self.test else []
        if not tested and self.share is None and TEST in names and TEST not in held:
            tested = [TEST]
        for key, chosen in ((TRAIN, held), (TEST, tested)):
            for split in chosen:
                if split not in names:
                    raise ConfigError(
                        f"{self.source} has no split {split}, but {', '.join(names)}; name one, #{key}=SPLIT",
                        ("dataset",),
                    )
        if both := set(held) & set(tested):
            raise ConfigError(
                f"{self.source}: split {both.pop()} cannot be both {TRAIN} and {TEST}; {TEST}=0.2 draws a "
                "share",
                ("dataset",),
            )
        return held, tested


def _check_value(source: str, key: str, value: str) -> str | int:
    """Parse the value of an option that only saved data sets have.

    Raises:
        ConfigError: it is not allowed.
    """
    if key == TOKENS and value not in TOKENISERS:
        allowed = ", ".join(TOKENISERS)
        raise ConfigError(
            f"{source}: {TOKENS} = {value}; allowed: {allowed}; lists of tokens need none", ("dataset",)
        )
    if key in (LENGTH, PAD):
        if not value.isdecimal() or value == "0" and key == LENGTH:
            raise ConfigError(f"{source}: {key} = {value}; expected a whole number", ("dataset",))
        return int(value)
    return compose_accents([value])[0] if key == INPUT else value


def find_roles(names: Sequence[str], options: TableOptions) -> dict[str, str]:
    """Find the column of each role, as role -> column, in a table with these columns.

    Raises:
        ConfigError: a column that the options name, or that of the classes, is not there.
    """
    left = [name for name in names if name not in options.dropped]
    named = dict(options.columns)
    for name in (*named.values(), *options.dropped, options.input):
        if name and name not in names:
            raise ConfigError(
                f"{options.source} has no column {name}, but {list_columns(names)}", ("dataset",)
            )
    # A column has a role by its name, unless an option gives the role to another column.
    roles = {role: name for role in ROLES if (name := named.get(role, role)) in left}
    if TARGET in named:
        if LABEL in named:
            raise ConfigError(
                f"{options.source}: {LABEL}={named[LABEL]} names classes, {TARGET}={named[TARGET]} numbers; "
                "leave one of the two out",
                ("dataset",),
            )
        roles.pop(LABEL, None)
        roles[TARGET] = named[TARGET]
    elif LABEL not in roles:
        # A first row of numbers means that the file has no row of names; whole numbers may be names, as of
        # pixels.
        if numbers := [name for name in left if NUMBER.fullmatch(name) and not name.isdecimal()]:
            raise ConfigError(
                f"{options.source} has {abbreviate_names(numbers)} in its first row; write the names of the "
                "columns there",
                ("dataset",),
            )
        raise ConfigError(
            f"{options.source} has no column {LABEL}, but {list_columns(left)}; name that of the classes, "
            "as in "
            f"#{LABEL}={left[-1] if left else LABEL}, or of numbers to predict, as #{TARGET}=COLUMN",
            ("dataset",),
        )
    if TEST in roles and options.share is not None:
        raise ConfigError(
            f"{options.source}: column {roles[TEST]} says which rows are the server's test set; leave out "
            f"{TEST_SHARE}={options.share}, or add {DROP}={roles[TEST]}",
            ("dataset",),
        )
    return roles


def list_columns(columns: Sequence[str]) -> str:
    """List the names of a table's columns for a message."""
    return abbreviate_names(columns, MAX_LISTED) or "none at all"

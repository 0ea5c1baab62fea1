"""Columns of a table: what each of them is, and numbers to learn from.

A column of texts becomes one column a text. These are the texts of the pool, sorted; what no row of the pool
has is zero in all of them.

Shapes: R rows.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.assigned import NUMBER
from fedgrid.engine.federation.data.images import Images, Positions
from fedgrid.engine.federation.data.names import DROP, TARGET, TEST_SHARE, Option, composed, share_of
from fedgrid.engine.federation.data.precision import LARGEST, find_beyond, find_offsets, to_single
from fedgrid.engine.federation.errors import ConfigError, DataError, abbreviate
from fedgrid.engine.federation.inputs import Inputs

LABEL, CLIENT, GROUP, SUBJECT, TEST = ROLES = ("label", "client", "group", "subject", "test")
"""What a column can be besides a number to learn from: it has this name, or is given as one."""
FILL, MEAN = "fill", "mean"
SKIP, MISSING, MIN_ROWS = "skip", "missing", "min_rows"
TO_SKIP = f"#{SKIP}={MISSING} leaves such rows out"
INPUT, TOKENS, LENGTH, PAD = "input", "tokens", "length", "pad"
CHARS, BYTES = TOKENISERS = ("chars", "bytes")
FEW, MOST = 20, 1000
"""Different texts of a column: so many are never too many, and more than these always."""
LISTED = 20
"""Columns in a message."""
INDEX = re.compile(r"|Unnamed: 0(\.\d+)*|__index_level_\d+__")
"""What an index of rows is called that pandas or R has written as a column."""
UNIT = re.compile(r"[%$€£\s]")
DATE = re.compile(r"\d{4}-\d\d-\d\d.*|\d\d?[./]\d\d?[./]\d{2,4}.*")
IMAGES, LISTS, TEXTS, NUMBERS = "images", "lists", "texts", "numbers"
"""What a `Column` has."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Options:
    """What a user says of a table behind its path."""

    source: str
    """What messages call the table: its path."""
    columns: tuple[Option, ...] = ()
    """Role and name of the columns that are named."""
    share: float | None = None
    """Of the server's test set."""
    fills: bool = False
    """Whether missing numbers are filled with the mean of their column."""
    dropped: frozenset[str] = frozenset()
    """Columns that are left out."""
    input: str = ""
    """The one column to learn from, if it is named."""
    parts: tuple[tuple[str, int], ...] = ()
    """Names of the splits that the rows come from, in order, with their numbers of rows."""
    skips: bool = False
    """Whether rows without a label or a client are left out."""
    min_rows: int = 0
    """Clients with fewer rows are left out."""
    numbers_R: NDArray[np.int64] | None = field(default=None, compare=False)
    """Number of each row in the file, from 1; None: no row is left out."""

    @classmethod
    def of(cls, source: str, options: Sequence[Option], further: Sequence[str] = ()) -> "Options":
        """Return what `#label=y,fill=mean` says; `further` options that are allowed were read before.

        Raises:
            ConfigError: a key or a value is not allowed.
        """
        columns, dropped, share, fills, skips, min_rows = {}, set(), None, False, False, 0
        for key, value in options:
            if key == DROP:
                dropped |= {*composed([value])}
            elif key == FILL and value == MEAN:
                fills = True
            elif key == SKIP and value == MISSING:
                skips = True
            elif key == MIN_ROWS and value.isdecimal() and int(value) > 1:
                min_rows = int(value)
            elif key == TEST_SHARE and value.replace(".", "", 1).isdecimal():
                share = share_of(source, value)
            elif key in (*ROLES, TARGET):
                [columns[key]] = composed([value])
            else:
                allowed = [f"{role}=COLUMN" for role in (*ROLES, TARGET) if not (further and role == TEST)]
                allowed += [f"{TEST_SHARE}=SHARE", f"{FILL}={MEAN}", f"{SKIP}={MISSING}"]
                allowed += [f"{MIN_ROWS}=NUMBER (2 or more)", f"{DROP}=COLUMN", *further]
                raise ConfigError(
                    f"{source}: unknown option '{key}={value}'; allowed: {', '.join(allowed)}", ("dataset",)
                )
        given = tuple(columns.items()), share, fills, frozenset(dropped)
        return cls(source, *given, skips=skips, min_rows=min_rows)

    def number_row(self, row: int) -> int:
        """Return the number in the file, from 1, of a row that is left, from 0."""
        return row + 1 if self.numbers_R is None else int(self.numbers_R[row])


def roles_of(names: Sequence[str], options: Options) -> dict[str, str]:
    """Return role -> column, of a table with these columns.

    Raises:
        ConfigError: one that the options name, or the classes, is not there.
    """
    left = [name for name in names if name not in options.dropped]
    named = dict(options.columns)
    for name in (*named.values(), *options.dropped, options.input):
        if name and name not in names:
            raise ConfigError(f"{options.source} has no column {name}, but {listed(names)}", ("dataset",))
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
        if numbers := [name for name in left if NUMBER.fullmatch(name) and not name.isdecimal()]:
            raise ConfigError(
                f"{options.source} has {abbreviate(numbers)} in its first row; write the names of the "
                "columns there",
                ("dataset",),
            )
        raise ConfigError(
            f"{options.source} has no column {LABEL}, but {listed(left)}; name that of the classes, as in "
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


@dataclass(frozen=True)
class Lists:
    """A column of lists, which may be lists of lists."""

    values: NDArray[Any]
    """All of them, one after the other."""
    lengths: Sequence[NDArray[np.int64]]
    """Of the rows' lists, then of the lists in these, and so on."""


@dataclass(frozen=True)
class Column:
    """A column of a data set whose format says what its columns have."""

    kind: str
    """`IMAGES`, `LISTS`, `TEXTS`, `NUMBERS`, or what else it has."""
    texts: Callable[[], list[str]] = list
    """Returns its values as texts, empty where one is missing; of `NUMBERS` and `TEXTS`."""
    numbers: Callable[[], NDArray[np.float64] | None] = lambda: None
    """As `Table.numbers`."""
    classes: tuple[str, ...] = ()
    """The different values, if they are listed in an order."""
    image: Callable[[int], bytes | Path | None] | None = None
    """Returns the file of a row's image, or what is in it; None: the row has none."""
    lists: Callable[[], Lists] | None = None


@dataclass(frozen=True)
class Rows:
    """What is learned from in a table."""

    inputs: Inputs
    read: Callable[[Positions], Images]
    """Returns the examples of some rows."""
    notes: Sequence[str] = ()
    """In one line each what a user may not expect."""


@dataclass(frozen=True)
class Table:
    """The columns of a table, and how their values are read."""

    names: Sequence[str]
    numbers: Callable[[str], NDArray[np.float64] | None]
    """Values of a column, NaN where one is missing; None: it has texts."""
    texts: Callable[[str], list[str]]
    """Values of a column as texts, empty where one is missing."""
    take: Callable[[Bools], "Table"]
    """Returns the table of those rows alone for which it is given True."""
    others: Mapping[str, str] = field(default_factory=dict)
    """What columns have that have neither numbers nor texts."""
    written: Callable[[str, int], str] = lambda name, row: ""
    """Returns what a row has in a column of texts, as it is written, even where it stands for no value."""
    index: Collection[str] = ()
    """Columns that are known to number or name the rows."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of columns whose different values are listed in an order: these."""
    is_test_R: Bools | None = None
    """The rows of the server's test set, if the format says them."""
    encode: Callable[[Sequence[str], Bools], Rows | None] = lambda columns, is_test_R: None
    """Makes examples of columns, given the rows of the test set; None of numbers and texts, a column each."""


def rows_of(table: Table, options: Options, columns_left: Sequence[str], is_test_R: Bools) -> Rows:
    """Return the rows of some columns as numbers.

    Raises:
        ConfigError: a column has neither numbers nor texts.
        DataError: a value is missing or no number.
    """
    columns: list[NDArray[np.float32]] = []
    notes: list[str] = []
    of_texts: list[str] = []
    centred: list[str] = []
    for name in columns_left:
        if name in table.others:
            raise ConfigError(
                f"{options.source}: column {name} has {table.others[name]}, which nothing learns from here; "
                f"leave it out, #{DROP}={name}, or write numbers or texts, a column each",
                ("dataset",),
            )
        numbers = table.numbers(name)
        if numbers is not None:
            column, offset = _in_single(
                options, name, _filled(table, options, name, numbers, is_test_R), is_test_R
            )
            columns.append(column)
            centred += [f"{name} ({offset:g})"] if offset else []
            continue
        texts = composed(written := table.texts(name))
        levels = _levels(table, options, name, written, is_test_R)
        text_R = np.array(texts)
        columns += [(text_R == level).astype(np.float32) for level in levels]
        of_texts.append(f"{name} ({len(levels)})")
        if unseen := sorted({*texts} - {*levels, ""}):
            notes.append(
                f"{options.source}: {abbreviate(unseen)} in column {name} is in test rows only, and counts "
                "as none of its texts"
            )
    if of_texts:
        notes.append(f"{options.source}: each text of a column becomes a column: {', '.join(of_texts)}")
    notes += note_on_offsets(options, centred)
    rows = np.column_stack(columns)
    return Rows(Inputs("numbers", rows.shape[1:]), rows.__getitem__, notes)


def note_on_offsets(options: Options, offsets: Sequence[str]) -> list[str]:
    """Return a note on the offsets that are taken off columns, if there are any."""
    if not offsets:
        return []
    return [
        f"{options.source}: an offset is taken off all rows, beside which single precision would lose their "
        f"differences: {abbreviate(offsets)}"
    ]


def _filled(
    table: Table, options: Options, name: str, numbers: NDArray[np.float64], is_test_R: Bools
) -> NDArray[np.float64]:
    """Return a column of numbers without gaps."""
    is_missing = np.isnan(numbers)
    if not is_missing.any():
        return numbers
    if not options.fills:
        error = missing(options, name, int(np.argmax(is_missing)), table)
        raise DataError(f"{error}; #{FILL}={MEAN} takes the column's mean")
    if is_missing[~is_test_R].all():
        raise DataError(f"{options.source}: column {name} has no value; leave it out with #{DROP}={name}")
    return np.where(is_missing, numbers[~is_test_R & ~is_missing].mean(), numbers)


def _in_single(
    options: Options, name: str, numbers: NDArray[np.float64], is_test_R: Bools
) -> tuple[NDArray[np.float32], float]:
    """Return a column of numbers in single precision, and what was taken off it: mostly 0."""
    column = numbers[:, None]
    offsets = find_offsets([column[~is_test_R]])
    single = to_single(column, offsets)
    if (place := find_beyond(single)) is not None:
        row, _ = place
        number = options.number_row(row)
        raise DataError(f"{options.source}: row {number} has {numbers[row]:g} in column {name}; {LARGEST}")
    return single[:, 0], float(offsets[0])


def targets_of(table: Table, options: Options, name: str) -> NDArray[np.float32]:
    """Return the numbers to predict of all rows, shape (R,).

    Raises:
        DataError: the column has texts, one of them is missing, or all are equal.
    """
    numbers = table.numbers(name)
    if numbers is None:
        text = next(text for text in table.texts(name) if not NUMBER.fullmatch(text))
        raise DataError(f"{options.source}: column {name} has {text}, no number; classes: #{LABEL}={name}")
    if np.isnan(numbers).any():
        raise DataError(f"{missing(options, name, int(np.argmax(np.isnan(numbers))), table)}; {TO_SKIP}")
    column, _ = _in_single(options, name, numbers, np.zeros(len(numbers), bool))
    if (column == column[:1]).all():
        raise DataError(f"{options.source}: column {name} has one number; name a column with more")
    return column


def _levels(table: Table, options: Options, name: str, written: Sequence[str], is_test_R: Bools) -> list[str]:
    """Return the different texts of a column that rows of the pool have, composed, in order."""
    if not options.fills and "" in written:
        error = missing(options, name, written.index(""), table)
        raise DataError(f"{error}; #{FILL}={MEAN} takes it for none of the column's texts")
    every = sorted(set(written) - {""})
    _check_strays(options, name, every, written)
    check_levels(options, name, every, len(written), f"leave the column out with #{DROP}={name}")
    of_pool = {text for text, is_test in zip(written, is_test_R, strict=True) if text and not is_test}
    return list(dict.fromkeys(composed(sorted(of_pool))))


def _check_strays(options: Options, name: str, levels: Sequence[str], texts: Sequence[str]) -> None:
    """Check that a column is not one of numbers but for a mark such as `?`, or for one text."""
    others = [level for level in levels if not NUMBER.fullmatch(level)]
    num_numbers = len(levels) - len(others)
    are_marks = not any(character.isalnum() for other in others for character in other)
    if others and ((are_marks and num_numbers > 1) or (len(others) == 1 and num_numbers > FEW)):
        row = options.number_row(texts.index(others[0]))
        raise DataError(
            f"{options.source}: row {row} has '{others[0]}' in column {name}, and other rows have numbers; "
            f"write a number there, or nothing with #{FILL}={MEAN}, or leave the column out with "
            f"#{DROP}={name}"
        )


def require_texts(
    table: Table, options: Options, name: str | None, values: Sequence[str], instead: str = ""
) -> None:
    """Check that a column of texts has no gap; `instead` says what else can be done."""
    if "" in values:
        error = missing(options, name, values.index(""), table)
        raise DataError(f"{error}; {instead}") if instead else error


def missing(options: Options, name: str | None, row: int, table: Table | None = None) -> DataError:
    """Return the error for a gap in a row, from 0; with the word for it, if the table has one there."""
    word = table.written(name, row) if table is not None and name is not None else ""
    number, split = options.number_row(row), ""
    for part, count in options.parts:
        if number <= count:
            split = f" of split {part}"
            break
        number -= count
    called = f"{options.source}: row {number}{split} has"
    if word:
        otherwise = "" if word.lower() == "nan" else "; if it is a name, write another"
        return DataError(
            f"{called} '{word}' in column {name}, which stands for a missing value (rows count from 1)"
            f"{otherwise}"
        )
    return DataError(f"{called} no value in column {name} (rows count from 1)")


def check_levels(options: Options, name: str, levels: Sequence[str], num_rows: int, instead: str) -> None:
    """Check that a column of texts has no numbers with commas, and few different texts."""
    others = [level for level in levels if not NUMBER.fullmatch(level)]
    number = f"has {len(levels)} different values in {num_rows} rows"
    if commas := [level for level in others if NUMBER.fullmatch(level.replace(",", "."))]:
        problem = f"has {commas[0]}, a number with a comma; write decimals with a point, thousands without"
    elif len(levels) <= FEW or len(levels) <= min(MOST, num_rows // 2):
        return
    elif units := [level for level in others if NUMBER.fullmatch(UNIT.sub("", level))]:
        problem = f"has {units[0]}, a number with a unit; write the number alone"
    elif 0 < len(others) < len(levels) / 10:
        problem = f"has numbers and {abbreviate(others)}; write numbers only"
    elif all(map(DATE.fullmatch, levels)):
        problem = (
            f"{number}, dates such as {levels[0]}; write them as numbers, days since the first, or {instead}"
        )
    elif 2 * sum(" " in level for level in levels) > len(levels):
        problem = (
            f"{number}, such as '{levels[0][:FEW]}'; models learn from texts as hf:./FOLDER#{TOKENS}={CHARS},"
            f" saved by the package datasets; here {instead}"
        )
    else:
        problem = f"{number} and looks like an id; {instead}"
    raise DataError(f"{options.source}: column {name} {problem}")


def listed(columns: Sequence[str]) -> str:
    """Return the names of a table's columns for a message."""
    return abbreviate(columns, LISTED) or "none at all"

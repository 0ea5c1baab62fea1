"""Columns of a table: what each of them holds, and its conversion to numbers to learn from.

A column of texts becomes one column for each different text: 1 in the rows that have it, else 0. These are
the texts of the pool, sorted; a text that no row of the pool has is zero in all of them.

Shapes: R rows.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import Images
from fedgrid.engine.federation.data.names import DROP, NUMBER, compose_accents
from fedgrid.engine.federation.data.partition import Positions
from fedgrid.engine.federation.data.precision import (
    OVERFLOW_HELP,
    convert_to_single,
    find_offsets,
    find_overflow,
)
from fedgrid.engine.federation.data.tables.options import (
    CHARS,
    FILL,
    LABEL,
    MEAN,
    TO_SKIP,
    TOKENS,
    TableOptions,
)
from fedgrid.engine.federation.errors import ConfigError, DataError, abbreviate_names
from fedgrid.engine.federation.inputs import Inputs

FEW_LEVELS, MAX_LEVELS = 20, 1000
"""Numbers of different texts in a column: up to the first is never too many, and above the second always."""
INDEX = re.compile(r"|Unnamed: 0(\.\d+)*|__index_level_\d+__")
"""Names of columns that pandas or R has written as an index of the rows."""
UNIT = re.compile(r"[%$€£\s]")
"""Characters after a number that make it a number with a unit."""
DATE = re.compile(r"\d{4}-\d\d-\d\d.*|\d\d?[./]\d\d?[./]\d{2,4}.*")
IMAGES, LISTS, TEXTS, NUMBERS = "images", "lists", "texts", "numbers"
"""Kinds of a `Column`."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Lists:
    """A column of lists, which may be lists of lists."""

    values: NDArray[Any]
    """All values, one after the other."""
    lengths: Sequence[NDArray[np.int64]]
    """Lengths of the rows' lists, then of the lists in these, and so on."""


@dataclass(frozen=True)
class Column:
    """A column of a table, and the functions that read its values."""

    kind: str
    """`IMAGES`, `LISTS`, `TEXTS`, `NUMBERS`, or the name of another type. Texts of a csv file may be
    numbers."""
    texts: Callable[[], list[str]] = list
    """Returns the values of `NUMBERS` and `TEXTS` as texts, empty where one is missing."""
    numbers: Callable[[], NDArray[np.float64] | None] = lambda: None
    """Returns the values as numbers, NaN where one is missing; None: the column has texts."""
    written: Callable[[int], str] = lambda row: ""
    """Returns the text of a row as the file writes it, even where it stands for no value."""
    classes: tuple[str, ...] = ()
    """The different values, if the format lists them in an order."""
    image: Callable[[int], bytes | Path | None] | None = None
    """Returns the file of a row's image, or its content; None: the row has none."""
    lists: Callable[[], Lists] | None = None
    """Returns the values of `LISTS`; None: the column has no lists."""

    @property
    def other_kind(self) -> str:
        """The column's type, if it is neither numbers nor texts; else empty."""
        return "" if self.kind in (TEXTS, NUMBERS) else self.kind


@dataclass(frozen=True)
class Rows:
    """The examples that a table's columns give."""

    inputs: Inputs
    """Kind and shape of an example."""
    read: Callable[[Positions], Images]
    """Returns the examples of some rows."""
    notes: Sequence[str] = ()
    """What a user may not expect, one line each."""


@dataclass(frozen=True)
class Table:
    """The columns of a table."""

    columns: Mapping[str, Column]
    """Columns by name, in the order of the file."""
    take: Callable[[Bools], "Table"]
    """Returns the table of the rows alone for which it is given True."""
    index: Collection[str] = ()
    """Names of columns that number or name the rows."""
    is_test_R: Bools | None = None
    """Marks the rows of the server's test set, if the format does so."""


def make_rows(table: Table, options: TableOptions, columns_left: Sequence[str], is_test_R: Bools) -> Rows:
    """Convert some columns to rows of numbers.

    Args:
        table: the table.
        options: the user's options.
        columns_left: names of the columns to learn from.
        is_test_R: marks the rows of the server's test set; they have no say in means, offsets and texts.

    Raises:
        ConfigError: a column has neither numbers nor texts.
        DataError: a value is missing or no number.
    """
    columns: list[NDArray[np.float32]] = []
    notes: list[str] = []
    text_columns: list[str] = []
    centred: list[str] = []
    for name in columns_left:
        if other := table.columns[name].other_kind:
            raise ConfigError(
                f"{options.source}: column {name} has {other}, which nothing learns from here; "
                f"leave it out, #{DROP}={name}, or write numbers or texts, a column each",
                ("dataset",),
            )
        numbers = table.columns[name].numbers()
        if numbers is not None:
            column, offset = _cast_column(
                options, name, _fill_gaps(table, options, name, numbers, is_test_R), is_test_R
            )
            columns.append(column)
            centred += [f"{name} ({offset:g})"] if offset else []
            continue
        texts = compose_accents(written := table.columns[name].texts())
        levels = _list_levels(table, options, name, written, is_test_R)
        text_R = np.array(texts)
        columns += [(text_R == level).astype(np.float32) for level in levels]
        text_columns.append(f"{name} ({len(levels)})")
        if unseen := sorted({*texts} - {*levels, ""}):
            notes.append(
                f"{options.source}: {abbreviate_names(unseen)} in column {name} is in test rows only, and "
                "counts "
                "as none of its texts"
            )
    if text_columns:
        notes.append(f"{options.source}: each text of a column becomes a column: {', '.join(text_columns)}")
    notes += note_on_offsets(options, centred)
    rows = np.column_stack(columns)
    return Rows(Inputs("numbers", rows.shape[1:]), rows.__getitem__, notes)


def note_on_offsets(options: TableOptions, offsets: Sequence[str]) -> list[str]:
    """Write a note on the offsets that are taken off columns, if there are any."""
    if not offsets:
        return []
    return [
        f"{options.source}: an offset is taken off all rows, beside which single precision would lose their "
        f"differences: {abbreviate_names(offsets)}"
    ]


def _fill_gaps(
    table: Table, options: TableOptions, name: str, numbers: NDArray[np.float64], is_test_R: Bools
) -> NDArray[np.float64]:
    """Fill the gaps of a column of numbers with the mean of the pool, if `#fill=mean` is set."""
    is_missing = np.isnan(numbers)
    if not is_missing.any():
        return numbers
    if not options.fills:
        error = missing_value_error(options, name, int(np.argmax(is_missing)), table)
        raise DataError(f"{error}; #{FILL}={MEAN} takes the column's mean")
    if is_missing[~is_test_R].all():
        raise DataError(f"{options.source}: column {name} has no value; leave it out with #{DROP}={name}")
    return np.where(is_missing, numbers[~is_test_R & ~is_missing].mean(), numbers)


def _cast_column(
    options: TableOptions, name: str, numbers: NDArray[np.float64], is_test_R: Bools
) -> tuple[NDArray[np.float32], float]:
    """Convert a column to single precision; also give the offset that was taken off it, mostly 0."""
    column = numbers[:, None]
    offsets = find_offsets([column[~is_test_R]])
    single = convert_to_single(column, offsets)
    if (place := find_overflow(single)) is not None:
        row, _ = place
        number = options.number_row(row)
        raise DataError(
            f"{options.source}: row {number} has {numbers[row]:g} in column {name}; {OVERFLOW_HELP}"
        )
    return single[:, 0], float(offsets[0])


def read_targets(table: Table, options: TableOptions, name: str) -> NDArray[np.float32]:
    """Read the numbers to predict of all rows, shape (R,).

    Raises:
        DataError: the column has texts, one of them is missing, or all are equal.
    """
    numbers = table.columns[name].numbers()
    if numbers is None:
        text = next(text for text in table.columns[name].texts() if not NUMBER.fullmatch(text))
        raise DataError(f"{options.source}: column {name} has {text}, no number; classes: #{LABEL}={name}")
    if np.isnan(numbers).any():
        raise DataError(
            f"{missing_value_error(options, name, int(np.argmax(np.isnan(numbers))), table)}; {TO_SKIP}"
        )
    # All rows count for the offset, as it is decided later which of them are test rows. Neither the squared
    # error nor R2 depends on an offset.
    column, _ = _cast_column(options, name, numbers, np.zeros(len(numbers), bool))
    if (column == column[:1]).all():
        raise DataError(f"{options.source}: column {name} has one number; name a column with more")
    return column


def _list_levels(
    table: Table, options: TableOptions, name: str, written: Sequence[str], is_test_R: Bools
) -> list[str]:
    """List the different texts of a column that rows of the pool have, composed, in order."""
    if not options.fills and "" in written:
        error = missing_value_error(options, name, written.index(""), table)
        raise DataError(f"{error}; #{FILL}={MEAN} takes it for none of the column's texts")
    levels = sorted(set(written) - {""})
    _check_strays(options, name, levels, written)
    check_levels(options, name, levels, len(written), f"leave the column out with #{DROP}={name}")
    pool_texts = {text for text, is_test in zip(written, is_test_R, strict=True) if text and not is_test}
    return list(dict.fromkeys(compose_accents(sorted(pool_texts))))


def _check_strays(options: TableOptions, name: str, levels: Sequence[str], texts: Sequence[str]) -> None:
    """Check that a column is not one of numbers but for a mark such as `?`, or for one text."""
    # A mark such as `?` stands for a missing value, and one text among many numbers is a typing error: taken
    # for texts, each number would silently become a column of its own.
    others = [level for level in levels if not NUMBER.fullmatch(level)]
    num_numbers = len(levels) - len(others)
    are_marks = not any(character.isalnum() for other in others for character in other)
    if others and ((are_marks and num_numbers > 1) or (len(others) == 1 and num_numbers > FEW_LEVELS)):
        row = options.number_row(texts.index(others[0]))
        raise DataError(
            f"{options.source}: row {row} has '{others[0]}' in column {name}, and other rows have numbers; "
            f"write a number there, or nothing with #{FILL}={MEAN}, or leave the column out with "
            f"#{DROP}={name}"
        )


def check_no_gaps(
    table: Table, options: TableOptions, name: str | None, values: Sequence[str], instead: str = ""
) -> None:
    """Check that a column of texts has no gap.

    Args:
        table: the table, for the word that stands for a gap.
        options: the user's options.
        name: the column; None if no column has the role.
        values: its texts, empty where one is missing.
        instead: what else the user can do. Default: nothing.

    Raises:
        DataError: a value is missing.
    """
    if "" in values:
        error = missing_value_error(options, name, values.index(""), table)
        raise DataError(f"{error}; {instead}") if instead else error


def missing_value_error(
    options: TableOptions, name: str | None, row: int, table: Table | None = None
) -> DataError:
    """Build the error for a missing value; it quotes the word that stands for it, if the table has one there.

    Args:
        options: the user's options, which number the rows as the file does.
        name: the column; None if it is not known.
        row: the row, from 0, among those that are left.
        table: the table. Default: no word is quoted.
    """
    word = table.columns[name].written(row) if table is not None and name is not None else ""
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


def check_levels(
    options: TableOptions, name: str, levels: Sequence[str], num_rows: int, instead: str
) -> None:
    """Check that a column of texts has no numbers with commas or units, and few different texts.

    Args:
        options: the user's options.
        name: the column.
        levels: its different texts.
        num_rows: number of rows.
        instead: what the user can do where there are too many.

    Raises:
        DataError: otherwise, with a guess of what the column is.
    """
    # The most telling guess comes first: commas are wrong in any number of levels, all else only in a long
    # list.
    others = [level for level in levels if not NUMBER.fullmatch(level)]
    number = f"has {len(levels)} different values in {num_rows} rows"
    if commas := [level for level in others if NUMBER.fullmatch(level.replace(",", "."))]:
        problem = f"has {commas[0]}, a number with a comma; write decimals with a point, thousands without"
    elif len(levels) <= FEW_LEVELS or len(levels) <= min(MAX_LEVELS, num_rows // 2):
        return
    elif units := [level for level in others if NUMBER.fullmatch(UNIT.sub("", level))]:
        problem = f"has {units[0]}, a number with a unit; write the number alone"
    elif 0 < len(others) < len(levels) / 10:
        problem = f"has numbers and {abbreviate_names(others)}; write numbers only"
    elif all(map(DATE.fullmatch, levels)):
        problem = (
            f"{number}, dates such as {levels[0]}; write them as numbers, days since the first, or {instead}"
        )
    elif 2 * sum(" " in level for level in levels) > len(levels):
        problem = (
            f"{number}, such as '{levels[0][:FEW_LEVELS]}'; models learn from texts as "
            f"hf:./FOLDER#{TOKENS}={CHARS},"
            f" saved by the package datasets; here {instead}"
        )
    else:
        problem = f"{number} and looks like an id; {instead}"
    raise DataError(f"{options.source}: column {name} {problem}")

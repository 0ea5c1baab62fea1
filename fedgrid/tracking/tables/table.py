"""Tables independent of the format: each cell has its value in full digits and its text as printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from operator import attrgetter
from string import ascii_lowercase
from typing import Literal

import numpy as np

from fedgrid.tracking.arrays import group_by

NONE = "–"
"""Printed where the finished runs have no such number: no clustering, no score."""
ABSENT = "·"
"""Printed where the grid has no run."""
FAR_NOTE = "*"
"""The key of the note for a number far from its reference; it comes before the lettered notes."""

Tone = Literal["", "better", "worse", "partial"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table; no text means that no run is finished yet."""

    text: str = ""
    value: float | None = None
    """The number in full digits, for sorting and csv files."""
    spread: float | None = None
    """Standard deviation over seeds (n - 1), where there are several."""
    count: int = 0
    """Number of values that `value` is the mean of."""
    seeds: int = 0
    """Number of seeds among them; 0 if the cell is no mean."""
    bold: bool = False
    tone: Tone = ""
    """Colour in HTML: better or worse than the reference, or a mean of only some of the runs."""
    notes: tuple[str, ...] = ()
    """Keys of the table's notes."""
    reference: float | None = None
    """The number to compare with, if any: the published one or another grid's."""
    p: float | None = None
    """p of a test against another cell of the table, if there was one."""


@dataclass(frozen=True)
class Column:
    """A column; neighbours with the same `group` share a heading above their names."""

    name: str
    group: str = ""
    notes: tuple[str, ...] = ()
    highest: bool | None = None
    """Whether the greatest number of a section is its best, which is bold, or the least; None: no best."""

    @property
    def heading(self) -> str:
        """The heading on one line: `nonoverlapping balanced: RAND`."""
        return f"{self.group}: {self.name}" if self.group else self.name


@dataclass(frozen=True)
class Row:
    """A row; neighbours with the same `section` are a part of the table with a heading."""

    name: str
    cells: tuple[Cell, ...]
    section: str = ""
    notes: tuple[str, ...] = ()
    is_reference: bool = False
    """Whether it is compared with no other row, and so never the best."""


@dataclass(frozen=True)
class Table:
    """A table that can be written in every format."""

    name: str
    """Name of its files, as `table1-mnist-15`."""
    title: str
    caption: str
    """The content of the cells and its convention, in a sentence or two."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    corner: str = ""
    """Heading of the rows' names."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Footnotes by their printed key (`a`, `b`), in the order of their first mention."""
    part: str = "part"
    """The kind of the sections, as `data set`: heading of their column in a csv file."""

    def _repr_html_(self) -> str:
        """Format the table for a cell of a notebook; a report's page has more."""
        names = [column.heading for column in self.columns]
        lines = [_format_html_row("th", [self.corner, *names])]
        section = ""
        for row in self.rows:
            if row.section != section:
                lines.append(_format_html_row("th", [row.section, *[""] * len(names)]))
                section = row.section
            lines.append(_format_html_row("td", [row.name, *(cell.text for cell in row.cells)]))
        title = f"<b>{escape(self.title)}</b>. {escape(self.caption)}"
        return f"<p>{title}</p><table>{''.join(lines)}</table>"


def _format_html_row(kind: str, texts: Sequence[str]) -> str:
    """Format a row of HTML with escaped texts."""
    return "<tr>" + "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts) + "</tr>"


def build_seed_mean_cell(values: Sequence[float], *, expected: int = 1, digits: int = 2) -> Cell:
    """Build the cell of a mean over seeds.

    NaN among the values is a missing score; if all are NaN the cell is a dash. A mean of fewer values than
    expected shows how many: `0.86 (3/5)`.

    Args:
        values: a score of each finished run, one for each seed.
        expected: number of seeds of the grid, 1 by default.
        digits: decimal digits of the text, 2 by default.
    """
    numbers = [value for value in values if not np.isnan(value)]
    if not values:
        return Cell()
    if not numbers:
        return build_dash_cell(expected=expected, finished=len(values))
    spread = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    count = len(numbers)
    return build_mean_cell(
        float(np.mean(numbers)), spread, count=count, expected=expected, seeds=count, digits=digits
    )


def build_mean_cell(
    value: float, spread: float | None, *, count: int, expected: int, seeds: int, digits: int
) -> Cell:
    """Build the cell of a mean: its text with spread, and with the count if values are missing.

    Args:
        value: the mean.
        spread: standard deviation over seeds, None for a single seed.
        count: number of values in the mean.
        expected: number of values that it should have.
        seeds: number of seeds among them.
        digits: decimal digits of the text.
    """
    text = format_fixed(value, digits) + (f" ± {format_fixed(spread, digits)}" if spread is not None else "")
    return _add_count(Cell(text, value, spread, count, seeds), count, expected)


def build_median_cell(
    values: Sequence[float], digits: int, printed: str | None = None, *, never: str = NONE
) -> Cell:
    """Build the cell of a median over the runs that have a value.

    A median of whole numbers that is none has a digit.

    Args:
        values: a number of each run; NaN is left out, infinity is a target that the run never reaches.
        digits: decimal digits of the text.
        printed: the published number, which is shown next to the median, empty for a dash; None (default):
            none.
        never: the text if half of the runs have infinity, a dash by default.
    """
    numbers = [value for value in values if not np.isnan(value)]
    # Infinity counts as a large number: a median over the runs that reach the target alone would hide the
    # others.
    middle = float(np.median(numbers)) if numbers else np.inf
    text = never if numbers else NONE
    if np.isfinite(middle):
        text = format_fixed(middle, 0 if digits == 0 and middle.is_integer() else max(digits, 1))
    return Cell(
        (text if printed is None else f"{text} / {printed or NONE}") if values else "",
        middle if np.isfinite(middle) else None,
        count=len(numbers),
        reference=float(printed) if printed else None,
    )


def build_dash_cell(value: float | None = None, *, expected: int, finished: int) -> Cell:
    """Build the cell of a number that the finished runs do not have; csv files show `value` for it."""
    return _add_count(Cell(NONE, value, count=finished), finished, expected)


def build_share_cell(part: int, finished: int, expected: int) -> Cell:
    """Build the cell of a count among the finished runs: `31/40`, or `31/38 of 40` if two are missing."""
    if not finished:
        return Cell()
    cell = Cell(f"{part}/{finished}", part / finished, count=finished)
    return cell if finished >= expected else replace(cell, text=f"{cell.text} of {expected}", tone="partial")


def embolden_best(cells: Sequence[Cell], *, highest: bool = True) -> tuple[Cell, ...]:
    """Set the best cells in bold, and with them all that have the same printed text.

    Dashes are not compared. No cell is bold while a cell, or a part of its mean, has no result yet.
    """
    values = {
        index: cell.value
        for index, cell in enumerate(cells)
        if cell.value is not None and not cell.text.startswith(NONE)
    }
    # A best number among some of the runs could change with the next one.
    if not values or any(not cell.text or cell.tone == "partial" for cell in cells):
        return tuple(cells)
    best = (max if highest else min)(values, key=lambda index: values[index])
    # By the printed text without its spread: two means that a reader sees as equal are both the best.
    printed_texts = [cell.text.split(" ")[0] for cell in cells]
    return tuple(
        replace(cell, bold=index in values and printed_texts[index] == printed_texts[best])
        for index, cell in enumerate(cells)
    )


def embolden_columns(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[Row, ...]:
    """Set the best of each column in bold, by section; nothing without columns."""
    bold: list[Row] = []
    for members in group_by(rows if columns else (), attrgetter("section")).values():
        compared = [row for row in members if not row.is_reference]
        by_column = zip(*(row.cells for row in compared), strict=True)
        chosen = [
            cells if column.highest is None else embolden_best(cells, highest=column.highest)
            for cells, column in zip(by_column, columns, strict=bool(compared))
        ]
        # References are not compared, but stay in their places between the other rows.
        cells = iter(zip(*chosen, strict=True))
        bold += [row if row.is_reference else replace(row, cells=tuple(next(cells))) for row in members]
    return tuple(bold)


def letter_notes(table: Table) -> Table:
    """Rename a table's notes to a, b, ... in the order of their first mention.

    Notes without a mention are left out.
    """
    mentioned = dict.fromkeys(
        key
        for keys in (
            *(column.notes for column in table.columns),
            *(notes for row in table.rows for notes in (row.notes, *(cell.notes for cell in row.cells))),
        )
        for key in keys
    )
    # A note on a number far from its reference comes first: `*` sorts before all letters.
    letters = iter(ascii_lowercase)
    names = {key: key if key == FAR_NOTE else next(letters) for key in mentioned}

    def rename_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
        """Rename the keys of one cell's notes, in the order of the letters."""
        return tuple(sorted(names[key] for key in notes))

    return replace(
        table,
        columns=tuple(replace(column, notes=rename_notes(column.notes)) for column in table.columns),
        rows=tuple(
            replace(
                row,
                notes=rename_notes(row.notes),
                cells=tuple(replace(cell, notes=rename_notes(cell.notes)) for cell in row.cells),
            )
            for row in table.rows
        ),
        notes={name: table.notes[key] for key, name in sorted(names.items(), key=lambda item: item[1])},
    )


def format_fixed(value: float, digits: int) -> str:
    """Format a number with this many decimals, halves rounded away from zero (0.345 is 0.35), never -0.00."""
    # From a decimal text, as the papers round: in binary 0.345 is a bit less than it looks, and a mean of
    # decimals, such as 0.34499999999999997, may be a few of the last bits off the half that it is.
    rounded = Decimal(repr(round(float(value), 12))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return str(abs(rounded) if rounded.is_zero() else rounded)


def format_signed(value: float, digits: int) -> str:
    """Format a number as `format_fixed` does, with a plus if it is printed as more than 0."""
    text = format_fixed(value, digits)
    return f"+{text}" if value > 0 and float(text) else text


def _add_count(cell: Cell, count: int, expected: int) -> Cell:
    """Add the number of values to a cell's text if it is a mean of some of them only."""
    if count >= expected:
        return cell
    return replace(cell, text=f"{cell.text} ({count}/{expected})", tone="partial")

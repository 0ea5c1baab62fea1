"""A table before it is Markdown, LaTeX, csv or HTML: cells with a value in full and as it is printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

NONE = "–"
"""Printed where there is nothing to have: no clustering, no score."""


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table; without text it is not there yet."""

    text: str = ""
    value: float | None = None
    """In full: what is sorted by, and what a csv file holds."""
    spread: float | None = None
    """Standard deviation over seeds (n - 1), where there are several."""
    count: int = 0
    """Values that `value` is the mean of."""
    bold: bool = False
    tone: Literal["", "better", "worse", "partial"] = ""
    """How HTML colours it: against another number, or as the mean of some of the seeds only."""
    notes: tuple[str, ...] = ()
    """Keys of the table's notes."""


@dataclass(frozen=True)
class Column:
    """A column, under a heading that neighbours with the same `group` share."""

    name: str
    group: str = ""


@dataclass(frozen=True)
class Row:
    """A row, in a part of the table that neighbours with the same `section` share."""

    name: str
    cells: tuple[Cell, ...]
    section: str = ""


@dataclass(frozen=True)
class Table:
    """A table that can be written in every format."""

    name: str
    """Its files' name, as `table1-mnist-15`."""
    title: str
    caption: str
    """What a cell is and by which convention, in a sentence or two."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    corner: str = ""
    """Heading of the rows' names."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Footnotes by key, in the order of their first mention; the key is what is printed: `a`, `b`."""


def number(values: Sequence[float], *, expected: int = 1, digits: int = 2) -> Cell:
    """Return the cell of a mean over seeds, of which `expected` were asked for.

    NaN among the values is a score that there is not: without any other the cell is a dash.
    """
    there = [value for value in values if not np.isnan(value)]
    if not values:
        return Cell()
    if not there:
        return Cell(NONE)
    mean = float(np.mean(there))
    spread = float(np.std(there, ddof=1)) if len(there) > 1 else None
    text = _fixed(mean, digits) + (f" ± {_fixed(spread, digits)}" if spread is not None else "")
    if len(values) < expected:
        return Cell(f"{text} ({len(values)}/{expected})", mean, spread, len(there), tone="partial")
    return Cell(text, mean, spread, len(there))


def embolden(cells: Sequence[Cell], *, highest: bool = True) -> tuple[Cell, ...]:
    """Return the cells with the best printed bold, and those that are printed like it."""
    values = [cell.value for cell in cells if cell.value is not None]
    if not values:
        return tuple(cells)
    best = max(values) if highest else min(values)
    first = next(cell.text for cell in cells if cell.value == best).split(" ")[0]
    return tuple(
        replace(cell, bold=cell.value is not None and cell.text.split(" ")[0] == first) for cell in cells
    )


def _fixed(value: float, digits: int) -> str:
    """Return `value` with so many digits, never as -0.00."""
    return f"{round(value, digits) + 0.0:.{digits}f}"

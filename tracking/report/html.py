"""A page as one HTML document that needs nothing beside it: style, script and figures are inside."""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fedgrid.tracking.report import draw
from fedgrid.tracking.report.page import Choice, Page, Plate
from fedgrid.tracking.tables.formats import to_latex
from fedgrid.tracking.tables.table import NONE, Cell, Row, Table

TABLE_FORMATS = ("csv", "tex", "md")
ASSETS = Path(__file__).parent
LEGEND = {
    "better": "better",
    "worse": "worse",
    "partial": "some of the runs only",
    "empty": "not there yet",
}
GAP = 2
"""Characters between two columns."""
DENSE = 110
"""Characters that fit beside the navigation on a screen of 1280 pixels."""
PIXELS_PER_POINT = 1.3 * 96 / 72
"""Figures are set for paper, which is read from nearer than a screen."""


@dataclass(frozen=True)
class _Column:
    """A column, as HTML needs it."""

    name: str
    index: int
    """From 1; 0 are the rows' names."""
    first: bool
    """Whether a group begins with it."""
    notes: tuple[str, ...]
    is_text: bool
    """Whether its cells are words, which are set from the left."""
    number: int
    """Characters of its longest number, or of its longest words."""
    tail: int
    """Characters of the longest `± 0.02 (2/3)` behind a number: room for them makes numbers end alike."""

    def width(self, *, stacked: bool) -> int:
        """Return its characters with the tails below the numbers, or beside them."""
        widths = (self.number, self.tail) if stacked else (self.number + self.tail,)
        return max(*map(len, self.name.split(" ")), *widths) + GAP


@dataclass(frozen=True)
class _Group:
    """Neighbouring columns under one heading, or under none."""

    name: str
    columns: tuple[_Column, ...]


@dataclass(frozen=True)
class _View:
    """A table, as HTML needs it."""

    groups: tuple[_Group, ...]
    parts: tuple[tuple[str, tuple[Row, ...]], ...]
    legend: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[_Column, ...]:
        return tuple(column for group in self.groups for column in group.columns)

    @property
    def is_grouped(self) -> bool:
        return any(group.name for group in self.groups)

    @property
    def is_dense(self) -> bool:
        """Whether the tails go below the numbers, as beside them they would make the table too wide."""
        return any(column.tail for column in self.columns) and self.width(stacked=False) > DENSE

    @property
    def characters(self) -> int:
        """How wide the table is; on paper its letters are as large as this allows."""
        return self.width(stacked=self.is_dense)

    def width(self, *, stacked: bool) -> int:
        names = max((len(row.name) for _, rows in self.parts for row in rows), default=0)
        return names + GAP + sum(column.width(stacked=stacked) for column in self.columns)


@dataclass(frozen=True)
class _Image:
    source: str
    width: int
    """Pixels."""
    height: int


def render(page: Page, folder: Path) -> Iterator[str]:
    """Yield the document in pieces; figures are read one by one, from `folder/figures/<name>.svg`."""
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests |= {
        "choice": lambda item: isinstance(item, Choice),
        "plate": lambda item: isinstance(item, Plate),
    }
    return environment.get_template("report.html.j2").generate(
        page=page,
        style=_asset("report.css"),
        script=_asset("report.js"),
        look_at=_look_at,
        image_of=lambda plate: _image((folder / "figures" / f"{plate.name}.svg").read_bytes()),
        to_latex=to_latex,
        table_formats=TABLE_FORMATS,
        figure_formats=draw.FORMATS,
    )


def _asset(name: str) -> Markup:
    return Markup((ASSETS / name).read_text(encoding="utf-8"))


def _image(svg: bytes) -> _Image:
    size = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert size, "matplotlib begins its files with a viewBox in points"
    width, height = (round(float(points) * PIXELS_PER_POINT) for points in size.groups())
    return _Image(f"data:image/svg+xml;base64,{b64encode(svg).decode()}", width, height)


def _look_at(table: Table) -> _View:
    """Return a table with its neighbours put together: columns by group, rows by section."""
    cells = [cell for row in table.rows for cell in row.cells]
    kinds = {"empty" if not cell.text else cell.tone for cell in cells}
    return _View(
        groups=tuple(_groups(table)),
        parts=tuple((part, tuple(rows)) for part, rows in groupby(table.rows, key=lambda row: row.section)),
        legend=tuple((kind, words) for kind, words in LEGEND.items() if kind in kinds),
    )


def _groups(table: Table) -> Iterator[_Group]:
    numbered = enumerate(table.columns, start=1)
    for name, members in groupby(numbered, key=lambda member: member[1].group):
        columns: list[_Column] = []
        for index, column in members:
            cells = [row.cells[index - 1] for row in table.rows]
            is_text = _is_text(cells)
            halves = [(cell.text, "", "") if is_text else cell.text.partition(" ") for cell in cells]
            columns.append(
                _Column(
                    column.name,
                    index,
                    bool(name) and not columns,
                    column.notes,
                    is_text,
                    max((len(number) for number, _, _ in halves), default=0),
                    max((len(tail) for _, _, tail in halves), default=0),
                )
            )
        yield _Group(name, tuple(columns))


def _is_text(cells: Sequence[Cell]) -> bool:
    return all(cell.value is None for cell in cells) and any(cell.text not in ("", NONE) for cell in cells)

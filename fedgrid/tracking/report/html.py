"""Renders a page as one HTML document with style, script and figures inside."""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fedgrid.tracking.report.page import SVG_SUFFIX, CaptionedFigure, Choice, DrawingOptions, Page
from fedgrid.tracking.tables.formats import to_latex
from fedgrid.tracking.tables.table import NONE, Row, Table

TABLE_FORMATS = ("csv", "tex", "md")
ASSETS = Path(__file__).parent
GAP = 2
"""Characters between two columns."""


@dataclass(frozen=True)
class _ColumnView:
    """A column as the template needs it."""

    name: str
    index: int
    """From 1; column 0 has the rows' names."""
    first: bool
    """Whether it is the first of a group."""
    notes: tuple[str, ...]
    is_text: bool
    """Whether its cells are words, which are aligned to the left."""
    number: int
    """Characters of its longest number, or of its longest words."""
    tail: int
    """Characters of the longest `± 0.02 (2/3)` after a number; a fixed width aligns the numbers."""

    def compute_width(self, *, stacked: bool) -> int:
        """Compute its width in characters with the tails below the numbers (`stacked`) or after them."""
        widths = (self.number, self.tail) if stacked else (self.number + self.tail,)
        return max(*map(len, self.name.split(" ")), *widths) + GAP


@dataclass(frozen=True)
class _TableView:
    """A table as the template needs it."""

    groups: tuple[tuple[str, tuple[_ColumnView, ...]], ...]
    """Neighbouring columns with a common heading, or an empty one."""
    parts: tuple[tuple[str, tuple[Row, ...]], ...]
    legend: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[_ColumnView, ...]:
        """All columns, without their groups."""
        return tuple(column for _, columns in self.groups for column in columns)

    @property
    def is_dense(self) -> bool:
        """Whether the tails are below the numbers because the table would be too wide otherwise."""
        # Next to the navigation 110 characters fit on a screen of 1280 pixels.
        return any(column.tail for column in self.columns) and self.compute_width(stacked=False) > 110

    @property
    def characters(self) -> int:
        """Width of the table, which determines its font size on paper."""
        return self.compute_width(stacked=self.is_dense)

    def compute_width(self, *, stacked: bool) -> int:
        """Compute the width of the table in characters."""
        names = max((len(row.name) for _, rows in self.parts for row in rows), default=0)
        return names + GAP + sum(column.compute_width(stacked=stacked) for column in self.columns)


@dataclass(frozen=True)
class _EmbeddedImage:
    """A figure inside the document, with its size."""

    source: str
    width: int
    """Pixels."""
    height: int


def render_page(page: Page, folder: Path, drawing: DrawingOptions) -> Iterator[str]:
    """Yield the document in pieces; figures are read one at a time from `folder/figures/<name>.svg`.

    Those that are not drawn have their titles and captions, and how to draw them.
    """
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Jinja2 has no isinstance.
    environment.tests |= {
        "choice": lambda item: isinstance(item, Choice),
        "plate": lambda item: isinstance(item, CaptionedFigure),
    }
    drawn = {plate.name for plate in page.list_figures(all_figures=drawing.all_figures)}
    # A generator, so that the figures of a large report are never all in memory.
    return environment.get_template("report.html.j2").generate(
        page=page,
        drawn=drawn,
        num_figures=sum(1 for _ in page.list_figures()),
        style=_read_asset("report.css"),
        script=_read_asset("report.js"),
        view_of=_build_view,
        image_of=lambda plate: _embed_image((folder / "figures" / f"{plate.name}.{SVG_SUFFIX}").read_bytes()),
        to_latex=to_latex,
        table_formats=TABLE_FORMATS,
        figure_formats=drawing.formats,
    )


def _read_asset(name: str) -> Markup:
    """Read a file of this folder that goes into the document as it is."""
    return Markup((ASSETS / name).read_text(encoding="utf-8"))


def _embed_image(svg: bytes) -> _EmbeddedImage:
    """Encode an SVG as a data URL, with its size in pixels."""
    size = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert size, "an SVG by matplotlib has a viewBox in points"
    # Figures are designed for paper: a screen is read from farther away.
    width, height = (round(float(points) * (1.3 * 96 / 72)) for points in size.groups())
    return _EmbeddedImage(f"data:image/svg+xml;base64,{b64encode(svg).decode()}", width, height)


def _build_view(table: Table) -> _TableView:
    """Build the view of a table: columns by group, rows by section, and a legend of its colours."""
    cells = [cell for row in table.rows for cell in row.cells]
    kinds = {"empty" if not cell.text else cell.tone for cell in cells}
    legend = {
        "better": "better",
        "worse": "worse",
        "partial": "only some of the runs",
        "empty": "no result yet",
    }
    return _TableView(
        groups=tuple(_group_columns(table)),
        # A group of `groupby` is empty once the next one has begun.
        parts=tuple((part, tuple(rows)) for part, rows in groupby(table.rows, key=lambda row: row.section)),
        legend=tuple((kind, words) for kind, words in legend.items() if kind in kinds),
    )


def _group_columns(table: Table) -> Iterator[tuple[str, tuple[_ColumnView, ...]]]:
    """Yield the columns by group, with the widths that their cells need."""
    numbered = enumerate(table.columns, start=1)
    for name, members in groupby(numbered, key=lambda member: member[1].group):
        columns: list[_ColumnView] = []
        for index, column in members:
            cells = [row.cells[index - 1] for row in table.rows]
            has_words = any(cell.text not in ("", NONE) for cell in cells)
            # A column of dashes alone is a column of numbers that are missing, and is aligned like numbers.
            is_text = has_words and all(cell.value is None for cell in cells)
            halves = [(cell.text, "", "") if is_text else cell.text.partition(" ") for cell in cells]
            columns.append(
                _ColumnView(
                    column.name,
                    index,
                    bool(name) and not columns,
                    column.notes,
                    is_text,
                    max((len(number) for number, _, _ in halves), default=0),
                    max((len(tail) for _, _, tail in halves), default=0),
                )
            )
        yield name, tuple(columns)

"""A table of scores on the terminal: in parts, one below the other, if it is wider than the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fedgrid.grids.display.plain import print_plain
from fedgrid.tracking.tables.table import Cell, Column, Table

BETWEEN = 2
"""Spaces between columns."""
LEAST = 14
"""Width to which headings are wrapped, unless a cell is wider."""
CAPTION = 100
"""Width of the caption's lines at most."""


@dataclass(frozen=True)
class Printed:
    """A column as it is printed: all lines of one width."""

    group: str
    heading: tuple[str, ...]
    cells: tuple[Text, ...]

    @property
    def width(self) -> int:
        """Number of places that it takes, with the space before it."""
        return BETWEEN + max(map(cell_len, (*self.heading, *(cell.plain for cell in self.cells))))


def show_table(table: Table, console: Console) -> None:
    """Print a table with its title above and its caption below."""
    names = [row.name for row in table.rows]
    sections = [row.section for row in table.rows]
    left = max(map(cell_len, (table.corner, *names, *sections)))
    columns = [
        _make_column(column, [row.cells[index] for row in table.rows])
        for index, column in enumerate(table.columns)
    ]
    print_line(console, Text(table.title, "bold"))
    for part in _parts(columns, console.width - left):
        print_line(console, Text())
        for line in _heading(part, table.corner, left):
            print_line(console, line)
        print_line(console, Text("─" * (left + sum(column.width for column in part))))
        for index, name in enumerate(names):
            if sections[index] and sections[index] != (sections[index - 1] if index else ""):
                print_line(console, Text(sections[index], "bold"))
            cells = [_right(column.cells[index], column.width) for column in part]
            print_line(console, Text.assemble(_left(name, left), *cells))
    print_line(console, Text())
    for text in wrap(table.caption, min(console.width, CAPTION)):
        print_plain(console, text)


def print_line(console: Console, line: Text) -> None:
    """Print a line as it is."""
    line.rstrip()
    console.print(line, soft_wrap=True)


def _make_column(column: Column, cells: Sequence[Cell]) -> Printed:
    """Return a column; its cells have room for a note if one of them has any, so that numbers align."""
    notes = [", ".join(cell.notes) for cell in cells]
    room = max(map(len, notes), default=0)
    texts = [
        f"{cell.text} {note.ljust(room)}" if room else cell.text
        for cell, note in zip(cells, notes, strict=True)
    ]
    width = max([LEAST, *map(cell_len, texts)])
    heading = wrap(column.name, width, break_long_words=False)
    if room:
        heading = [f"{line}{' ' * (room + 1)}" for line in heading]
    bold = (Text(text, "bold" if cell.bold else "") for text, cell in zip(texts, cells, strict=True))
    return Printed(column.group, tuple(heading), tuple(bold))


def _parts(columns: Sequence[Printed], room: int) -> Iterator[list[Printed]]:
    """Yield as many columns as fit side by side, those of a group together if they do."""
    part: list[Printed] = []
    for _, members in groupby(columns, lambda column: column.group):
        group = list(members)
        if part and sum(column.width for column in (*part, *group)) > room:
            yield part
            part = []
        for column in group:
            if part and sum(other.width for other in (*part, column)) > room:
                yield part
                part = []
            part.append(column)
    yield part


def _heading(part: Sequence[Printed], corner: str, left: int) -> Iterator[Text]:
    """Yield the lines of the heading: groups above their columns, then the columns' names."""
    spans = [
        (group, sum(column.width for column in columns))
        for group, columns in groupby(part, lambda column: column.group)
    ]
    groups = [
        ([line.center(width - BETWEEN) for line in wrap(group, width - BETWEEN)], width)
        for group, width in spans
    ]
    names = [(column.heading, column.width) for column in part]
    yield from _stack(groups, "", left)
    yield from _stack(names, corner, left)


def _stack(texts: Sequence[tuple[Sequence[str], int]], corner: str, left: int) -> Iterator[Text]:
    """Yield lines in which texts of several lines, each with its width, end on the last line."""
    height = max(len(lines) for lines, _ in texts)
    for number in range(height):
        cells = [
            _right(Text(lines[at] if (at := number - height + len(lines)) >= 0 else ""), width)
            for lines, width in texts
        ]
        line = Text.assemble(_left(corner if number == height - 1 else "", left), *cells)
        line.stylize("bold")
        yield line


def _left(text: str, width: int) -> Text:
    return Text(text + " " * (width - cell_len(text)))


def _right(text: Text, width: int) -> Text:
    return Text.assemble(" " * (width - cell_len(text.plain)), text)

"""Rows as text for the terminal: one way to print a table, and one to print keys with their values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from sys import maxsize
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from fedgrid.grids.display.plain import print_plain
from fedgrid.tracking.tables.table import Table

GAP, NARROW_GAP = 2, 1
"""Spaces between columns; the second where a table fits the terminal with it alone."""
LEAST_HEADING = 14
"""Width to which headings are wrapped if the table is too wide, unless a cell is wider."""
LEAST_TEXT, LEAST_NAME = 20, 9
"""Width to which a column of text, and the first one, are narrowed if the table is too wide."""
CAPTION = 100
"""Width of the caption's lines at most."""


@dataclass(frozen=True)
class TextTable:
    """A table that a console prints: in parts, one below the other, if it is wider than the terminal.

    Before it has parts, its columns of text are wrapped. Printed with `soft_wrap`, it has any width.
    """

    headings: Sequence[str]
    """One a column; it may have line breaks."""
    rows: Sequence[Sequence[str | Text]]
    """A cell a column; a row without cells is a line across, one of a single cell heads a section."""
    title: str = ""
    """Printed above; the headings are underlined then."""
    numbers: Collection[int] = ()
    """Places of the columns that are aligned on the right, and not wrapped."""
    groups: Sequence[str] = ()
    """A heading a column, printed once above neighbours that share it; none if it is empty."""
    names: int = 1
    """Number of first columns that every part repeats."""
    caption: str = ""
    """Printed below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        limit = maxsize if options.no_wrap else options.max_width
        if self.title:
            yield Text(self.title, "bold")
        whole = [row for row in self.rows if len(row) == len(self.headings)]
        columns = [[row[place] for row in whole] for place in range(len(self.headings))]
        inner = [
            max((cell_len(line) for cell in cells for line in _plain(cell).split("\n")), default=0)
            for cells in columns
        ]
        for least in (limit, LEAST_HEADING):
            headings = [
                _wrap(heading, max(width, least), break_long_words=False)
                for heading, width in zip(self.headings, inner, strict=True)
            ]
            natural = [
                max(width, *map(cell_len, lines)) for width, lines in zip(inner, headings, strict=True)
            ]
            if sum(natural) + GAP * (len(natural) - 1) <= limit:
                break
        widths, gap = self._fit(natural, limit)
        for number, places in enumerate(self._parts(widths, gap, limit)):
            if number:
                yield Text()
            yield from self._part(places, headings, widths, gap)
        if self.caption:
            yield Text()
            yield from map(Text, wrap(self.caption, min(limit, CAPTION)))

    def _fit(self, widths: list[int], limit: int) -> tuple[list[int], int]:
        """Return the widths of columns and the space between them: with one part, if that can be."""
        texts = [place for place in range(len(widths)) if place not in self.numbers]
        names = dict.fromkeys([place for place in texts if place < self.names], LEAST_NAME)
        others = dict.fromkeys([place for place in texts if place >= self.names], LEAST_TEXT)
        for gap, floors in ((GAP, others), (NARROW_GAP, others | names)):
            fitted = list(widths)
            while (excess := sum(fitted) + gap * (len(fitted) - 1) - limit) > 0:
                wide = [place for place, floor in floors.items() if fitted[place] > floor]
                if not wide:
                    break
                fitted[max(wide, key=lambda place: fitted[place])] -= 1
            if excess <= 0:
                return fitted, gap
        return [min(width, max(LEAST_TEXT, limit - widths[0] - GAP)) for width in widths], GAP

    def _parts(self, widths: Sequence[int], gap: int, limit: int) -> Iterator[list[int]]:
        """Yield the places of the columns of each part, those of a group together if they fit."""

        def fits(places: Sequence[int]) -> bool:
            return sum(widths[place] + gap for place in places) - gap <= limit

        names = list(range(min(self.names, len(widths))))
        part = list(names)
        for _, members in groupby(range(self.names, len(widths)), self._group):
            group = list(members)
            for wanted in (group, *([place] for place in group)):
                if part != names and not fits([*part, *wanted]) and (wanted is not group or self.groups):
                    yield part
                    part = list(names)
                part += wanted if wanted is not group else []
        yield part

    def _group(self, place: int) -> str:
        return self.groups[place] if self.groups else ""

    def _part(
        self, places: Sequence[int], headings: Sequence[list[str]], widths: Sequence[int], gap: int
    ) -> Iterator[Text]:
        shown = [widths[place] for place in places]
        are_numbers = [place in self.numbers for place in places]
        across = Text("─" * (sum(shown) + gap * (len(shown) - 1)))
        if self.groups:
            spans = [(group, list(its)) for group, its in groupby(places, self._group)]
            above = [sum(widths[place] + gap for place in its) - gap for _, its in spans]
            titles = [
                [line.center(width) for line in wrap(group, width)]
                for (group, _), width in zip(spans, above, strict=True)
            ]
            for line in _stack(titles, above, [False] * len(spans), gap, at_bottom=True):
                yield Text(line, "bold")
        for line in _stack([headings[place] for place in places], shown, are_numbers, gap, at_bottom=True):
            yield Text(line, "bold")
        if self.title:
            yield across
        for row in self.rows:
            if len(row) == len(self.headings):
                cells = [row[place] for place in places]
                wrapped = [_wrap(_plain(cell), width) for cell, width in zip(cells, shown, strict=True)]
                for line in _stack(wrapped, shown, are_numbers, gap):
                    yield _styled(line, cells, shown, gap)
            else:
                yield Text(_plain(row[0]), "bold") if row else across


def page_table(table: Table) -> TextTable:
    """Return a table of a report; its cells have room for a note if one of the column has any."""
    columns = []
    for place in range(len(table.columns)):
        notes = [", ".join(row.cells[place].notes) for row in table.rows]
        room = max(map(len, notes), default=0)
        columns.append(
            [
                Text(f"{row.cells[place].text} {note.ljust(room)}" if room else row.cells[place].text)
                for row, note in zip(table.rows, notes, strict=True)
            ]
        )
    rows: list[Sequence[str | Text]] = []
    section = ""
    for number, row in enumerate(table.rows):
        if row.section and row.section != section:
            rows.append([row.section])
        section = row.section
        for column, cell in zip(columns, row.cells, strict=True):
            column[number].style = "bold" if cell.bold else ""
        rows.append([row.name, *(column[number] for column in columns)])
    return TextTable(
        [table.corner, *(column.name for column in table.columns)],
        rows,
        table.title,
        range(1, 1 + len(columns)),
        ["", *(column.group for column in table.columns)] if any(one.group for one in table.columns) else (),
        caption=table.caption,
    )


def print_pairs(console: Console, pairs: Mapping[str, str], indent: str = "") -> None:
    """Print keys with their values, a line each, the values below one another."""
    width = max(map(len, pairs), default=0)
    for key, value in pairs.items():
        print_plain(console, f"{indent}{key:<{width}}  {value}")


def _plain(cell: str | Text) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _wrap(text: str, width: int, *, break_long_words: bool = True) -> list[str]:
    """Return a text in lines of at most `width`."""
    lines = []
    for line in text.split("\n"):
        is_long = cell_len(line) > width
        lines += wrap(line, width, break_long_words=break_long_words) if is_long else [line]
    return lines


def _stack(
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    are_numbers: Sequence[bool],
    gap: int,
    *,
    at_bottom: bool = False,
) -> Iterator[str]:
    """Yield the lines of cells side by side; one of fewer lines begins at the top, or ends at the bottom."""
    height = max(map(len, cells), default=0)
    for number in range(height):
        parts = []
        for lines, width, is_number in zip(cells, widths, are_numbers, strict=True):
            index = number - height + len(lines) if at_bottom else number
            text = lines[index] if 0 <= index < len(lines) else ""
            space = " " * (width - cell_len(text))
            parts.append(space + text if is_number else text + space)
        yield (" " * gap).join(parts).rstrip()


def _styled(line: str, cells: Sequence[str | Text], widths: Sequence[int], gap: int) -> Text:
    """Return a line of a row with the styles of its cells."""
    text = Text(line, no_wrap=True, overflow="ignore")
    start = 0
    for cell, width in zip(cells, widths, strict=True):
        if isinstance(cell, Text) and cell.style:
            text.stylize(cell.style, start, start + width)
        start += width + gap
    return text

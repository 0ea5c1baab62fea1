"""Print rows as text on the terminal: tables that fit its width, and keys with their values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from sys import maxsize
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from fedgrid.grids.display.plain_console import print_plain
from fedgrid.tracking.tables.table import Table

COLUMN_GAP, NARROW_GAP = 2, 1
"""Spaces between columns; the narrow gap is used where a table fits the terminal only with it."""
HEADING_WRAP_WIDTH = 14
"""Width to which headings are wrapped if the table is too wide, unless a cell of the column is wider."""
LEAST_TEXT_WIDTH, LEAST_NAME_WIDTH = 20, 9
"""Least width of a column of text, and of the first column, when a table is narrowed."""
CAPTION_WIDTH = 100
"""Most characters of a caption's line."""


@dataclass(frozen=True)
class TextTable:
    """A table that fits itself to the console: its text columns are wrapped, then it is cut into parts.

    Parts stand one below the other. Printed with `soft_wrap`, the table has any width and none of this
    happens.
    """

    headings: Sequence[str]
    """Heading of each column; it may have line breaks."""
    rows: Sequence[Sequence[str | Text]]
    """A cell for each column; a row without cells is a line across, a row of a single cell heads a section.
    """
    title: str = ""
    """Printed above; the headings are underlined then. Default: none."""
    numbers: Collection[int] = ()
    """Indices of the columns that are aligned on the right and never wrapped; default: none."""
    groups: Sequence[str] = ()
    """Heading above each column, printed once above neighbours that share it; default: no such line."""
    names: int = 1
    """Number of first columns that every part repeats; default 1."""
    caption: str = ""
    """Printed below; default: none."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines of the table; called by rich when the table is printed."""
        limit = maxsize if options.no_wrap else options.max_width
        if self.title:
            yield Text(self.title, "bold")
        full_rows = [row for row in self.rows if len(row) == len(self.headings)]
        columns = [[row[place] for row in full_rows] for place in range(len(self.headings))]
        inner = [
            max((cell_len(line) for cell in cells for line in _strip_style(cell).split("\n")), default=0)
            for cells in columns
        ]
        # First with headings as they are; they are wrapped only if the table is too wide then.
        for least in (limit, HEADING_WRAP_WIDTH):
            headings = [
                _wrap_text(heading, max(width, least), break_long_words=False)
                for heading, width in zip(self.headings, inner, strict=True)
            ]
            natural = [
                max(width, *map(cell_len, lines)) for width, lines in zip(inner, headings, strict=True)
            ]
            if sum(natural) + COLUMN_GAP * (len(natural) - 1) <= limit:
                break
        widths, gap = self._fit_widths(natural, limit)
        for number, places in enumerate(self._split_into_parts(widths, gap, limit)):
            if number:
                yield Text()
            yield from self._format_part(places, headings, widths, gap)
        if self.caption:
            yield Text()
            yield from map(Text, wrap(self.caption, min(limit, CAPTION_WIDTH)))

    def _fit_widths(self, widths: list[int], limit: int) -> tuple[list[int], int]:
        """Compute the columns' widths and the gap, so that the table has one part if possible."""
        texts = [place for place in range(len(widths)) if place not in self.numbers]
        names = dict.fromkeys([place for place in texts if place < self.names], LEAST_NAME_WIDTH)
        others = dict.fromkeys([place for place in texts if place >= self.names], LEAST_TEXT_WIDTH)
        # 1. Narrow the text columns, the widest first. 2. If that does not suffice, narrow the gaps and the
        # names too. 3. If nothing suffices, the table is cut into parts, and each column may be as wide as a
        # part has room.
        for gap, floors in ((COLUMN_GAP, others), (NARROW_GAP, others | names)):
            fitted = list(widths)
            while (excess := sum(fitted) + gap * (len(fitted) - 1) - limit) > 0:
                wide = [place for place, floor in floors.items() if fitted[place] > floor]
                if not wide:
                    break
                fitted[max(wide, key=lambda place: fitted[place])] -= 1
            if excess <= 0:
                return fitted, gap
        return [
            min(width, max(LEAST_TEXT_WIDTH, limit - widths[0] - COLUMN_GAP)) for width in widths
        ], COLUMN_GAP

    def _split_into_parts(self, widths: Sequence[int], gap: int, limit: int) -> Iterator[list[int]]:
        """Yield the indices of the columns of each part; columns of a group stay together if they fit."""

        def fits(places: Sequence[int]) -> bool:
            return sum(widths[place] + gap for place in places) - gap <= limit

        names = list(range(min(self.names, len(widths))))
        part = list(names)
        for _, members in groupby(range(self.names, len(widths)), self._find_group):
            group = list(members)
            # First the group as a whole; if it is wider than a part, its columns one by one.
            for candidate in (group, *([place] for place in group)):
                if (
                    part != names
                    and not fits([*part, *candidate])
                    and (candidate is not group or self.groups)
                ):
                    yield part
                    part = list(names)
                part += candidate if candidate is not group else []
        yield part

    def _find_group(self, place: int) -> str:
        """Find the group heading of a column."""
        return self.groups[place] if self.groups else ""

    def _format_part(
        self, places: Sequence[int], headings: Sequence[list[str]], widths: Sequence[int], gap: int
    ) -> Iterator[Text]:
        """Yield the lines of a part: group headings, headings, rows."""
        shown = [widths[place] for place in places]
        are_numbers = [place in self.numbers for place in places]
        across = Text("─" * (sum(shown) + gap * (len(shown) - 1)))
        if self.groups:
            spans = [(group, list(its)) for group, its in groupby(places, self._find_group)]
            above = [sum(widths[place] + gap for place in its) - gap for _, its in spans]
            titles = [
                [line.center(width) for line in wrap(group, width)]
                for (group, _), width in zip(spans, above, strict=True)
            ]
            for line in _join_cells(titles, above, [False] * len(spans), gap, at_bottom=True):
                yield Text(line, "bold")
        for line in _join_cells(
            [headings[place] for place in places], shown, are_numbers, gap, at_bottom=True
        ):
            yield Text(line, "bold")
        if self.title:
            yield across
        for row in self.rows:
            if len(row) == len(self.headings):
                cells = [row[place] for place in places]
                wrapped = [
                    _wrap_text(_strip_style(cell), width) for cell, width in zip(cells, shown, strict=True)
                ]
                for line in _join_cells(wrapped, shown, are_numbers, gap):
                    yield _style_line(line, cells, shown, gap)
            else:
                yield Text(_strip_style(row[0]), "bold") if row else across


def build_text_table(table: Table) -> TextTable:
    """Build the table for the terminal from a table of a report; a column with notes gets room for them."""
    columns = []
    for place in range(len(table.columns)):
        notes = [", ".join(row.cells[place].notes) for row in table.rows]
        # Notes are padded to one width within a column, so that the numbers before them stay aligned.
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
    """Print keys with their values, one pair on each line, with the values aligned."""
    width = max(map(len, pairs), default=0)
    for key, value in pairs.items():
        print_plain(console, f"{indent}{key:<{width}}  {value}")


def _strip_style(cell: str | Text) -> str:
    """Convert a cell to a string without styles."""
    return cell if isinstance(cell, str) else cell.plain


def _wrap_text(text: str, width: int, *, break_long_words: bool = True) -> list[str]:
    """Break a text into lines of at most `width`."""
    lines = []
    for line in text.split("\n"):
        is_long = cell_len(line) > width
        lines += wrap(line, width, break_long_words=break_long_words) if is_long else [line]
    return lines


def _join_cells(
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    are_numbers: Sequence[bool],
    gap: int,
    *,
    at_bottom: bool = False,
) -> Iterator[str]:
    """Yield the lines of cells side by side; short ones begin at the top, or end at the bottom."""
    height = max(map(len, cells), default=0)
    for number in range(height):
        parts = []
        for lines, width, is_number in zip(cells, widths, are_numbers, strict=True):
            index = number - height + len(lines) if at_bottom else number
            text = lines[index] if 0 <= index < len(lines) else ""
            space = " " * (width - cell_len(text))
            parts.append(space + text if is_number else text + space)
        yield (" " * gap).join(parts).rstrip()


def _style_line(line: str, cells: Sequence[str | Text], widths: Sequence[int], gap: int) -> Text:
    """Apply the styles of a row's cells to one of its lines."""
    text = Text(line, no_wrap=True, overflow="ignore")
    start = 0
    for cell, width in zip(cells, widths, strict=True):
        if isinstance(cell, Text) and cell.style:
            text.stylize(cell.style, start, start + width)
        start += width + gap
    return text

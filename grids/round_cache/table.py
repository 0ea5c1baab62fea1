"""The table of `fedgrid store`: a row a trunk or a data set, and their sum."""

from collections.abc import Sequence
from textwrap import fill

from rich.table import Table
from rich.text import Text

from fedgrid.grids.display.tables import ROOMY, titled_table
from fedgrid.grids.round_cache.sizes import size
from fedgrid.grids.round_cache.usage import Usage

LEGEND = (
    "runs: finished/all; rounds: of these runs so far; taken: those that came from\n"
    "the store; hits: their share; spent: the runs' own time; alone: what it would\n"
    "have been without the store; states: as large as a model each, kept for runs\n"
    "that are not finished; stat.: statistics, which stay."
)
NARROWEST = 15
"""Columns that a name has at least."""
HEADINGS = {
    "runs": "runs",
    "rounds": "rounds",
    "computed": "com-\nputed",
    "taken": "taken",
    "hits": "hits",
    "spent": "spent",
    "alone": "alone",
    "states": "states",
    "statistics": "stat.",
    "can go": "can go",
}
SPARED = ("computed", "can go")
"""What a narrow terminal has no room for, as it follows from the rest."""
LARGER = ((60, "min"), (60, "h"), (24, "d"))
"""Of a unit so many are the next one."""


def store_table(title: str, rows: Sequence[Usage], total: Usage, width: int) -> Table:
    """Return the rows, and their sum if there are several, in a table `width` columns wide."""
    table = titled_table(title, width)
    every = [*rows, total] if len(rows) > 1 else list(rows)
    cells = [_cells(row) for row in every]
    shown = [name for name in HEADINGS if width >= ROOMY or name not in SPARED]
    taken_up = sum(_width([HEADINGS[name], *(row[name] for row in cells)], width) for name in shown)
    room = max(NARROWEST, width - taken_up - 1)
    table.add_column("scenario")
    for name in shown:
        table.add_column(HEADINGS[name], justify="right", no_wrap=True)
    for row, values in zip(every, cells, strict=True):
        if row is total:
            table.add_section()
        table.add_row(Text(_folded(row.name, room)), *(values[name] for name in shown))
    return table


def brief(seconds: float) -> str:
    """Return seconds in a few characters: 3.2 s, 41 s, 4.2 min, 2.1 h, 3.4 d."""
    value, unit = seconds, "s"
    for many, larger in LARGER:
        if value < many - 0.5:
            break
        value, unit = value / many, larger
    return f"{value:.{1 if value < 9.95 else 0}f} {unit}"


def _folded(name: str, room: int) -> str:
    """Break a name at its hyphens and commas, and not before the number of its seed."""
    return fill(name.replace("seed ", "seed\xa0"), room).replace("\xa0", " ")


def _cells(row: Usage) -> dict[str, str]:
    return {
        "runs": f"{row.finished}/{row.runs}",
        "rounds": str(row.rounds),
        "computed": f"{row.computed:.0f}",
        "taken": f"{row.taken:.0f}",
        "hits": "–" if row.hits is None else f"{row.hits:.0%}",
        "spent": brief(row.seconds),
        "alone": brief(row.alone_seconds),
        "states": size(row.states_bytes),
        "statistics": size(row.statistics_bytes),
        "can go": size(row.can_go_bytes),
    }


def _width(column: Sequence[str], width: int) -> int:
    """Return what a column takes, with what stands between it and the one before."""
    lines = (line for cell in column for line in cell.splitlines())
    return max(map(len, lines)) + (2 if width >= ROOMY else 1)

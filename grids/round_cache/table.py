"""The table of `fedgrid cache`: a row per shared prefix or data set, and the total."""

from collections.abc import Sequence
from textwrap import fill

from pydantic import ByteSize
from rich.table import Table
from rich.text import Text

from fedgrid.grids.display.tables import ROOMY, titled_table
from fedgrid.grids.round_cache.usage import Usage

LEGEND = (
    "runs: finished/all; rounds: of these runs so far; cached: rounds that came from\n"
    "the cache; hits: their share; spent: the runs' own time; uncached: their time if\n"
    "there were no cache; states: as large as a model each, cached for unfinished\n"
    "runs; stat.: statistics, which stay."
)
NARROWEST = 15
"""Columns of the terminal that a name gets at least."""
HEADINGS = {
    "runs": "runs",
    "rounds": "rounds",
    "computed": "com-\nputed",
    "taken": "cached",
    "hits": "hits",
    "spent": "spent",
    "uncached": "uncached",
    "states": "states",
    "statistics": "stat.",
    "can go": "unused",
}
SPARED = ("computed", "can go")
"""Columns left out on a narrow terminal: they follow from the others."""
LARGER = ((60, "min"), (60, "h"), (24, "d"))
"""How many of a unit make the next one."""


def cache_table(title: str, rows: Sequence[Usage], total: Usage, width: int) -> Table:
    """Return the rows, and their total if there are several, as a table `width` columns wide."""
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


def readable_size(count: int) -> str:
    """Return a number of bytes with a decimal unit: 0 B, 41.3 MB, 120.0 GB."""
    return ByteSize(count).human_readable(decimal=True, separator=" ")


def _folded(name: str, room: int) -> str:
    """Break a name at its hyphens and commas, but not between `seed` and its number."""
    return fill(name.replace("seed ", "seed\xa0"), room).replace("\xa0", " ")


def _cells(row: Usage) -> dict[str, str]:
    return {
        "runs": f"{row.finished}/{row.runs}",
        "rounds": str(row.rounds),
        "computed": f"{row.computed:.0f}",
        "taken": f"{row.taken:.0f}",
        "hits": "–" if row.hits is None else f"{row.hits:.0%}",
        "spent": brief(row.seconds),
        "uncached": brief(row.uncached_seconds),
        "states": readable_size(row.states_bytes),
        "statistics": readable_size(row.statistics_bytes),
        "can go": readable_size(row.can_go_bytes),
    }


def _width(column: Sequence[str], width: int) -> int:
    """Return the width of a column, with the gap to the one before."""
    lines = (line for cell in column for line in cell.splitlines())
    return max(map(len, lines)) + (2 if width >= ROOMY else 1)

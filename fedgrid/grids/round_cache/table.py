"""The table of `fedgrid cache`: a row per shared prefix or data set, and the total."""

from collections.abc import Sequence
from textwrap import fill

from rich.table import Table

from fedgrid.grids.display.tables import duration, readable_size, titled_table
from fedgrid.grids.round_cache.usage import Usage

WIDE = 120
"""From this many columns on, names stand on one line."""
LEGEND = (
    "runs: finished/all; rounds: of these runs so far; cached: rounds that came from\n"
    "the cache; hits: their share; spent: the runs' own time; uncached: their time if\n"
    "there were no cache; states: as large as a model each, cached for unfinished\n"
    "runs; stat.: statistics, which stay."
)
HEADINGS = ("runs", "rounds", "cached", "hits", "spent", "uncached", "states", "stat.")


def cache_table(title: str, rows: Sequence[Usage], total: Usage, width: int) -> Table:
    """Return the rows, and their total if there are several, as a table for a terminal of `width` columns."""
    table = titled_table(title, width)
    table.add_column("scenario")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(fill(row.name, 50 if width >= WIDE else 15), *_cells(row))
    if len(rows) > 1:
        table.add_section()
        table.add_row(total.name, *_cells(total))
    return table


def _cells(row: Usage) -> list[str]:
    return [
        f"{row.finished}/{row.runs}",
        str(row.rounds),
        f"{row.taken:.0f}",
        "–" if row.hits is None else f"{row.hits:.0%}",
        duration(row.seconds),
        duration(row.uncached_seconds),
        readable_size(row.states_bytes),
        readable_size(row.statistics_bytes),
    ]

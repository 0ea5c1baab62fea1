"""Tables on the terminal: results of a grid, lists of choices."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from pydantic import ByteSize
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedgrid.grids.results.result_columns import OWN_COLUMNS, SUMMARY_COLUMNS, columns_for
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.selection import text_of
from fedgrid.tracking.tables.cells import seed_words, spread_over_seeds
from fedgrid.tracking.tables.table import NONE
from fedgrid.tracking.tables.table import Table as PageTable

EXACTLY = "exactly_right"
"""Score: whether the last partition is that of the hidden groups, None without several of these."""

ROOMY = 106
"""From this many columns on, the results have two spaces between their columns."""
WITH_UNCACHED = 92
"""From this many columns on, the results have a column for a run's time without the round cache."""


def duration(seconds: float) -> str:
    """Format seconds for people: 3.2 s, 4 min 10 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def pace(rounds_per_second: float) -> str:
    """Format a pace for people: 2.5 rounds/s, or 12 s/round if it is slower than one a second."""
    if 0 < rounds_per_second < 1:
        return f"{duration(1 / rounds_per_second)}/round"
    return f"{rounds_per_second:.1f} rounds/s"


def roughly(hours: float) -> str:
    """Format an estimate for people, in minutes at least: 1 min, 2.5 h, 14 h."""
    if hours < 1:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def readable_size(count: int) -> str:
    """Return a number of bytes with a decimal unit: 0 B, 41.3 MB, 120.0 GB."""
    return ByteSize(count).human_readable(decimal=True, separator=" ")


def titled_table(title: str, width: int) -> Table:
    """Return an empty table under its title, its columns close together on a narrow terminal."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1 if width >= ROOMY else 0, 0, 0),
    )


def result_row(run: Run, axes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the columns of the results table for one run, by name; `axes` are the grid's further axes."""
    return {
        "run": run.folder.name.removesuffix(f"-{run.run_id}"),
        "run_id": run.run_id,
        "scenario": run.place,
        "algorithm": run.value("algorithm"),
        "seed": run.seed,
        **{axis: run.keys.get(axis) for axis in axes},
        **{name: run.scores.get(name) for name in columns_for(run.scores.keys())},
        **{name: run.scores[name] for name in OWN_COLUMNS if name in run.scores},
        "seconds": round(run.times["seconds"] or 0.0, 1),
        "uncached_seconds": round(run.times["uncached_seconds"] or 0.0, 1),
        "error": run.cause or None,
        "folder": str(run.folder),
    }


def setting_of(run: Run) -> str:
    """Return what sets a run's scenario apart, empty if nothing does: `, split.majority 0.5`."""
    return "".join(f", {axis} {value}" for axis, value in run.setting)


def result_table(runs: Sequence[Run], width: int) -> Group:
    """Return the results of a grid: a table for each scenario and seed, a row for each run, 80 columns wide.

    With a few more columns, and if any round was a cache hit, a row also has the time without the cache.
    """
    uncached = width >= WITH_UNCACHED and any(run.has_hits for run in runs)
    sections: dict[str, list[Run]] = {}
    for run in runs:
        sections.setdefault(f"{run.place}{setting_of(run)}, seed {run.seed}", []).append(run)
    return Group(*(_section_table(name, rows, width, uncached=uncached) for name, rows in sections.items()))


def _section_table(name: str, runs: Sequence[Run], width: int, *, uncached: bool) -> Table:
    table = titled_table(f"Final round, {name}", width)
    table.add_column("algo-\nrithm")
    scores = {score for run in runs for score in run.scores}
    own = {key: name for key, name in OWN_COLUMNS.items() if key in scores}
    columns = {**columns_for(scores), **own}
    headings = [*columns.values(), "sec.", *(["un-\ncached"] if uncached else [])]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    room = _room(headings, width)
    for run in runs:
        times = [run.times[name] or 0.0 for name in ("seconds", *(["uncached_seconds"] if uncached else []))]
        table.add_row(
            _fold(run.algorithm, room),
            *(cell(run.scores.get(name)) for name in columns),
            *(f"{value:.{1 if value < 100 else 0}f}" for value in times),
        )
    return table


def summary_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each data set, setting and algorithm: number of runs, of exact ones, mean scores.

    Only runs `with_groups` can be exact: their data have several hidden groups. A mean is over the runs that
    have the score; None if no run has it. `spread` has the standard deviations of these means over seeds, as
    `spread_over_seeds`.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    columns = columns_for({score for run in runs for score in run.scores}, SUMMARY_COLUMNS)
    for run in runs:
        scores = {name: run.scores.get(name) for name in (EXACTLY, *columns)}
        group = groups.setdefault((run.value("dataset"), setting_of(run), run.algorithm), [])
        group.append({**scores, "at": (run.place, run.seed)})
    return [
        {
            "dataset": dataset,
            "setting": setting.removeprefix(", "),
            "algorithm": algorithm,
            "runs": len(rows),
            "seeds": len({row["at"][1] for row in rows}),
            "exact": sum(row[EXACTLY] is True for row in rows),
            "with_groups": sum(row[EXACTLY] is not None for row in rows),
            **{name: _mean([row[name] for row in rows]) for name in columns},
            "spread": {
                name: spread_over_seeds(
                    {row["at"]: row[name] for row in rows if row[name] is not None}, len(rows)
                )
                for name in columns
            },
        }
        for (dataset, setting, algorithm), rows in groups.items()
    ]


def seeds_table(runs: Sequence[Run], width: int) -> Group:
    """Return a table for each scenario, with the mean over its seeds for each algorithm."""
    sections: dict[str, list[Run]] = {}
    for run in runs:
        sections.setdefault(f"{run.place}{setting_of(run)}", []).append(run)
    return Group(*(_of_scenario(name, summary_rows(members), width) for name, members in sections.items()))


def _of_scenario(name: str, rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    seeds = {row["algorithm"]: row["seeds"] for row in rows}
    spread = f", mean ± standard deviation over {seed_words(seeds)}" if max(seeds.values()) > 1 else ""
    return _rows_table(f"Final round, {name}{spread}", rows, width, datasets=False)


def summary_table(rows: Sequence[Mapping[str, Any]], width: int) -> Group:
    """Return the rows of `summary_rows` for the terminal: a table for each setting, whose axes it shows."""
    seeds = {row["algorithm"]: row["seeds"] for row in rows}
    spread = f"{seed_words(seeds)}, ± standard deviation over seeds" if max(seeds.values()) > 1 else "seeds"
    tables: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        where = f"Final round{', ' if row['setting'] else ''}{row['setting']}"
        tables.setdefault(f"{where}, mean over scenarios and {spread}", []).append(row)
    return Group(*(_rows_table(title, members, width, datasets=True) for title, members in tables.items()))


def _rows_table(title: str, rows: Sequence[Mapping[str, Any]], width: int, *, datasets: bool) -> Table:
    table = titled_table(title, width)
    if datasets:
        table.add_column("data set")
    table.add_column("algo-\nrithm")
    columns = columns_for(rows[0].keys(), SUMMARY_COLUMNS)
    headings = ["exact", *columns.values()]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    longest = 2 + max(8, *(len(row["dataset"]) for row in rows)) if datasets else 0
    room = _room(headings, width - longest)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before["dataset"] != row["dataset"]:
            table.add_section()
        exact = f"{row['exact']}/{row['with_groups']}" if row["with_groups"] else NONE
        table.add_row(
            *([row["dataset"]] if datasets else []),
            _fold(row["algorithm"], room),
            exact,
            *(cell(row[name]) + _spread(row["spread"][name]) for name in columns),
        )
    return table


def failure_table(runs: Sequence[Run]) -> Table:
    """Return the runs that failed and why."""
    table = Table(title="Failed", title_justify="left", title_style="bold red", header_style="bold")
    table.add_column("run", overflow="fold")
    table.add_column("cause", overflow="fold")
    for run in runs:
        table.add_row(run.folder.name, run.cause)
    return table


def page_table(table: PageTable, width: int) -> Table:
    """Return a table of a report for the terminal."""
    shown = titled_table(table.title, width)
    if any(cell.spread is not None for row in table.rows for cell in row.cells):
        seeds = {row.name: max(cell.seeds for cell in row.cells) for row in table.rows}
        shown.caption = Text(f"{seed_words(seeds)}: mean ± standard deviation (n - 1)")
    names = [f"{row.section} {row.name}".strip() for row in table.rows]
    texts = [[cell.text for cell in row.cells] for row in table.rows]
    headings = [f"{column.group} {column.name}".strip() for column in table.columns]
    columns = ((*heading.split(), *column) for heading, *column in zip(headings, *texts, strict=True))
    if sum(2 + max(map(len, column), default=0) for column in (names, *columns)) > width:
        texts = [[text.replace(" ± ", "\n±") for text in row] for row in texts]
    shown.add_column(table.corner, no_wrap=True, overflow="fold")  # Headings are broken before names.
    for heading in headings:
        shown.add_column(heading, justify="right", overflow="fold")
    for place, row in enumerate(table.rows):
        if place and table.rows[place - 1].section != row.section:
            shown.add_section()
        styles = ("bold" if cell.bold else "" for cell in row.cells)
        shown.add_row(names[place], *map(Text, texts[place], styles))
    return shown


def choice_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] | None = None
) -> Table:
    """Return a table without lines, of choices with their names first.

    With `numbers`, the places of the columns that are of numbers, it is of values: none is cut.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        if numbers is None:
            table.add_column(heading, no_wrap=place == 0)
        else:
            table.add_column(heading, justify="right" if place in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _room(headings: Iterable[str], width: int) -> int:
    """Return the characters, 9 at least, that are left for names beside columns of scores."""
    gap = 2 if width >= ROOMY else 1
    return max(9, width - sum(gap + max(5, *map(len, heading.split("\n"))) for heading in headings))


def _fold(algorithm: str, room: int) -> str:
    """Return an algorithm's name in lines, broken at its hyphens where it is too long."""
    return "\n".join(wrap(algorithm, room))


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _spread(value: float | None) -> str:
    """Return a standard deviation, no wider than the mean it is written below; empty if there is none."""
    return "" if value is None else f"\n±{value:.3f}".replace("±0.", "±.")


def cell(value: Any) -> str:
    """Return a value as it stands in a table."""
    if value is None:
        return NONE
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"
    return text_of(value)

"""Build the tables of a grid's results for the terminal, and format durations, sizes and numbers."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from pydantic import ByteSize
from rich.console import Group

from fedgrid.grids.display.text_table import TextTable
from fedgrid.tracking.scoring.client_scores import CLIENTS, PREDICTED
from fedgrid.tracking.scoring.disturbances import DRIFT, FAULTS, HELD_OUT
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.scores import ROUND_SCORES
from fedgrid.tracking.scoring.selection import format_value
from fedgrid.tracking.tables.cells import compute_spread, format_seed_counts
from fedgrid.tracking.tables.table import NONE

RESULT_COLUMNS = {
    "clustering_round": "clust\nround",
    **{score.name: score.heading for score in ROUND_SCORES if score.heading},
}
"""Score -> heading in the results table.

Personalised scores are of a cluster's model on its clients' own test sets, generalised ones on the server's
test set.
"""
DISTURBANCE_COLUMNS = {score.name: score.heading for score in (*FAULTS, *DRIFT, *HELD_OUT) if score.heading}
"""Score -> heading for the scores that only runs with attackers, moved or held-out clients have."""
PREDICTION_COLUMNS = {score.name: score.heading for score in PREDICTED if score.heading}
"""Score -> heading for the scores of runs that predict numbers."""
CLASSIFICATION_SCORES = frozenset(score.name for score in CLIENTS)
"""Scores of runs that predict classes, which make no sense for numbers."""
SUMMARY_COLUMNS = {
    name: heading for name, heading in RESULT_COLUMNS.items() if name not in ("clustering_round", "clusters")
}
"""Score -> heading for the scores whose mean a summary shows; a mean number of clusters would say little."""
EXACTLY_RIGHT = "exactly_right"
"""Score: whether the last partition is the hidden groups; None if there are not several groups."""

WIDTH_WITH_UNCACHED = 92
"""Width of the terminal from which the results have a column for a run's time without the round cache."""


def select_columns(scores: Set[str], columns: Mapping[str, str] = RESULT_COLUMNS) -> dict[str, str]:
    """Select score -> heading from `columns` for runs that have these scores.

    Where numbers are predicted, R2 replaces accuracy, F1 and what follows from them.
    """
    if not scores & PREDICTION_COLUMNS.keys():
        return dict(columns)
    return {
        **{name: text for name, text in columns.items() if name not in CLASSIFICATION_SCORES},
        **PREDICTION_COLUMNS,
    }


def format_duration(seconds: float) -> str:
    """Format seconds for people: 3.2 s, 4 min 10 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    # Rounded first: 119.7 s are 2 min 0 s, not 1 min 60 s.
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def format_pace(rounds_per_second: float) -> str:
    """Format a pace for people: 2.5 rounds/s, or 12 s/round if it is slower than one a second."""
    if 0 < rounds_per_second < 1:
        return f"{format_duration(1 / rounds_per_second)}/round"
    return f"{rounds_per_second:.1f} rounds/s"


def format_estimate(hours: float) -> str:
    """Format an estimate for people, in minutes at least: 1 min, 2.5 h, 14 h."""
    if hours < 1:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def format_size(count: int) -> str:
    """Format a number of bytes with a decimal unit: 0 B, 41.3 MB, 120.0 GB."""
    return ByteSize(count).human_readable(decimal=True, separator=" ")


def build_result_row(run: Run, axes: Sequence[str] = ()) -> dict[str, Any]:
    """Build a run's row of the results table, column -> value.

    Args:
        run: the run.
        axes: the grid's further axes, each of which becomes a column; default: none.
    """
    return {
        "run": run.folder.name.removesuffix(f"-{run.run_id}"),
        "run_id": run.run_id,
        "scenario": run.place,
        "algorithm": run.value("algorithm"),
        "seed": run.seed,
        **{axis: run.keys.get(axis) for axis in axes},
        **{name: run.scores.get(name) for name in select_columns(run.scores.keys())},
        **{name: run.scores[name] for name in DISTURBANCE_COLUMNS if name in run.scores},
        "seconds": round(run.times["seconds"] or 0.0, 1),
        "uncached_seconds": round(run.times["uncached_seconds"] or 0.0, 1),
        "error": run.cause or None,
        "folder": str(run.folder),
    }


def describe_setting(run: Run) -> str:
    """Describe the axis values that set a run's scenario apart, as in `, split.majority 0.5`."""
    return "".join(f", {axis} {value}" for axis, value in run.setting)


def build_result_table(runs: Sequence[Run], width: int) -> Group:
    """Build a table for each scenario and seed, with a row for each run, 80 columns wide.

    With a few more columns, and if any round was a cache hit, a row also has the time without the cache.
    """
    uncached = width >= WIDTH_WITH_UNCACHED and any(run.has_hits for run in runs)
    sections: dict[str, list[Run]] = {}
    for run in runs:
        sections.setdefault(f"{run.place}{describe_setting(run)}, seed {run.seed}", []).append(run)
    return Group(*(_build_section_table(name, rows, uncached=uncached) for name, rows in sections.items()))


def _build_section_table(name: str, runs: Sequence[Run], *, uncached: bool) -> TextTable:
    """Build the table of one scenario and seed."""
    scores = {score for run in runs for score in run.scores}
    own = {key: name for key, name in DISTURBANCE_COLUMNS.items() if key in scores}
    columns = {**select_columns(scores), **own}
    headings = ["algo-\nrithm", *columns.values(), "sec.", *(["un-\ncached"] if uncached else [])]
    rows = []
    for run in runs:
        times = [run.times[name] or 0.0 for name in ("seconds", *(["uncached_seconds"] if uncached else []))]
        texts = (f"{value:.{1 if value < 100 else 0}f}" for value in times)
        rows.append([run.algorithm, *(format_cell(run.scores.get(name)) for name in columns), *texts])
    return TextTable(headings, rows, f"Final round, {name}", range(1, len(headings)))


def build_summary_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Build a row for each data set, setting and algorithm: number of runs, of exact ones, mean scores.

    A run counts as one with groups, and can be exact, only if its data have several hidden groups. A mean
    is over the runs that have the score, None if none has it. `spread` has the standard deviations of these
    means over seeds, as in `compute_spread`.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    columns = select_columns({score for run in runs for score in run.scores}, SUMMARY_COLUMNS)
    for run in runs:
        scores = {name: run.scores.get(name) for name in (EXACTLY_RIGHT, *columns)}
        group = groups.setdefault((run.value("dataset"), describe_setting(run), run.algorithm), [])
        group.append({**scores, "at": (run.place, run.seed)})
    return [
        {
            "dataset": dataset,
            "setting": setting.removeprefix(", "),
            "algorithm": algorithm,
            "runs": len(rows),
            "seeds": len({row["at"][1] for row in rows}),
            "exact": sum(row[EXACTLY_RIGHT] is True for row in rows),
            "with_groups": sum(row[EXACTLY_RIGHT] is not None for row in rows),
            **{name: _average_present([row[name] for row in rows]) for name in columns},
            "spread": {
                name: compute_spread(
                    {row["at"]: row[name] for row in rows if row[name] is not None}, len(rows)
                )
                for name in columns
            },
        }
        for (dataset, setting, algorithm), rows in groups.items()
    ]


def build_seeds_table(runs: Sequence[Run]) -> Group:
    """Build a table for each scenario, with the mean over its seeds for each algorithm."""
    sections: dict[str, list[Run]] = {}
    for run in runs:
        sections.setdefault(f"{run.place}{describe_setting(run)}", []).append(run)
    return Group(
        *(_build_scenario_table(name, build_summary_rows(members)) for name, members in sections.items())
    )


def _build_scenario_table(name: str, rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """Build the table of one scenario, titled with its seeds."""
    seeds = {row["algorithm"]: row["seeds"] for row in rows}
    spread = (
        f", mean ± standard deviation over {format_seed_counts(seeds)}" if max(seeds.values()) > 1 else ""
    )
    return _build_rows_table(f"Final round, {name}{spread}", rows, datasets=False)


def build_summary_table(rows: Sequence[Mapping[str, Any]]) -> Group:
    """Build a table of means over scenarios and seeds for each setting, from the rows of
    `build_summary_rows`.
    """
    seeds = {row["algorithm"]: row["seeds"] for row in rows}
    spread = (
        f"{format_seed_counts(seeds)}, ± standard deviation over seeds"
        if max(seeds.values()) > 1
        else "seeds"
    )
    tables: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        where = f"Final round{', ' if row['setting'] else ''}{row['setting']}"
        tables.setdefault(f"{where}, mean over scenarios and {spread}", []).append(row)
    return Group(*(_build_rows_table(title, members, datasets=True) for title, members in tables.items()))


def _build_rows_table(title: str, rows: Sequence[Mapping[str, Any]], *, datasets: bool) -> TextTable:
    """Build a table from rows of means; with `datasets`, a line separates the data sets."""
    columns = select_columns(rows[0].keys(), SUMMARY_COLUMNS)
    names = ["data set", "algo-\nrithm"] if datasets else ["algo-\nrithm"]
    headings = [*names, "exact", *columns.values()]
    shown: list[list[str]] = []
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before["dataset"] != row["dataset"]:
            shown.append([])
        exact = f"{row['exact']}/{row['with_groups']}" if row["with_groups"] else NONE
        scores = (format_cell(row[name]) + _format_spread(row["spread"][name]) for name in columns)
        shown.append([*([row["dataset"]] if datasets else []), row["algorithm"], exact, *scores])
    return TextTable(headings, shown, title, range(len(names), len(headings)), names=len(names))


def build_failure_table(runs: Sequence[Run]) -> TextTable:
    """Build the table of failed runs with the causes."""
    return TextTable(("run", "cause"), [(run.folder.name, run.cause) for run in runs], "Failed")


def _average_present(values: Sequence[float | None]) -> float | None:
    """Compute the mean of the values that are there; None if none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _format_spread(value: float | None) -> str:
    """Format a standard deviation as a line below its mean, no wider than that; empty for None."""
    return "" if value is None else f"\n±{value:.3f}".replace("±0.", "±.")


def format_cell(value: Any) -> str:
    """Format a value for a table: a dash for None, three decimals for small numbers, none for large ones."""
    if value is None:
        return NONE
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"
    return format_value(value)

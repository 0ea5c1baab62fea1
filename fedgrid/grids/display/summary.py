"""Print the summary at the end of a launch: results, failures, speed, and where the files are."""

import csv
from collections.abc import Sequence
from functools import partial
from io import StringIO
from math import isinf
from pathlib import Path
from textwrap import fill

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.record_names import EPSILON
from fedgrid.engine.runtime.plugins.run_algorithm import list_own_columns
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.display.progress import JsonEvents, describe_work
from fedgrid.grids.display.tables import (
    build_failure_table,
    build_result_row,
    build_result_table,
    build_seeds_table,
    build_summary_rows,
    build_summary_table,
    format_duration,
    format_pace,
)
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.axes import find_naming_keys
from fedgrid.grids.results.grid_folder import GridFolder, superseded_line
from fedgrid.grids.results.runs import read_runs, summarise_runs
from fedgrid.tracking.scoring.run import FINISHED, TIMES, Run

SUMMARY_FILE = "summary.csv"
"""File in a grid's folder with the results table."""
ROWS_SHOWN = 40
"""Most runs that are printed with a row each; of more, only means."""

GROUPS_LEGEND = (
    "ARI, AMI: clusters against hidden groups; 1 if equal, about 0 by chance.\n"
    "homogen.: 1 if no cluster mixes groups; complete: 1 if no group is split."
)
NO_GROUPS_LEGEND = "ARI, AMI, homogen., complete: –, because these splits have no hidden groups."
SCORES_LEGEND = (
    "pers.: each cluster's model on its clients' own test images; gen.: on the\n"
    "server's; F1 over a test set's own classes; gap: |pers. acc. - gen. acc.|; all\n"
    "are means over clients; –: none."
)
R2_LEGEND = "median R2: of the clients' pers. R2; pooled R2: all their test rows as one set."
EXACT_LEGEND = "exact: runs whose final partition is the hidden groups, of those that have any"


def show_summary(
    grid: Grid,
    storage: Storage,
    where: Sequence[str],
    failures: Sequence[Run],
    tally: Tally | None,
    console: Console,
) -> None:
    """Print the results of a grid's finished runs, its failures, and where the files are.

    Results are a row for each run if there are few runs with the same seed, otherwise a row for each
    algorithm with means over the seeds of a scenario.

    Args:
        grid: the grid with all its runs.
        storage: where its runs are.
        where: lines that say where trackers show the grid.
        failures: the runs that failed in this launch.
        tally: counts of this launch; None if nothing was left to run.
        console: where the summary is printed.
    """

    say = partial(print_plain, console)
    done = [run for run in read_runs(grid.runs, storage) if run.state == FINISHED]
    say()
    if done:
        _show_scores(done, storage, grid.name, console)
        say(NO_GROUPS_LEGEND if all(run.scores.get("ari") is None for run in done) else GROUPS_LEGEND)
        say(SCORES_LEGEND)
        if any("personalised_r2_pooled" in run.scores for run in done):
            say(R2_LEGEND)
        for line in summarise_runs(done):
            say(fill(line, 79))
        if any(run.has_hits for run in done):
            say(_format_times(done))
        # Not every run of a grid adds noise; the epsilon of one without is meaningless.
        private = {run.run_id for run in grid.runs if EPSILON in list_own_columns(run)}
        if private_runs := [run for run in done if run.run_id in private]:
            say(_format_epsilons(private_runs))
        say()
    if failures:
        console.print(build_failure_table(failures))
        say(
            f"`{format_command(storage, 'run', grid.name, '--failed')}` runs them again from their last "
            "round."
        )
        say()
    say(_format_counts(grid, len(done), len(failures), tally))
    folder = GridFolder(storage, grid.name)
    # Runs given by the files of another grid may have no folder of their own.
    if folder.is_there and (old := folder.read_definition().superseded):
        say(superseded_line(grid.name, len(old), storage))
    say(f"Written to {storage} (a folder a run: config.json, *.parquet)")
    for line in where:
        say(line)


def print_finished(runs: Sequence[RunConfig], storage: Storage, axes: Sequence[str] = ()) -> None:
    """Print a `result` event for each run that was finished before this launch."""
    lines = JsonEvents(axes)
    for config, run in zip(runs, read_runs(runs, storage), strict=True):
        lines.show_result(config, run)


def write_summary(runs: Sequence[RunConfig], grid: GridFolder) -> Path:
    """Write `summary.csv` into a grid's folder: the results table, with a row for each finished run.

    Further columns are the settings in which the runs differ. Folders are named relative to the storage, so
    that the file stays valid if the storage moves.

    Raises:
        RunError: it cannot be written.
    """
    keys = find_naming_keys(runs)
    rows = [
        build_result_row(run, keys) | {"variant": run.variant, "folder": run.folder.name}
        for run in read_runs(runs, grid.storage)
        if run.state == FINISHED
    ]
    # Scores of attackers and moved clients are only in the rows of runs that have some.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = StringIO()
    writer = csv.DictWriter(text, columns)
    if rows:
        writer.writeheader()
    writer.writerows(rows)
    grid.write_file(SUMMARY_FILE, text.getvalue())
    return grid.path / SUMMARY_FILE


def _show_scores(runs: Sequence[Run], storage: Storage, name: str, console: Console) -> None:
    """Print results as rows of runs, means over seeds, or means over scenarios, whichever is short."""
    # Several seeds are means even if there are few runs: what differs only by chance is not listed.
    if len(runs) <= ROWS_SHOWN and len({run.seed for run in runs}) == 1:
        console.print(build_result_table(runs, console.width))
    elif len(runs) <= ROWS_SHOWN:
        console.print(build_seeds_table(runs))
        console.print(f"{EXACT_LEGEND}.", highlight=False)
        print_plain(console, f"Each run:  {format_command(storage, 'show', name)}")
    else:
        console.print(build_summary_table(build_summary_rows(runs)))
        console.print(f"{EXACT_LEGEND}.", highlight=False)


def _format_times(runs: Sequence[Run]) -> str:
    """Format the time of all runs together, with and without the round cache."""
    total, without = (format_duration(sum(run.times[name] or 0.0 for run in runs)) for name in TIMES[:2])
    return f"The runs' times add up to {total}; without the round cache (uncached) to {without}."


def _format_epsilons(runs: Sequence[Run]) -> str:
    """Format the range of the epsilons of runs with noise; a run's is the largest of any of its clients."""
    epsilons = [run.table("rounds")[EPSILON][-1].as_py() for run in runs]
    deltas = ", ".join(dict.fromkeys(f"{run.value('privacy.delta'):g}" for run in runs))
    texts = dict.fromkeys("∞" if isinf(value) else f"{value:.3g}" for value in (min(epsilons), max(epsilons)))
    span = " to ".join(texts)
    return f"epsilon of a client at the end: {span}, delta {deltas}; each run's: fedgrid report."


def _format_counts(grid: Grid, done: int, failed: int, tally: Tally | None) -> str:
    """Format how many runs are finished and failed, the work of this launch and its pace."""
    if tally is None:
        return f"{done} of {len(grid.runs)} runs were already finished"
    failures = f", {failed} failed" if failed else ""
    share = tally.share_outside_clients
    outside = "" if share is None else f", {share:.0%} of the time outside training and tests"
    at = f", {format_pace(tally.rounds_per_second)}" if tally.rounds else ""
    return f"{done} of {len(grid.runs)} runs finished{failures}; {describe_work(tally)}{at}{outside}"

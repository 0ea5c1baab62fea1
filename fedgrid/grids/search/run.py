"""The command `fedgrid search`, once its options are parsed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.progress import JsonEvents, describe_work
from fedgrid.grids.display.summary import print_finished
from fedgrid.grids.display.tables import format_cell
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.execution.launch import launch_grid
from fedgrid.grids.following.trackers import Trackers
from fedgrid.grids.results.grid_folder import SEARCH_RESULT, GridFolder
from fedgrid.grids.results.outcome import is_finished, select_unfinished
from fedgrid.grids.search import files
from fedgrid.grids.search.early_stop import Rung, compute_round
from fedgrid.grids.search.objectives import (
    ARI,
    LABEL_FREE,
    OBJECTIVES,
    ORACLE,
    Trial,
    find_best,
    find_label_free,
)
from fedgrid.grids.search.progress import SearchProgress
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import GRID_KEY, MARK_FILE, MlflowTracker
from fedgrid.grids.trackers.mlflow.store import is_marked, tracking_uri, write_mark
from fedgrid.grids.trackers.tracker import TrackedGrid
from fedgrid.tracking.scoring.selection import format_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.execution.watch import LaunchResult
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.presets.grid import Grid
    from fedgrid.grids.search.definition import Search


ROWS_SHOWN = 40
"""Most trials in a table."""


@dataclass(frozen=True)
class SearchAdvance:
    """A search after a launch."""

    progress: SearchProgress
    result: LaunchResult
    done_before: tuple[RunConfig, ...]


def run_search(search: Search, storage: Storage, options: LaunchOptions, console: Console) -> LaunchResult:
    """Run the unfinished runs of a search, write the result, and show it.

    Args:
        search: The search.
        storage: Storage of the grid.
        options: How the runs are launched.
        console: Where progress and result are shown.

    Raises:
        ConfigError: Settings are wrong; nothing is started or written.
        DataError: Images are missing; nothing is started or written.
        RunError: The search as a whole cannot go on.
    """
    advanced = continue_search(search, storage, options, console)
    progress = advanced.progress
    if not progress.trials and not progress.complete:
        return advanced.result
    if options.as_json:
        print_finished(list(advanced.done_before), storage)
        JsonEvents().show_search(files.read_results(search.name, storage))
    else:
        _show_result(search, progress, advanced.result, storage, console)
    return advanced.result


def continue_search(
    search: Search, storage: Storage, options: LaunchOptions, console: Console
) -> SearchAdvance:
    """Run the unfinished runs of a search, and write its result once it has one; shows only progress.

    Args:
        search: The search.
        storage: Storage of the grid.
        options: How the runs are launched.
        console: Where progress is shown.

    Raises:
        ConfigError: Settings are wrong; nothing is started or written.
        DataError: Images are missing; nothing is started or written.
        RunError: The search as a whole cannot go on.
    """
    at_uri = storage.uri is not None and not options.in_process
    tracked = TrackedGrid(search.name, storage, search.axes, search.axes, search.text, at_uri)
    trackers = Trackers(tracked, warn, options.trackers)
    storage.pull_marks()
    files.check_same(search, storage)
    progress = SearchProgress(search, storage)
    grid, then = progress.replay_trials()
    # An interrupted search is replayed from its runs first: the grid is that of the first unfinished batch.
    done, todo = _split_runs(grid, storage)
    result = launch_grid(grid, todo, done, storage, options, trackers, console, then)
    if progress.trials or progress.complete:
        written = files.write_files(search, progress.trials, progress.complete, storage)
        if "mlflow" in options.trackers:
            _log_result(search, progress.trials, written, tracked)
    return SearchAdvance(progress, result, tuple(done))


def _log_result(search: Search, trials: list[Trial], written: list[Path], grid: TrackedGrid) -> None:
    """Log the search's result to MLflow, unless it is there. A failure warns, and the next call retries."""
    storage = grid.storage
    folder = GridFolder(storage, search.name).path
    uri, digest = tracking_uri(storage.root), sha256((folder / SEARCH_RESULT).read_bytes()).hexdigest()[:12]
    if is_marked(folder / MARK_FILE, uri, search=digest):
        return
    results = files.read_results(search.name, storage)
    tags = {"search": "complete" if results["complete"] else "not complete", "objective": search.objective}
    scores = {}
    for kind, trial in results["best"].items():
        tags |= {f"best.{kind}.{key}": str(value) for key, value in trial["params"].items()}
        tags[f"best.{kind}.trial"] = str(trial["trial"])
        scores[f"search/best_{kind}"] = trial["scores"][trial["by"]]
    # Two trials may have the same run, which gets the number of the first.
    numbers = {run_id: trial.number for trial in reversed(trials) for run_id in trial.run_ids}
    try:
        tracker = MlflowTracker(grid)
        if GRID_KEY in tracker.runs:
            for path in written:
                tracker.artifact(None, path)
            tracker.upload_folder(folder / files.FIGURES, files.FIGURES)
            tracker.log_numbers(GRID_KEY, scores, tags)
            for run_id in numbers.keys() & tracker.runs.keys():
                tracker.log_numbers(run_id, {}, {"trial": str(numbers[run_id])})
            # The mark is last: a result that was logged by half is logged again.
            write_mark(storage, folder / MARK_FILE, uri, search=digest)
    except TrackerFailed as error:
        warn(f"{error}; the same command logs the result of the search to MLflow later")


def _split_runs(grid: Grid, storage: Storage) -> tuple[list[RunConfig], Sequence[RunConfig]]:
    """Divide the runs of a grid into those that are finished, and those that are to go on now."""
    done = [run for run in grid.runs if is_finished(storage, run)]
    return done, select_unfinished(grid.runs, storage, grid.until)


def plan_search(search: Search, storage: Storage, options: LaunchOptions, console: Console) -> None:
    """Show the runs of the first unfinished batch of trials, their resources, and roughly how long they take.

    The settings of later trials depend on the scores of these.

    Args:
        search: The search.
        storage: Storage of the grid.
        options: How the runs would be launched.
        console: Where the plan is shown.

    Raises:
        ConfigError: A run cannot fit on the nodes.
        RunError: The storage or the cluster cannot be reached.
    """
    storage.pull_marks()
    files.check_same(search, storage)
    progress = SearchProgress(search, storage)
    grid, _ = progress.replay_trials()
    finished, todo = _split_runs(grid, storage)
    # Only for its checks: a tracker that the launch would refuse is refused here too.
    Trackers(TrackedGrid(search.name, storage), warn, options.trackers)
    # Imports torch, which a driver of actors does without.
    from fedgrid.grids.planning.dry_run import show_plan

    show_plan(grid, todo, finished, storage, options, console)
    if not options.as_json:
        done, size = len(progress.trials), len({run.run_id for run in grid.runs})
        counts = f"{done} of {search.trials} trials are done; {size} runs so far and in the next batch"
        print_plain(console, f"{search.name}: {counts}. Later ones depend on the scores of these.")


def _show_result(
    search: Search, progress: SearchProgress, result: LaunchResult, storage: Storage, console: Console
) -> None:
    """Show the trials, the best ones, and where the files are."""
    say = partial(print_plain, console)
    trials = progress.trials
    say()
    console.print(_build_trial_table(search, trials))
    failed = [trial for trial in trials if trial.failed]
    for trial in failed:
        say(f"trial {trial.number} failed: {trial.failed}")
    bests = find_best(trials, search.objective)
    free = find_label_free(search.objective)
    if LABEL_FREE in bests:
        say(f"best by {free}: {_format_trial(bests[LABEL_FREE], free)}")
    if ORACLE in bests:
        say(f"best by ARI (oracle, needs the hidden groups): {_format_trial(bests[ORACLE], ARI)}")
    say(_format_counts(search, progress, result))
    say(f"Written to {GridFolder(storage, search.name).path} (search.json, search.csv, figures/)")
    if progress.complete and LABEL_FREE in bests:
        tuned = format_command(storage, "run", "GRID", "--tuned", search.name)
        say(f"Use it:  {tuned}    (the oracle's: {search.name}:oracle)")


def _build_trial_table(search: Search, trials: list[Trial]) -> TextTable:
    """Build the table of trials with scores, best first by the search's objective."""
    free = find_label_free(search.objective)
    columns = [free, *(name for name in OBJECTIVES if name not in (free, ARI)), ARI]
    columns = [name for name in columns if any(trial.objective_score(name) is not None for trial in trials)]
    bests = find_best(trials, search.objective)
    ranked = sorted(
        (trial for trial in trials if trial.scores is not None),
        key=lambda trial: (-(trial.rank_value(search.objective) or 0.0), trial.number),
    )
    title = f"{search.name}: best first by {search.objective}"
    more = len(ranked) - ROWS_SHOWN
    title += f"; {more} more in search.csv" if more > 0 else ""
    scores = ("ARI\n(oracle)" if name == ARI else name for name in columns)
    headings = ["trial", *search.space, *scores, "runs"]
    rows = []
    for trial in ranked[:ROWS_SHOWN]:
        params = [format_value(trial.params[key]) for key in search.space]
        values = [format_cell(trial.objective_score(name)) for name in columns]
        style = "bold" if trial is bests.get(LABEL_FREE) else ""
        cells = (str(trial.number), *params, *values, str(len(trial.run_ids)))
        rows.append([Text(one, style) for one in cells])
    return TextTable(headings, rows, title, range(len(headings)))


def _format_trial(trial: Trial, name: str) -> str:
    """Format a trial with its settings and one score."""
    params = ", ".join(f"{key} {format_value(value)}" for key, value in trial.params.items())
    return f"trial {trial.number}, {params}: {format_cell(trial.objective_score(name))}"


def _format_counts(search: Search, progress: SearchProgress, result: LaunchResult) -> str:
    """Format how many trials are done, and how many of them were stopped early."""
    done = f"{len(progress.trials)} of {search.trials} trials done"
    if progress.complete and len(progress.trials) < search.trials:
        done = f"all {len(progress.trials)} points of the grid tried"
    stopped = Counter(trial.stopped_at for trial in progress.trials if trial.stopped_at is not None)
    if stopped:
        where = ", ".join(f"{stopped[rung]} {_format_rung(search, rung)}" for rung in sorted(stopped))
        done += f", {stopped.total()} of them stopped early ({where})"
    if result.tally is None:
        return f"{done}; nothing left to do"
    return f"{done}; {describe_work(result.tally)}"


def _format_rung(search: Search, rung: Rung) -> str:
    """Format a rung: `after round 13`, or `after 25 % of the rounds` if it is another round in each run."""
    numbers = {compute_round(run, rung) for run in search.base}
    return f"after round {numbers.pop()}" if len(numbers) == 1 else f"after {rung:.0%} of the rounds"

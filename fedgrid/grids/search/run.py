"""`fedgrid search`, once its options are parsed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import seal
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.progress import JsonLines
from fedgrid.grids.display.summary import print_finished
from fedgrid.grids.execution.run import launch_remaining
from fedgrid.grids.following.follow import Trackers
from fedgrid.grids.presets.axis_keys import SETTING
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished, unfinished
from fedgrid.grids.search import files
from fedgrid.grids.search.progress import SearchProgress
from fedgrid.grids.search.show import show
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MARK, PARENT, MlflowTracker
from fedgrid.grids.trackers.mlflow.store import tracking_uri
from fedgrid.grids.trackers.tracker import TrackedGrid
from fedgrid.redaction import redacted
from fedgrid.regular_files import read_file

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.execution.watch import LaunchResult
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.search.definition import Search
    from fedgrid.grids.search.objectives import Trial


@dataclass(frozen=True)
class Advanced:
    """A search after a launch."""

    progress: SearchProgress
    result: LaunchResult
    done_before: tuple[RunConfig, ...]


def run_search(search: Search, storage: Storage, options: LaunchOptions, console: Console) -> LaunchResult:
    """Run the unfinished runs of a search, write the result, and show it.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is started or written.
        RunError: if the search as a whole cannot go on.
    """
    advanced = advance(search, storage, options, console)
    progress = advanced.progress
    if not progress.trials and not progress.complete:
        return advanced.result
    if options.as_json:
        print_finished(list(advanced.done_before), storage)
        JsonLines().search(files.read_results(search.name, storage))
    else:
        show(search, progress, advanced.result, storage, console)
    return advanced.result


def advance(search: Search, storage: Storage, options: LaunchOptions, console: Console) -> Advanced:
    """Run the unfinished runs of a search, and write its result once it has one; shows only progress.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is started or written.
        RunError: if the search as a whole cannot go on.
    """
    settings = tuple(f"{SETTING}{key}" for key in search.space)
    at_uri = storage.uri is not None and not options.in_process
    trackers = Trackers(
        search.name,
        storage,
        warn,
        names=options.trackers,
        axes=settings,
        searched=settings,
        text=search.text,
        at_uri=at_uri,
    )
    storage.pull_marks()
    files.check_same(search, storage)
    progress = SearchProgress(search, storage)
    grid, then = progress.replay()
    done = [run for run in grid.runs if is_finished(storage, run)]
    todo = unfinished(grid.runs, storage, grid.until)
    result = launch_remaining(grid, todo, done, storage, options, trackers, console, then)
    if progress.trials or progress.complete:
        written = files.write(search, progress.trials, progress.complete, storage)
        if MlflowTracker.name in options.trackers:
            _log(search, progress.trials, written, trackers.grid)
    return Advanced(progress, result, tuple(done))


def plan_search(search: Search, storage: Storage, options: LaunchOptions, console: Console) -> None:
    """Show the runs of the first batch of trials that is not finished, their resources, and roughly how long.

    The settings of later trials depend on the scores of these.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
        RunError: if the storage or the cluster cannot be reached.
    """
    storage.pull_marks()
    files.check_same(search, storage)
    progress = SearchProgress(search, storage)
    grid, _ = progress.replay()
    # Imports torch.
    from fedgrid.grids.planning.dry_run import dry_run

    dry_run(grid, storage, options, console)
    if not options.as_json:
        done, size = len(progress.trials), len({run.run_id for run in grid.runs})
        counts = f"{done} of {search.trials} trials are done; {size} runs so far and in the next batch"
        print_plain(console, f"{search.name}: {counts}. Later ones depend on the scores of these.")


def _log(search: Search, trials: list[Trial], written: list[Path], grid: TrackedGrid) -> None:
    """Log the search's result to MLflow, unless it is there. A failure warns, and the next call retries."""
    storage = grid.storage
    folder = GridFolder(storage, search.name).path
    mark = seal({"uri": redacted(tracking_uri(storage.root)), "search": files.digest(search, storage)})
    if (folder / MARK).is_file() and read_file(folder / MARK) == mark.encode():
        return
    found = files.read_results(search.name, storage)
    tags = {"search": "complete" if found["complete"] else "not complete", "objective": search.objective}
    scores = {}
    for kind, best in found["best"].items():
        tags |= {f"best.{kind}.{key}": str(value) for key, value in best["params"].items()}
        tags[f"best.{kind}.trial"] = str(best["trial"])
        scores[f"search/best_{kind}"] = best["scores"][best["by"]]
    numbers = {run_id: trial.number for trial in reversed(trials) for run_id in trial.run_ids}
    try:
        tracker = MlflowTracker(grid)
        if PARENT in tracker.runs:
            for path in written:
                tracker.artifact(None, path)
            tracker.upload(folder / files.FIGURES, files.FIGURES)
            tracker.log(PARENT, scores, tags)
            for run_id in numbers.keys() & tracker.runs.keys():
                tracker.log(run_id, {}, {"trial": str(numbers[run_id])})
            write_text(folder / MARK, mark)
    except TrackerFailed as error:
        warn(f"{error}; the same command logs the result of the search to MLflow later")

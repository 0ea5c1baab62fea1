"""What `fedgrid search` does, once its options are read."""

import json
from pathlib import Path

from rich.console import Console

from engine.files import write_text
from engine.storage import Storage
from grids.commands import run_left, warn
from grids.ended import Ended
from grids.grid_folder import GridFolder
from grids.how import How
from grids.outcome import is_finished, unfinished
from grids.report import JsonLines
from grids.results import tell_finished
from grids.run_writer import MARK
from grids.search import files
from grids.search.definition import Search
from grids.search.objectives import Trial
from grids.search.progress import Progress
from grids.search.show import show
from grids.track import RunLog
from tracking.mlflow_store import TrackingError, shown


def run_search(search: Search, storage: Storage, how: How, console: Console) -> Ended:
    """Run what is not finished of a search, write what it has found, and show it.

    Raises:
        ConfigError, DataError: for what cannot be, before anything is started or written.
        RunError: if the search as a whole cannot go on.
    """
    log = RunLog(search.name, storage.root, warn)
    storage.pull_marks()
    files.check_same(search, storage)
    progress = Progress(search, storage)
    grid, then = progress.replay()
    done = [run for run in grid.runs if is_finished(storage, run)]
    todo = unfinished(grid.runs, storage, grid.until)
    ended = run_left(grid, todo, done, storage, how, log, console, then)
    if not progress.trials and not progress.complete:
        return ended
    written = files.write(search, progress.trials, progress.complete, storage)
    _log(search, progress.trials, written, storage, log)
    if how.as_json:
        tell_finished(done, storage)
        JsonLines().search(files.read(search.name, storage))
    else:
        show(search, progress, ended, storage, console)
    return ended


def _log(search: Search, trials: list[Trial], written: list[Path], storage: Storage, log: RunLog) -> None:
    """Let MLflow have what it lacks of what was found; a store that fails is told, and asked again."""
    folder = GridFolder(storage, search.name).path
    mark = json.dumps({"uri": shown(log.uri), "search": files.digest(search, storage)}) + "\n"
    if (folder / MARK).exists() and (folder / MARK).read_text() == mark:
        return
    found = files.read(search.name, storage)
    tags = {"search": "complete" if found["complete"] else "not complete", "objective": search.objective}
    scores = {}
    for kind, best in found["best"].items():
        tags |= {f"best.{kind}.{key}": str(value) for key, value in best["params"].items()}
        tags[f"best.{kind}.trial"] = str(best["trial"])
        scores[f"best_{kind}"] = best["scores"][best["by"]]
    numbers = {run_id: trial.number for trial in reversed(trials) for run_id in trial.run_ids}
    try:
        if log.writer.write_search(written, folder / files.FIGURES, tags, scores, numbers):
            write_text(folder / MARK, mark)
    except TrackingError as error:
        warn(f"{error}; the same command puts what the search found on its MLflow run later")

"""`fedgrid show`: a grid, or a run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import check_output
from fedgrid.grids.browse.find import find_run
from fedgrid.grids.browse.grid_page import EVERY, RunList, show_grid
from fedgrid.grids.browse.run_page import print_run, run_facts
from fedgrid.grids.display import figure_file
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.trackers.annotations import annotations_of
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import is_missing, tracking_uri
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from fedgrid.tracking.records import RecordsError, read_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(
    what: str,
    storage: Storage,
    data_dir: Path,
    as_json: bool,
    console: Console,
    *,
    runs: RunList = EVERY,
    figure: Path | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
) -> None:
    """Print what is known of a grid or of a run; a grid's name comes before a run's.

    Args:
        what: a grid, or a run as for `find_run`.
        runs: which runs of a grid are listed, and how.
        figure: the file that a run's figure is written to; None: none is drawn.
        tags, note: are written on a run first, as for `Annotations.changed`.

    Raises:
        ConfigError: there is neither, several runs have that name, or an option is for the other of them.
        DataError: the figure cannot be written.
        RunError: the storage cannot be read, or there is no round to draw.
    """
    if figure is not None:
        figure_file.check_format(figure)
        check_output(figure, "--figure")
    storage.pull_marks()
    if what in list_grids(storage):
        if figure is not None or tags or note is not None:
            raise ConfigError(
                f"--figure, --note and --tag are for a run, and {what} is a grid: "
                f"`{command(storage, 'show', what)}` lists its runs with their ids"
            )
        show_grid(what, runs, storage, as_json, console)
        return
    run, grids = find_run(what, storage)
    if runs != EVERY:
        raise ConfigError(f"--where, --sort, --columns and --csv list a grid's runs, and {what} is a run")
    if tags or note is not None:
        annotate(run, grids, tags, note, storage, console)
    facts = run_facts(run, grids, storage, data_dir)
    if not as_json:
        print_run(facts, storage, console)
    if figure is not None:
        figure_file.draw(figure, lambda: _figure(folder_of(storage.root, run)))
        facts["figure"] = str(figure)
        if not as_json:
            print_plain(console, f"Written to {figure}")
    if as_json:
        print(json.dumps(facts))


def _figure(run_folder: Path) -> "Figure":
    from fedgrid.tracking import figures

    try:
        return figures.run_figure(read_records(run_folder))
    except RecordsError as error:
        raise RunError(str(error)) from error


def annotate(
    run: RunConfig,
    grids: Sequence[str],
    tags: Sequence[str],
    note: str | None,
    storage: Storage,
    console: Console,
) -> None:
    """Change the note and tags of a run of these grids.

    Also of a run that is under way: whichever process ends it logs them too.

    Args:
        tags, note: as for `Annotations.changed`.

    Raises:
        ConfigError: the run has not started, or what is given is malformed.
        RunError: the storage cannot be written.
    """
    folder = folder_of(storage.root, run)
    if not folder.is_dir():
        raise ConfigError(f"{run.name} ({run.run_id}) has not started; there is nothing to tag yet")
    now = annotations_of(folder).changed(tags, note)
    now.write(folder, storage)
    with Steps(console) as steps:
        steps.say("Logging to MLflow")
        for grid in grids:
            _log(run, grid, storage)


def _log(run: RunConfig, grid: str, storage: Storage) -> None:
    """Log a run's note and tags to a grid's experiment, if it has the run; if the store fails, warn."""
    try:
        if not is_missing(tracking_uri(storage.root)):
            MlflowTracker(TrackedGrid(grid, storage)).annotate(TrackedRun.of(run, storage))
    except TrackerFailed as error:
        warn(f"{error}; they are on disk, and `{command(storage, 'sync', grid)}` logs them")

"""Run `fedgrid show`: print a grid or a run, annotate a run, or draw its figure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import check_output
from fedgrid.grids.browse.grid_page import ALL_RUNS, RunListOptions, show_grid
from fedgrid.grids.browse.run_lookup import find_run
from fedgrid.grids.browse.run_page import collect_run_facts, print_run
from fedgrid.grids.display import figure_file
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.steps import StepDisplay
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.trackers.annotations import read_annotations
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import is_missing, tracking_uri
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from fedgrid.tracking.records import RecordsError, read_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show_grid_or_run(
    what: str,
    storage: Storage,
    data_dir: Path,
    as_json: bool,
    console: Console,
    *,
    runs: RunListOptions = ALL_RUNS,
    figure: Path | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
) -> None:
    """Print a grid or a run; a grid's name takes precedence over a run's.

    Args:
        what: a grid, or a run as for `find_run`.
        storage: where grids and runs are.
        data_dir: where data sets are.
        as_json: whether one JSON object is printed in place of text.
        console: where text is printed.
        runs: which runs of a grid are listed, and how; default: all.
        figure: file for a run's figure; default None: none is drawn.
        tags, note: changes to a run's tags and note, as for `Annotations.apply_changes`, written before it is
            shown.

    Raises:
        ConfigError: there is neither, several runs have that name, or an option is for the other of them.
        DataError: the figure cannot be written.
        RunError: the storage cannot be read, or there is no round to draw.
    """
    if figure is not None:
        figure_file.check_format(figure)
        # Before anything is read: a wrong file name is reported at once, and before note and tags are
        # changed.
        check_output(figure, "--figure")
    storage.pull_marks()
    if what in list_grids(storage):
        if figure is not None or tags or note is not None:
            raise ConfigError(
                f"--figure, --note and --tag are for a run, and {what} is a grid: "
                f"`{format_command(storage, 'show', what)}` lists its runs with their ids"
            )
        show_grid(what, runs, storage, as_json, console)
        return
    run, grids = find_run(what, storage)
    if runs != ALL_RUNS:
        raise ConfigError(f"--where, --sort, --columns and --csv list a grid's runs, and {what} is a run")
    if tags or note is not None:
        annotate_run(run, grids, tags, note, storage, console)
    facts = collect_run_facts(run, grids, storage, data_dir)
    if not as_json:
        print_run(facts, storage, console)
    if figure is not None:
        figure_file.write_figure(figure, lambda: _draw_run_figure(build_folder_path(storage.root, run)))
        facts["figure"] = str(figure)
        if not as_json:
            print_plain(console, f"Written to {figure}")
    if as_json:
        # After the figure, so that a failure to draw leaves no JSON that looks like success.
        print(json.dumps(facts))


def _draw_run_figure(run_folder: Path) -> "Figure":
    """Draw the figure of a run from its records."""
    from fedgrid.tracking import figures

    try:
        return figures.run_figure(read_records(run_folder))
    except RecordsError as error:
        raise RunError(str(error)) from error


def annotate_run(
    run: RunConfig,
    grids: Sequence[str],
    tags: Sequence[str],
    note: str | None,
    storage: Storage,
    console: Console,
) -> None:
    """Change the note and tags of a run, on disk and in the MLflow experiments of its grids.

    A run that is in progress can be annotated too: the process that ends it logs its annotations.

    Args:
        run: the run, which must have started.
        grids: the grids whose experiments are updated.
        tags, note: as for `Annotations.apply_changes`.
        storage: where the run's folder is.
        console: where the progress is shown.

    Raises:
        ConfigError: the run has not started, or what is given is malformed.
        RunError: the storage cannot be written.
    """
    folder = build_folder_path(storage.root, run)
    if not folder.is_dir():
        raise ConfigError(f"{run.name} ({run.run_id}) has not started; there is nothing to tag yet")
    now = read_annotations(folder).apply_changes(tags, note)
    # The disk comes first: it is what counts. A failure of MLflow below is only a warning.
    now.write_file(folder, storage)
    with StepDisplay(console) as steps:
        steps.begin_step("Logging to MLflow")
        for grid in grids:
            _log_annotations(run, grid, storage)


def _log_annotations(run: RunConfig, grid: str, storage: Storage) -> None:
    """Log a run's note and tags to its run in a grid's experiment, if it has one; warn if the store fails."""
    try:
        if not is_missing(tracking_uri(storage.root)):
            MlflowTracker(TrackedGrid(grid, storage)).log_annotations(TrackedRun.from_config(run, storage))
    except TrackerFailed as error:
        warn(f"{error}; they are on disk, and `{format_command(storage, 'sync', grid)}` logs them")

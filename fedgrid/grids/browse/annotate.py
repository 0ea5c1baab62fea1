"""Writes a note and tags on a run: into its folder, and to MLflow."""

from collections.abc import Sequence

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import warn
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.trackers.annotations import FILE, annotations_of
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import is_missing, tracking_uri
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun


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
    now.write(folder)
    storage.push(f"{folder.name}/{FILE}")
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

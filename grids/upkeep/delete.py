"""`fedgrid delete`: a grid's folder, and the folders of its runs that no other grid has."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from shutil import rmtree

from rich.console import Console

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import disk_errors
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.storage_id import id_of
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.planning.claims import of_deletion
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.round_cache.table import readable_size
from fedgrid.redaction import printable, redacted
from fedgrid.tracking.mlflow.runs import delete_runs
from fedgrid.tracking.mlflow.store import TrackingError, database_file, tracking_uri


@dataclass(frozen=True)
class Doomed:
    """What goes with a grid."""

    runs: tuple[RunConfig, ...]
    """Runs of this grid alone that have a folder."""
    shared: int
    """Runs that other grids have too: they stay."""
    size: int
    """Bytes of the folders that go."""

    @property
    def words(self) -> str:
        """What goes and what stays, in words."""
        stays = f"; {self.shared} more stay, other grids have them" if self.shared else ""
        return f"{len(self.runs)} runs, {readable_size(self.size)}{stays}"


def delete_grid(
    name: str, storage: Storage, console: Console, ask: Callable[[str], bool] | None = None
) -> None:
    """Delete a grid once `ask`, called with a question, agrees; without `ask` at once.

    An interrupted call is completed by the same one: the grid's own folder goes last.

    Raises:
        ConfigError: if there is no such grid, another driver needs it, or nobody can be asked.
        RunError: if the storage cannot be read or written.
    """
    say = partial(print_plain, console)
    storage.pull_marks()
    doomed = find_doomed(name, storage)
    if ask is not None:
        if not sys.stdin.isatty():
            raise ConfigError(
                f"delete {name} ({doomed.words})? there is no terminal to confirm on: add --yes"
            )
        if not ask(printable(redacted(f"Delete the grid {name} in {storage}: {doomed.words}?"))):
            say("Nothing was deleted.")
            return
    with Lease(storage, name, of_deletion(doomed.runs), warn), disk_errors(storage.root):
        # Another grid may have got some of them since.
        now = find_doomed(name, storage)
        doomed = replace(now, runs=tuple(run for run in now.runs if run in doomed.runs))
        logged = _forget(name, storage)
        for folder in (
            *(folder_of(storage.root, run) for run in doomed.runs),
            GridFolder(storage, name).path,
        ):
            storage.remove(folder.relative_to(storage.root).as_posix())
            if folder.exists():
                rmtree(folder)
    say(f"Deleted {name}: {doomed.words}.")
    if logged:
        say(f"MLflow: {logged} runs marked as deleted; `mlflow gc` removes such runs for good.")


def find_doomed(name: str, storage: Storage) -> Doomed:
    """Return what would go with a grid.

    Raises:
        ConfigError: if there is no such grid, or another one cannot be read: its runs might go too.
    """
    runs = GridFolder(storage, name).runs()
    others = {
        run.run_id for grid in list_grids(storage) if grid != name for run in GridFolder(storage, grid).runs()
    }
    own = tuple(run for run in runs if run.run_id not in others)
    there = tuple(run for run in own if folder_of(storage.root, run).exists())
    folders = [*(folder_of(storage.root, run) for run in there), GridFolder(storage, name).path]
    sizes = (storage.sizes(folder.relative_to(storage.root).as_posix()) for folder in folders)
    return Doomed(there, len(runs) - len(own), sum(size for found in sizes for size in found.values()))


def _forget(name: str, storage: Storage) -> int:
    """Mark the grid's runs in MLflow as deleted and return their number; a store that fails is a warning."""
    try:
        uri = tracking_uri(storage.root)
        file = database_file(uri)
        if file is not None and not file.exists():
            return 0
        return delete_runs(uri, name, id_of(storage.root))
    except TrackingError as error:
        warn(f"{error}; its runs stay in MLflow, in the experiment {name}")
        return 0

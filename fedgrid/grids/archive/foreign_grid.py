"""Runs that were computed elsewhere: stored as finished runs, which make a grid."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.summary import write_summary
from fedgrid.grids.following.trackers import Trackers
from fedgrid.grids.planning.keys import make_import_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished, write_scores
from fedgrid.grids.trackers.mlflow.store import tracking_uri
from fedgrid.grids.trackers.tracker import TrackedGrid
from fedgrid.redaction import redact_secrets


@contextmanager
def hold_grids(names: Sequence[str], storage: Storage, warn: Callable[[str], None]) -> Iterator[Lease]:
    """Hold the leases of two grids while runs are written to them.

    Args:
        names: The two grids.
        storage: Storage of the grids.
        warn: Shows a warning.

    Raises:
        ConfigError: Another driver has one of them.
        RunError: The storage cannot be written.
    """
    with Lease(storage, names[0], make_import_keys(names[1]), warn) as lease:
        claim_storage_id(storage)
        yield lease


class ForeignGrid:
    """A grid of runs from elsewhere. `Storage.pull_marks` must be called before."""

    def __init__(
        self, name: str, storage: Storage, trackers: Sequence[str], warn: Callable[[str], None], text: str
    ) -> None:
        """Prepare the grid; nothing is written yet.

        Args:
            name: Name of the grid.
            storage: Its storage.
            trackers: Names of the trackers that receive the runs.
            warn: Shows a warning.
            text: Text in the place of the grid's preset.
        """
        self.name = name
        self.runs: list[RunConfig] = []
        """Runs that were taken so far."""
        self._storage, self._folder, self._text = storage, GridFolder(storage, name), text
        self.mlflow = redact_secrets(tracking_uri(storage.root)) if "mlflow" in trackers else None
        """Address of the MLflow store, without secrets; None if MLflow does not receive the runs."""
        self._trackers = Trackers(TrackedGrid(name, storage, text=text), warn, trackers)

    @property
    def runs_before(self) -> tuple[RunConfig, ...]:
        """Runs that the grid has in the storage."""
        return self._folder.read_definition().all_runs if self._folder.is_there else ()

    def tracker_lines(self) -> list[str]:
        """Format lines that say where the trackers show the runs."""
        return self._trackers.collect_lines()

    def take_run(self, config: RunConfig, records: Mapping[str, pa.Table], log: Sequence[str]) -> bool:
        """Write a run's folder, unless it is there with these records.

        Args:
            config: The run's configuration.
            records: Tables `rounds` and `clients`, with the columns of `record_columns`.
            log: Lines of its log.

        Returns:
            Whether the folder was written.

        Raises:
            RunError: It cannot be written.
        """
        self.runs.append(config)
        run_folder = RunFolder(self._storage, config)
        self._storage.refresh(*(f"{run_folder.path.name}/{name}.parquet" for name in records))
        if is_finished(self._storage, config) and run_folder.has_tables(records):
            return False
        # A run is replaced as a whole: files of another import must not mix with these.
        self._delete_run(config)
        run_folder.open()
        run_folder.put_tables(records)
        run_folder.log(*log)
        write_scores(config, self._storage)
        # Last, as it marks the run as finished; a run that was written by half is written again.
        run_folder.finish()
        return True

    def finish_grid(self) -> None:
        """Write the grid's folder, and send the trackers what they lack.

        Runs that an earlier import gave the same names are deleted.

        Raises:
            RunError: It cannot be written, or a run cannot be deleted.
        """
        names, ids = {run.name for run in self.runs}, {run.run_id for run in self.runs}
        replaced = [run for run in self.runs_before if run.name in names and run.run_id not in ids]
        lacking = self._trackers.find_lacking_runs(self.runs)
        for run in replaced:
            self._delete_run(run)
        self._folder.keep(self.runs, self._text)
        runs = self._folder.read_runs()
        summary = write_summary(runs, self._folder)
        # Runs that a tracker lacks are passed as forgotten too: it may have an earlier import of them.
        with self._trackers.follow_runs(runs, [*replaced, *lacking]):
            self._trackers.set_end([summary], sum(is_finished(self._storage, run) for run in runs), 0)

    def _delete_run(self, config: RunConfig) -> None:
        """Delete a run's folder, if there is one."""
        self._storage.remove(build_folder_path(self._storage.root, config).name)

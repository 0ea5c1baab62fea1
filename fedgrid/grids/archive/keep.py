"""Writes an archived run into a storage as a finished run, unless it is there already."""

from shutil import rmtree

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.integrity.files import parquet_bytes
from fedgrid.engine.runtime.run.run_folder import RunFolder, folder_of
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive.one_run import ArchivedRun
from fedgrid.grids.execution.run_events import write_scores
from fedgrid.grids.results.outcome import is_finished
from fedgrid.regular_files import LARGEST_TABLE, read_file


def keep(run: ArchivedRun, config: RunConfig, source: str, storage: Storage) -> bool:
    """Write a run's folder; return False if it was there already, with these records.

    The mark that makes it a finished run is written last.

    Args:
        source: the origin of the run, for its log.

    Raises:
        RunError: if it cannot be written.
    """
    folder = folder_of(storage.root, config)
    tables = {"rounds.parquet": run.rounds, "clients.parquet": run.clients}
    records = {name: parquet_bytes(table, config.run_id) for name, table in tables.items()}
    storage.refresh(*(f"{folder.name}/{name}" for name in records))
    if is_finished(storage, config) and all(
        (folder / name).exists() and read_file(folder / name, LARGEST_TABLE) == data
        for name, data in records.items()
    ):
        return False
    forget(config, storage)
    run_folder = RunFolder(storage, config)
    run_folder.open()
    with disk_errors(folder):
        for name, data in records.items():
            (folder / name).write_bytes(data)
        run_folder.log(f"read from {source}", *(f"absent: {name}" for name in run.absent))
        write_scores(config, storage)
        storage.push(*(f"{folder.name}/{name}" for name in records))
        run_folder.finish()
    return True


def forget(config: RunConfig, storage: Storage) -> None:
    """Delete a run's folder, if there is one.

    Raises:
        RunError: if it cannot be deleted.
    """
    folder = folder_of(storage.root, config)
    storage.remove(folder.name)
    if folder.exists():
        with disk_errors(folder):
            rmtree(folder)

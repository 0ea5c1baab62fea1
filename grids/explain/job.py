"""One distribution of one run to explain, and its files in the run's folder.

`explanations/<key>.parquet` has a row an image, `explanations/<key>.json` the settings, the state that was
explained and a checksum. The latter is written last: a killed job leaves nothing that counts. No file of the
run itself changes, and with the run's folder they are gone too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.engine import checkpoint
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data.datasets import find
from fedgrid.engine.errors import RunError
from fedgrid.engine.explanations.settings import Explaining
from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.engine.integrity.files import checksum, stamped
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import ASIDE, disk_errors, write_bytes, write_text
from fedgrid.engine.storage.storage import Storage

FOLDER = "explanations"


@dataclass(frozen=True)
class Job:
    """What to explain."""

    config: RunConfig
    settings: Explaining


@dataclass(frozen=True)
class JobFiles:
    """The files of a job."""

    storage: Storage
    job: Job

    @property
    def run(self) -> Path:
        """The run's folder."""
        return folder_of(self.storage.root, self.job.config)

    @property
    def records(self) -> Path:
        """The Parquet file."""
        return self.run / FOLDER / f"{self.job.settings.key}.parquet"

    @property
    def mark(self) -> Path:
        """The JSON file that makes the other one valid."""
        return self.records.with_suffix(".json")

    def about(self) -> dict[str, Any] | None:
        """Return what the mark says; None if there are no whole records of the run's state as it is now.

        Raises:
            NewerFormat: a newer fedgrid wrote it.
        """
        try:
            found = unseal(self.mark)
            state = self._state()
            is_whole = found.get("records") == checksum(self.records)
        except (FileNotFoundError, DamagedFile):
            return None
        # Without that state it cannot be explained again, and no other one has taken its place.
        return found if is_whole and state in (None, found.get("state")) else None

    def write(self, table: pa.Table, shape: tuple[int, int, int]) -> None:
        """Write the records, then their mark; `shape` is that of an image.

        Raises:
            RunError: they cannot be written.
        """
        data = BytesIO()
        pq.write_table(stamped(table), data, write_page_checksum=True)
        about = {
            "run_id": self.job.config.run_id,
            "settings": self.job.settings.model_dump(mode="json"),
            "shape": list(shape),
            "state": self._state(),
            "records": sha256(data.getvalue()).hexdigest(),
        }
        with disk_errors(self.run):
            self.records.parent.mkdir(exist_ok=True)
            write_bytes(self.records, data.getvalue())
            write_text(self.mark, seal(about, indent=2))
            self.push(self.records, self.mark)

    def push(self, *paths: Path) -> None:
        """Send files to the storage's URI, if it has one."""
        self.storage.push(*(path.relative_to(self.storage.root).as_posix() for path in paths))

    def _state(self) -> str | None:
        """Return a digest of the state's checksums, None if there is no such state."""
        path = self.run / checkpoint.names(self.job.settings.round)[1]
        return sha256(path.read_bytes()).hexdigest() if path.exists() else None


def explain(
    files: JobFiles,
    data_dir: Path,
    device: str = "cpu",
    done: Callable[[int], object] = lambda images: None,
    may_write: Callable[[], object] = lambda: None,
) -> None:
    """Explain the images of a job, and write its records.

    Args:
        files: the job, and where it is written.
        data_dir: the folder of the images.
        device: as torch calls it.
        done: gets the number of images explained since its last call.
        may_write: called before anything is written; raises if it must not be.

    Raises:
        ConfigError, DataError: as `explain_run`.
        RunError: the state cannot be used, or the records cannot be written.
    """
    # Importing torch takes seconds.
    from fedgrid.engine.explanations.explained_run import explain_run

    job, run = files.job, files.run
    files.storage.pull(run.name, skip=("figures/", f"{FOLDER}/", ASIDE))
    progress = checkpoint.load(run, job.settings.round)
    if progress is None:
        raise RunError(
            f"{job.config.name}: its state after round {job.settings.round} is damaged or missing; move "
            f"{run} away, and `fedgrid run` makes it again"
        )
    table = explain_run(job.config, progress, data_dir, job.settings, device, done)
    may_write()
    files.write(table, find(job.config.dataset, data_dir).shape)

"""The files of a job in its run's folder, `<folder>/<key>...`.

The mark `<key>.json` has the settings, the small results, and checksums of the other files and of the state
that was analysed. It is written last, so that a killed job leaves nothing that counts. No file of the run
itself changes, and the results are deleted with the run's folder.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.format import (
    DamagedFile,
    check_run,
    compute_checksum,
    load_manifest,
    unseal_file,
)
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Artifacts, Job, JobResult
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.scoring.run import Run

OWN_KEYS = ("run_id", "settings", "state", "files")
"""Keys of the mark that are no results."""


@dataclass(frozen=True)
class JobFiles:
    """Reads and writes the files of a job."""

    storage: Storage
    folder: str
    """Folder of the analysis in the run's folder."""
    job: Job

    @property
    def run_folder(self) -> Path:
        """The run's folder."""
        return build_folder_path(self.storage.root, self.job.config)

    @property
    def mark_path(self) -> Path:
        """The JSON file that makes the others valid."""
        return self.path_with_end(".json")

    def path_with_end(self, end: str) -> Path:
        """Build the path of the file with this end of its name."""
        return self.run_folder / self.folder / f"{self.job.key}{end}"

    def read_result(self, run: Run) -> JobResult | None:
        """Read the results of the job, None if there are none.

        Raises:
            RunError: Files are damaged or unreadable, as in `read_mark`.
        """
        if (mark := self.read_mark()) is None:
            return None
        paths = {".json": self.mark_path, **{end: self.path_with_end(end) for end in mark["files"]}}
        about = {key: value for key, value in mark.items() if key not in OWN_KEYS}
        return JobResult(self.job, run, about, paths)

    def read_mark(self) -> dict[str, Any] | None:
        """Read the mark; None if there is none, or it is of an older state of the run.

        Raises:
            OtherVersion: Another version of fedgrid wrote it.
            DamagedFile: It, or a file that it lists, is not what was written, or is another run's.
            UnreadableFile: The disk does not give one of them.
        """
        try:
            mark = unseal_file(self.mark_path)
        except FileNotFoundError:
            return None
        # A copy of another run's folder would bring its results along.
        check_run(self.mark_path, mark.get("run_id"), self.job.config.run_id)
        for end, digest in mark["files"].items():
            try:
                same = compute_checksum(self.path_with_end(end)) == digest
            except FileNotFoundError as error:
                raise DamagedFile(self.path_with_end(end), "it is missing") from error
            if not same:
                raise DamagedFile(self.path_with_end(end), "its bytes differ from those that were written")
        # If the state was deleted, the results stay valid: the run was not computed again since.
        return mark if self._compute_state_digest() in (None, mark.get("state")) else None

    def write_files(self, artifacts: Artifacts) -> None:
        """Write the files, then their mark.

        Raises:
            RunError: They cannot be written, or a result has the name of a key of the mark.
        """
        mark = {
            "run_id": self.job.config.run_id,
            "settings": self.job.settings.model_dump(mode="json"),
            "state": self._compute_state_digest(),
            "files": {end: sha256(data).hexdigest() for end, data in artifacts.files.items()},
        }
        # Results and the mark's own keys share one JSON object.
        if taken := mark.keys() & artifacts.about.keys():
            raise RunError(f"a result is called {min(taken)}, which is a key of the mark; rename it")
        files = {
            self.storage.name_path(self.path_with_end(end)): data for end, data in artifacts.files.items()
        }
        # The mark is the last entry: the storage writes files in the order of the dict.
        files[self.storage.name_path(self.mark_path)] = seal_values(
            {**mark, **artifacts.about}, indent=1
        ).encode()
        with disk_errors(self.run_folder):
            self.storage.put(files)

    def _compute_state_digest(self) -> str | None:
        """Compute a digest of the state's checksums, None if the run has no such state."""
        try:
            manifest = load_manifest(self.run_folder)
        except FileNotFoundError:
            return None
        sums = [manifest.files[name].sha256 for name in manifest.states.get(self.job.round, ())]
        return sha256("\n".join(sums).encode()).hexdigest() if sums else None

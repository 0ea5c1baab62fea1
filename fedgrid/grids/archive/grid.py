"""A grid of archived runs: takes one after the other into a storage, then writes the grid and its log."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive import one_run
from fedgrid.grids.archive.configs import config_of
from fedgrid.grids.archive.keep import forget, keep
from fedgrid.grids.archive.layout import Found
from fedgrid.grids.display.summary import write_summary
from fedgrid.grids.mlflow_log.mark import push_marks
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.grids.results.archived import is_archived
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.redaction import redacted

__all__ = ["GridFolder", "Imported", "Storage"]

TEXT = """\
# Runs of the OCFL papers' authors, read from their archive by `fedgrid import`. None of them was run here.
# The archive has no seeds: seed 0 stands for the run of the tables, 1 for the one made for its temperature.
hidden_groups: {truth}
"""
TRUTH = {False: "those of the images", True: "published (bloodmnist-30-overlapping-imbalanced as 7/14/9)"}


class Imported:
    """A grid of archived runs."""

    def __init__(
        self, name: str, found: Sequence[Found], storage: Storage, warn: Callable[[str], None]
    ) -> None:
        """Take the grid's name, and the folders of its runs in the archive."""
        self.name, self.found = name, found
        self.runs: list[RunConfig] = []
        self.imported = 0
        self.absent: Counter[tuple[str, ...]] = Counter()
        self._storage, self._folder = storage, GridFolder(storage, name)
        self._log = RunLog(name, storage, warn)

    def check_is_archived(self) -> None:
        """Check that a grid of that name has only archived runs.

        Raises:
            ConfigError: it has others.
        """
        own = sum(not is_archived(run) for run in self._runs_before())
        if own:
            raise ConfigError(
                f"grid {self.name} has {own} runs that are not from the archive; choose another --name"
            )

    def take(self, found: Found, path: Path, *, published_truth: bool) -> str:
        """Import a run of the archive in `path`; return in words what was done."""
        run = one_run.read_run(found, published_truth=published_truth)
        config = config_of(found, run.rounds.num_rows)
        source = Path(path.resolve().name) / found.folder.relative_to(path)
        is_new = keep(run, config, source.as_posix(), self._storage)
        self.runs.append(config)
        self.imported += is_new
        self.absent[run.absent] += 1
        return f"{config.name}: {'imported' if is_new else 'unchanged'}"

    def conclude(self, *, published_truth: bool) -> None:
        """Write the grid's folder, and log to MLflow what it lacks."""
        text = TEXT.format(truth=TRUTH[published_truth])
        names, ids = {run.name for run in self.runs}, {run.run_id for run in self.runs}
        # These runs had another number of rounds in an earlier version of the archive.
        replaced = [run for run in self._runs_before() if run.name in names and run.run_id not in ids]
        unlogged = [run for run in self.runs if not self._log.is_logged(run)]
        self._log.prepare(text)
        self._log.forget([*replaced, *unlogged])
        for run in replaced:
            forget(run, self._storage)
        self._folder.keep(self.runs, text)
        runs = self._folder.runs()
        summary = write_summary(runs, self._storage, self._folder.path)
        self._storage.push(summary.relative_to(self._storage.root).as_posix())
        with self._log:
            for run in unlogged:
                self._log.finish(run, "FINISHED")
            self._log.summary([summary], sum(is_finished(self._storage, run) for run in runs), 0)
        push_marks(unlogged, self._storage)

    def facts(self) -> dict[str, object]:
        """Return what `--json` prints of the grid."""
        return {
            "grid": self.name,
            "runs": len(self.runs),
            "imported": self.imported,
            "unchanged": len(self.runs) - self.imported,
            "scenarios": len({run.scenario for run in self.runs}),
            "algorithms": len({run.algorithm["name"] for run in self.runs}),
            "absent": [
                {"files": list(names), "runs": count} for names, count in sorted(self.absent.items()) if names
            ],
            "mlflow": redacted(self._log.uri),
        }

    def _runs_before(self) -> tuple[RunConfig, ...]:
        return self._folder.every() if self._folder.is_there else ()

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
from fedgrid.grids.archive.layout import FoundRun
from fedgrid.grids.display.summary import write_summary
from fedgrid.grids.following.follow import Trackers
from fedgrid.grids.results.archived import is_archived
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.trackers.mlflow.store import tracking_uri
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
        self,
        name: str,
        archived: Sequence[FoundRun],
        storage: Storage,
        warn: Callable[[str], None],
        *,
        published_truth: bool,
    ) -> None:
        """Take the grid's name, the folders of its runs in the archive, and whose hidden groups count."""
        self.name, self.found = name, archived
        self.runs: list[RunConfig] = []
        self.imported = 0
        self.absent: Counter[tuple[str, ...]] = Counter()
        self._storage, self._folder = storage, GridFolder(storage, name)
        self._published_truth = published_truth
        self._text = TEXT.format(truth=TRUTH[published_truth])
        self._trackers = Trackers(name, storage, warn, text=self._text)

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

    def take(self, archived: FoundRun, path: Path) -> str:
        """Import a run of the archive in `path`; return in words what was done."""
        run = one_run.read_run(archived, published_truth=self._published_truth)
        config = config_of(archived, run.rounds.num_rows)
        source = Path(path.resolve().name) / archived.folder.relative_to(path)
        is_new = keep(run, config, source.as_posix(), self._storage)
        self.runs.append(config)
        self.imported += is_new
        self.absent[run.absent] += 1
        return f"{config.name}: {'imported' if is_new else 'unchanged'}"

    def conclude(self) -> None:
        """Write the grid's folder, and log to MLflow what it lacks."""
        names, ids = {run.name for run in self.runs}, {run.run_id for run in self.runs}
        # These runs had another number of rounds in an earlier version of the archive.
        replaced = [run for run in self._runs_before() if run.name in names and run.run_id not in ids]
        untold = self._trackers.lacking(self.runs)
        self._trackers.forget([*replaced, *untold])
        for run in replaced:
            forget(run, self._storage)
        self._folder.keep(self.runs, self._text)
        runs = self._folder.runs()
        summary = write_summary(runs, self._storage, self._folder.path)
        self._storage.push(summary.relative_to(self._storage.root).as_posix())
        with self._trackers:
            self._trackers.catch_up(untold)
            self._trackers.summary([summary], sum(is_finished(self._storage, run) for run in runs), 0)

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
            "mlflow": redacted(tracking_uri(self._storage.root)),
        }

    def _runs_before(self) -> tuple[RunConfig, ...]:
        return self._folder.read().every if self._folder.is_there else ()

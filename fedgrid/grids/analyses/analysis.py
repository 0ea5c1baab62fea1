"""What an analysis of finished runs is: explain, attack, epsilons, or a plugin's own.

An analysis says what it computes of a run and which tables and figures show it. The rest of this room selects
runs, executes jobs, writes their files, resumes, shows progress, logs to MLflow and assembles the report.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedgrid.algorithms.contract.section import Section as Settings
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.errors import ConfigError, RunError, StorageError
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.run_folder import folder_of, last_round
from fedgrid.engine.runtime.storage.format import manifest_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.report.page import PageSection
from fedgrid.tracking.scoring.axes import scenario_words
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.tables.table import Column, Row, Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AnalysisSettings(Settings):
    """The settings of an analysis: none here; an analysis that has some derives a class with them."""


@dataclass(frozen=True)
class Job:
    """One run to analyse with some settings."""

    config: RunConfig
    settings: Any
    """Of the analysis's class of settings."""
    key: str
    """Names its files: other settings have another key."""
    round: int
    """The state after this round is analysed, counted from 1."""


@dataclass(frozen=True)
class Artifacts:
    """The results of a job."""

    about: Mapping[str, Any]
    """Small results, as JSON has them."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """End of a file's name -> its bytes, as in `.parquet` or `-maps.png`."""


@dataclass(frozen=True)
class JobResult:
    """The results of a job as they lie in the run's folder."""

    job: Job
    run: Run
    about: Mapping[str, Any]
    files: Mapping[str, Path]
    """End of a file's name -> the file; the mark, with `about`, has `.json`."""


@dataclass(frozen=True)
class Summary:
    """What a command shows of results."""

    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()
    """Printed below the tables and their captions."""


@dataclass(frozen=True)
class Context:
    """Where jobs find what they need."""

    storage: Storage
    data_dir: Path
    runs: Mapping[str, Run]
    """By id, with the titles that the grid's tables have."""
    device: str = "cpu"
    """As torch calls it."""

    def dataset(self, config: RunConfig) -> Dataset:
        """Return what is known of the data set of a run.

        Raises:
            DataError: its images are missing.
        """
        return find(config.dataset, self.data_dir)

    def folder(self, config: RunConfig) -> Path:
        """Return a run's folder."""
        return folder_of(self.storage.root, config)

    def last_round(self, config: RunConfig) -> int:
        """Return the last round of a finished run, which may have stopped early."""
        return last_round(self.folder(config), config)

    def stored(self, config: RunConfig) -> list[int]:
        """Return the rounds after which there is a state of the run, in ascending order."""
        folder = self.folder(config)
        try:
            states = manifest_of(folder).states
        except FileNotFoundError:
            return []
        return sorted(
            number for number, names in states.items() if all((folder / name).exists() for name in names)
        )

    def check_state(self, config: RunConfig, number: int) -> None:
        """Check that there is a run's state after round `number`.

        Raises:
            ConfigError: there is none; it says after which rounds there is one.
        """
        stored = self.stored(config)
        if number in stored:
            return
        if not stored:
            raise ConfigError(
                "there is no state of it: it was imported without its models, or they were deleted; leave it "
                "out with --where, or run it again"
            )
        kept = " and ".join(map(str, stored))
        raise ConfigError(f"there is no state after round {number}, but after {kept}: give one as round=")

    def state(self, job: Job, number: int | None = None) -> RunState:
        """Return the run's state after the job's round, or after round `number`.

        Raises:
            RunError: it is damaged or missing.
        """
        folder = self.folder(job.config)
        try:
            return checkpoint.load(folder, job.round if number is None else number)
        except StorageError:
            raise
        except RunError as error:
            raise RunError(f"{error}; move {folder} away, and `fedgrid run` makes the run again") from error


class Analysis(ABC):
    """An analysis of finished runs. Only `name` and `compute` are needed.

    Instances and settings travel to Ray tasks, so they are plain data.
    """

    name: ClassVar[str]
    settings: ClassVar[type[Settings]] = AnalysisSettings
    """Of a job."""
    options: ClassVar[type[Settings] | None] = None
    """What the command line sets, `KEY=VALUE` each, where it is not the settings of a job."""
    folder: ClassVar[str] = "analyses"
    """Of the results, in a run's folder."""
    on_gpu: ClassVar[bool] = False
    """Whether a job uses a share of a GPU if the cluster has one."""
    in_process: ClassVar[bool] = False
    """Whether jobs are too short for a cluster: they are done in the command's process."""

    @abstractmethod
    def compute(self, job: Job, context: Context) -> Artifacts:
        """Return the results of a job; the same wherever and in whatever order jobs are done.

        Raises:
            FedgridError: the job fails; others go on.
        """

    def jobs(self, runs: Sequence[RunConfig], options: Any, context: Context) -> Sequence[Job]:
        """Return the jobs of finished runs; `options` are what the command line sets, here the settings.

        Raises:
            ConfigError, DataError: it cannot be done; nothing is started.
        """
        return [Job(run, options, self.key(options), context.last_round(run)) for run in runs]

    def key(self, settings: Settings) -> str:
        """Return the name of results: other settings, or another file of the plugin, have another."""
        code = active.digest_of_analysis(self)
        text = json.dumps([code, settings.model_dump(mode="json")], sort_keys=True)
        return f"{self.name}-{sha256(text.encode()).hexdigest()[:12]}"

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Return a run's metrics for MLflow by name; those that are not finite are left out."""
        return {
            f"{self.name}/{name}": float(value)
            for name, value in result.about.items()
            if isinstance(value, int | float)
        }

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterable[PageSection]:
        """Return sections for the grid's report; `missing` are the jobs that have no results yet.

        `published`: whether the report has the papers' numbers beside ours.
        """
        text = f"{len(missing)} runs are not analysed yet." if missing else ""
        yield PageSection(f"analysis-{self.name}", self.name.capitalize(), text, (self._table(results),))

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], options: Any, grid: GridFolder
    ) -> Summary:
        """Return what the command shows; it may write into the grid's folder."""
        return Summary([self._table(results)])

    def figures(self, result: JobResult) -> Mapping[str, "Figure"]:
        """Draw figures of a job for MLflow, by the names of their files without an ending."""
        return {}

    def slot(self, job: Job) -> str | None:
        """Return what of a run a job is about, by which plan, progress and report name it.

        The report shows the last settings of a slot. Empty: there is one job a run. None: the report does not
        show it.
        """
        return ""

    def finite(self, result: JobResult) -> dict[str, float]:
        """Return those metrics of a run that are finite numbers."""
        return {name: value for name, value in self.metrics(result).items() if isfinite(value)}

    def _table(self, results: Sequence[JobResult]) -> Table:
        metrics = [(result.run, self.finite(result)) for result in results]
        names = dict.fromkeys(name for _, values in metrics for name in values)
        columns = {name: Column(name.removeprefix(f"{self.name}/")) for name in names}
        return means_table(
            f"analysis-{self.name}", self.name.capitalize(), "Means over seeds.", columns, metrics
        )


def means_table(
    name: str,
    title: str,
    caption: str,
    columns: Mapping[str, Column],
    numbers: Sequence[tuple[Run, Mapping[str, float]]],
    digits: Mapping[str, int] | None = None,
) -> Table:
    """Return a table of means over seeds, a row for each algorithm of each scenario.

    Args:
        name: of its files.
        title: if there is one scenario, that is added.
        caption: what stands below it.
        columns: by the names of numbers.
        numbers: a run's, by name; one that is NaN or absent does not count.
        digits: after the point, 3 unless a name says otherwise.
    """
    rows: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for run, of_run in numbers:
        rows.setdefault((scenario_words(run.scenario), run.algorithm), []).append(of_run)
    scenarios = {scenario for scenario, _ in rows}
    return Table(
        name,
        f"{title}, {min(scenarios)}" if len(scenarios) == 1 else title,
        caption,
        tuple(columns.values()),
        tuple(
            Row(
                algorithm,
                tuple(
                    number(
                        [seed.get(key, nan) for seed in seeds],
                        expected=len(seeds),
                        digits=(digits or {}).get(key, 3),
                    )
                    for key in columns
                ),
                section=scenario if len(scenarios) > 1 else "",
            )
            for (scenario, algorithm), seeds in rows.items()
        ),
        corner="algorithm",
    )

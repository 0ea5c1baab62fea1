"""What an analysis of finished runs is: explain, attack, epsilons, or one of a plugin.

An analysis defines what it computes of a run, and which tables and figures show it. The rest of this package
selects runs, executes jobs, writes their files, resumes, shows progress, logs to MLflow and assembles the
report.
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
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.run_folder import build_folder_path, find_last_round
from fedgrid.engine.runtime.storage.format import load_manifest
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.report.page import PageSection
from fedgrid.tracking.scoring.axes import format_scenario
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.tables.table import Column, Row, Table, build_seed_mean_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AnalysisSettings(Settings):
    """Settings of an analysis, none by default. An analysis that has some derives a class with fields.

    `KEY=VALUE` of `fedgrid analyse` sets a field. The values are part of the name of the results, so that
    other settings give other results.

    Raises:
        ConfigError: A value does not fit its field, or there is no such field.

    Example:
        >>> import fedgrid
        >>> class SpreadSettings(fedgrid.AnalysisSettings):
        ...     power: float = 2.0
        >>> SpreadSettings(power=1.0).model_dump()
        {'power': 1.0}
    """


@dataclass(frozen=True)
class Job:
    """One run to analyse with some settings."""

    config: RunConfig
    settings: Any
    """Instance of the analysis's class of settings."""
    key: str
    """Name of its files; other settings have another one."""
    round: int
    """Round after which the state is analysed, counted from 1."""


@dataclass(frozen=True)
class Artifacts:
    """Results of a job, as `Analysis.compute` returns them.

    Args:
        about: small results by name, as JSON has them.
        files: end of a file's name -> its bytes, as in `.parquet` or `-maps.png`; none by default.

    Example:
        >>> import fedgrid
        >>> artifacts = fedgrid.Artifacts({"distance": 0.5}, {".csv": b"client,distance"})
        >>> artifacts.about["distance"], list(artifacts.files)
        (0.5, ['.csv'])
    """

    about: Mapping[str, Any]
    """Small results by name, as JSON has them. Numbers become metrics in MLflow and columns of the table."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """End of a file's name -> its bytes, as in `.parquet` or `-maps.png`; none by default."""


@dataclass(frozen=True)
class JobResult:
    """Results of a job as they lie in the run's folder."""

    job: Job
    run: Run
    about: Mapping[str, Any]
    files: Mapping[str, Path]
    """End of a file's name -> the file. The mark, which has `about`, is `.json`."""


@dataclass(frozen=True)
class Summary:
    """What a command shows of results."""

    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()
    """Lines below the tables and their captions."""


@dataclass(frozen=True)
class Context:
    """Where jobs find the data that they need."""

    storage: Storage
    data_dir: Path
    runs: Mapping[str, Run]
    """Runs by id, with the titles that the grid's tables have."""
    device: str = "cpu"
    """Device of the computation in torch's notation."""

    def dataset(self, config: RunConfig) -> Dataset:
        """Find the facts about a run's data set.

        Raises:
            DataError: Its images are missing.
        """
        return find_dataset(config.dataset, self.data_dir)

    def folder(self, config: RunConfig) -> Path:
        """Build the path of a run's folder."""
        return build_folder_path(self.storage.root, config)

    def last_round(self, config: RunConfig) -> int:
        """Read the last round of a finished run, which may have stopped early."""
        return find_last_round(self.folder(config), config)

    def stored_rounds(self, config: RunConfig) -> list[int]:
        """Read the rounds after which a state of the run is stored, in ascending order."""
        folder = self.folder(config)
        try:
            states = load_manifest(folder).states
        except FileNotFoundError:
            return []
        # A manifest also lists states whose files were deleted to save space.
        return sorted(
            number for number, names in states.items() if all((folder / name).exists() for name in names)
        )

    def check_state(self, config: RunConfig, number: int) -> None:
        """Check that a run's state after round `number` is stored.

        Raises:
            ConfigError: There is none; the message lists the rounds after which there is one.
        """
        stored = self.stored_rounds(config)
        if number in stored:
            return
        if not stored:
            raise ConfigError(
                "there is no state of it: it was imported without its models, or they were deleted; leave it "
                "out with --where, or run it again"
            )
        rounds_text = " and ".join(map(str, stored))
        raise ConfigError(
            f"there is no state after round {number}, but after {rounds_text}: give one as round="
        )

    def state(self, job: Job, number: int | None = None) -> RunState:
        """Load the run's state after a round.

        Args:
            job: The job.
            number: The round, by default the job's.

        Raises:
            RunError: The state is damaged or missing.
        """
        folder = self.folder(job.config)
        try:
            return checkpoint.load_state(folder, job.round if number is None else number)
        # A storage that does not answer is no damage: the advice of the next clause would be wrong.
        except StorageError:
            raise
        except RunError as error:
            raise RunError(f"{error}; move {folder} away, and `fedgrid run` makes the run again") from error


class Analysis(ABC):
    """An analysis of finished runs. A subclass needs `name` and `compute`; the other hooks have defaults.

    A plugin lists instances in `ANALYSES`, and `fedgrid analyse GRID NAME` runs one. Instances and settings
    are pickled and sent to Ray tasks, so they must be plain data.

    Example:
        >>> import fedgrid
        >>> class Length(fedgrid.Analysis):
        ...     name = "length"
        ...     def compute(self, job, context):
        ...         return fedgrid.Artifacts({"rounds": context.last_round(job.config)})
        >>> Length().key(fedgrid.AnalysisSettings())
        'length-35d6cbd33ccf'
        >>> Length().slot(job=None)
        ''
    """

    name: ClassVar[str]
    """Name in the command, and the first part of the names of metrics and files."""
    settings: ClassVar[type[Settings]] = AnalysisSettings
    """Class of the settings of a job, by default without fields."""
    options: ClassVar[type[Settings] | None] = None
    """Class of what the command line sets, `KEY=VALUE` each, if it is not `settings`; None by default."""
    folder: ClassVar[str] = "analyses"
    """Folder of the results in a run's folder, `analyses` by default."""
    on_gpu: ClassVar[bool] = False
    """Whether a job uses a share of a GPU if the cluster has one; False by default."""
    in_process: ClassVar[bool] = False
    """Whether jobs are too short for a cluster, and are done in the command's process; False by default."""

    @abstractmethod
    def compute(self, job: Job, context: Context) -> Artifacts:
        """Compute the results of a job.

        Called once for each job, in a Ray task or in the command's process. Results must not depend on where
        and in what order jobs are done. Global random generators are seeded for each job.

        Args:
            job: The run, the settings, and the round after which it is analysed.
            context: Where states, data sets and runs are found.

        Raises:
            FedgridError: The job fails; others go on.
        """

    def jobs(self, runs: Sequence[RunConfig], options: Any, context: Context) -> Sequence[Job]:
        """Plan the jobs of finished runs, by default one for each run after its last round.

        Called by the command before anything is started or written.

        Args:
            runs: Configurations of the finished runs.
            options: What the command line sets, by default the settings.
            context: Where states and data sets are found.

        Raises:
            ConfigError: The options do not fit the runs.
            DataError: Images are missing.
        """
        return [Job(run, options, self.key(options), context.last_round(run)) for run in runs]

    def key(self, settings: Settings) -> str:
        """Compute the name of results: other settings, or another file of the plugin, give another one.

        Called by `jobs`.

        Args:
            settings: Settings of a job.
        """
        # The plugin's bytes are part of the key, as a changed computation must not reuse results. It is None
        # for fedgrid's own analyses.
        code = active.find_analysis_digest(self)
        text = json.dumps([code, settings.model_dump(mode="json")], sort_keys=True)
        return f"{self.name}-{sha256(text.encode()).hexdigest()[:12]}"

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Select a run's metrics for MLflow, by default the numbers of `about`.

        Called when results are logged and shown. Metrics that are not finite are left out afterwards.

        Args:
            result: Results of one job.

        Returns:
            Value by name, which begins with the name of the analysis, as `spread/distance`.
        """
        return {
            f"{self.name}/{name}": float(value)
            for name, value in result.about.items()
            # A bool is an int: a yes or no becomes 1 or 0, whose mean is a share.
            if isinstance(value, int | float)
        }

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterable[PageSection]:
        """Build sections for the grid's report, by default one with a table of means over seeds.

        Called by `fedgrid report` if the grid has results of the analysis.

        Args:
            results: Results of the selected jobs.
            missing: Jobs that have no results yet.
            published: Whether the report compares with the papers' numbers.
        """
        text = f"{len(missing)} runs are not analysed yet." if missing else ""
        yield PageSection(
            f"analysis-{self.name}", self.name.capitalize(), text, (self._means_table(results),)
        )

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], options: Any, grid: GridFolder
    ) -> Summary:
        """Build what the command shows at its end, by default a table of means over seeds.

        Called by the command when all jobs have ended. It may write files into the grid's folder.

        Args:
            results: Results of the jobs.
            missing: Jobs without results, which failed.
            options: What the command line sets, as in `jobs`.
            grid: Folder of the grid.
        """
        return Summary([self._means_table(results)])

    def figures(self, result: JobResult) -> Mapping[str, "Figure"]:
        """Draw figures of a job for MLflow, none by default.

        Called when results are logged.

        Args:
            result: Results of the job.

        Returns:
            Figures by the names of their files without an ending.
        """
        return {}

    def slot(self, job: Job) -> str | None:
        """Name the part of a run that a job is about, as plan, progress and report show it.

        Called for each job. The report shows the last settings of a slot.

        Args:
            job: The job.

        Returns:
            Empty text, the default, if there is one job for each run; None if the report does not show the
            job.
        """
        return ""

    def finite_metrics(self, result: JobResult) -> dict[str, float]:
        """Select those metrics of a run that are finite numbers."""
        return {name: value for name, value in self.metrics(result).items() if isfinite(value)}

    def _means_table(self, results: Sequence[JobResult]) -> Table:
        """Build the table of means of all metrics."""
        metrics = [(result.run, self.finite_metrics(result)) for result in results]
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
    """Build a table of means over seeds, with a row for each algorithm of each scenario.

    Args:
        name: Name of the table's files.
        title: Title, to which a single scenario is added.
        caption: Text below the table.
        columns: Columns by the names of numbers.
        numbers: A run's numbers by name; one that is NaN or absent does not count.
        digits: Digits after the point by name, 3 by default.
    """
    rows: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for run, run_numbers in numbers:
        rows.setdefault((format_scenario(run.scenario), run.algorithm), []).append(run_numbers)
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
                    build_seed_mean_cell(
                        # NaN keeps the place of a missing number, so that the cell shows over how many seeds
                        # it is a mean.
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

"""The results of a grid's analyses in its report: those of the last commands, which `analyses.json` lists.

There is one entry for each analysis, run and slot. Results of other settings stay in the runs' folders, and
are shown again after a command with these settings.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from fedgrid.algorithms.contract.section import PositiveInt
from fedgrid.algorithms.contract.section import Section as Settings
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.storage.format import DamagedFile, describe_next_step, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Analysis, Job, JobResult
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.runs import describe_configs
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.report.page import PageSection
from fedgrid.tracking.scoring.run import Run

LIST_FILE = "analyses.json"


class ReportJob(Settings):
    """One job in `analyses.json`."""

    settings: dict[str, Any]
    key: str
    round: PositiveInt


ReportJobs: TypeAlias = dict[str, dict[str, dict[str, ReportJob]]]
"""Analysis -> id of a run -> slot -> its job."""
_LIST_ADAPTER = TypeAdapter(ReportJobs)


def select_for_report(analysis: Analysis, grid: GridFolder, jobs: Iterable[Job]) -> None:
    """List jobs for the grid's report, in place of those of the same run and slot.

    Raises:
        RunError: The file is damaged, or cannot be written.
    """
    listed = _read_list(grid)
    before = _LIST_ADAPTER.dump_python(listed)
    for job in jobs:
        if (slot := analysis.slot(job)) is not None:
            settings = job.settings.model_dump(mode="json")
            entry = ReportJob(settings=settings, key=job.key, round=job.round)
            listed.setdefault(analysis.name, {}).setdefault(job.config.run_id, {})[slot] = entry
    # A repeated command changes nothing, and so need not write.
    if (after := _LIST_ADAPTER.dump_python(listed)) != before:
        grid.write_file(LIST_FILE, seal_values(after, indent=1))


def read_selected_jobs(analysis: Analysis, grid: GridFolder, runs: Iterable[RunConfig]) -> list[Job]:
    """Read the jobs of these runs that the grid's report shows.

    Raises:
        RunError: The file is damaged.
        OtherVersion: Another version of fedgrid wrote it.
    """
    jobs_by_run = _read_list(grid).get(analysis.name, {})
    entries = ((run, entry) for run in runs for entry in jobs_by_run.get(run.run_id, {}).values())
    try:
        return [
            Job(run, analysis.settings(**entry.settings), entry.key, entry.round) for run, entry in entries
        ]
    # A plugin's settings may have lost a field since.
    except (ConfigError, TypeError, ValidationError) as error:
        raise _explain_damage(
            DamagedFile(grid.path / LIST_FILE, f"{analysis.name} has no such settings")
        ) from error


def _read_list(grid: GridFolder) -> ReportJobs:
    """Read the list of jobs, empty if there is none."""
    try:
        return _LIST_ADAPTER.validate_python(unseal_file(grid.path / LIST_FILE))
    except FileNotFoundError:
        return {}
    except DamagedFile as error:
        raise _explain_damage(error) from error
    except ValidationError as error:
        raise _explain_damage(DamagedFile(grid.path / LIST_FILE, "it does not list analyses")) from error


def _explain_damage(error: DamagedFile) -> RunError:
    """Build the error of a damaged list, with the next step."""
    return RunError(f"{error}: move it away, and repeat the grid's `fedgrid analyse`")


def describe_runs(runs: Sequence[RunConfig], storage: Storage) -> dict[str, Run]:
    """Describe the runs of a grid as its tables do, by id."""
    return {run.run_id: run for run in describe_configs(runs, storage)}


def find_results(
    analysis: Analysis, jobs: Sequence[Job], runs: Mapping[str, Run], storage: Storage
) -> tuple[list[JobResult], list[Job]]:
    """Find the results of jobs.

    Damaged results cause a warning, and their jobs count as missing.

    Args:
        analysis: The analysis.
        jobs: Its jobs.
        runs: All runs of the grid by id.
        storage: Storage of the runs.

    Returns:
        The results, and the jobs that have none.
    """
    for run in dict.fromkeys(runs[job.config.run_id].folder.name for job in jobs):
        # States are large, and only computing needs them.
        storage.pull(run, skip=("state-",))
    results, missing = [], []
    for job in jobs:
        try:
            result = JobFiles(storage, analysis.folder, job).read_result(runs[job.config.run_id])
        except RunError as error:
            warn(
                describe_next_step(
                    str(error), "it does not count; the same `fedgrid analyse` computes it again"
                )
            )
            result = None
        if result is None:
            missing.append(job)
        else:
            results.append(result)
    return results, missing


def build_sections(
    analyses: Mapping[str, Analysis],
    grid: GridFolder,
    storage: Storage,
    *,
    published: bool,
    among: Collection[str] | None = None,
) -> Iterator[PageSection]:
    """Yield what the report shows of a grid's analyses.

    Args:
        analyses: Analyses by name.
        grid: Folder of the grid.
        storage: Storage of the runs.
        published: Whether the report compares with the papers' numbers.
        among: Ids of the runs to show; None, the default, for all.

    Raises:
        RunError: A file is damaged.
        OtherVersion: Another version of fedgrid wrote one.
    """
    configs = grid.read_runs()
    for name in _read_list(grid):
        if (analysis := analyses.get(name)) is None:
            warn(f"the report lacks the analysis {name} of a plugin; name its file with --plugin")
            continue
        jobs = read_selected_jobs(analysis, grid, configs)
        jobs = [job for job in jobs if among is None or job.config.run_id in among]
        results, missing = find_results(analysis, jobs, describe_runs(configs, storage), storage)
        # Without results there is nothing to show: the jobs are waiting, or have all failed.
        if results:
            yield from analysis.sections(results, missing, published=published)

"""The results of a grid's analyses in its report."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.storage.atomic import ASIDE
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses import chosen
from fedgrid.grids.analyses.analysis import Analysis, Found, Job
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.display.plain import warn
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.runs import describe
from fedgrid.tracking.report.page import Section
from fedgrid.tracking.scoring.run import Run


def described(runs: Sequence[RunConfig], storage: Storage) -> dict[str, Run]:
    """Return the runs of a grid as its tables have them, by id."""
    return {run.run_id: run for run in describe(runs, storage)}


def found_of(
    analysis: Analysis, jobs: Sequence[Job], runs: Mapping[str, Run], storage: Storage
) -> tuple[list[Found], list[Job]]:
    """Return the results of the jobs that are done, and the others; `runs` are all of the grid."""
    for run in dict.fromkeys(runs[job.config.run_id].folder.name for job in jobs):
        storage.pull(run, skip=("state-", ASIDE))
    found, missing = [], []
    for job in jobs:
        results = JobFiles(storage, analysis.folder, job).found(runs[job.config.run_id])
        if results is not None and analysis.is_whole(results):
            found.append(results)
        else:
            missing.append(job)
    return found, missing


def sections(
    analyses: Mapping[str, Analysis],
    grid: GridFolder,
    storage: Storage,
    *,
    published: bool,
    among: Collection[str] | None = None,
) -> Iterator[Section]:
    """Yield what the report shows of the analyses that a grid was asked for last.

    `among` are the ids of the runs to show, None for all.

    Raises:
        RunError: a file is damaged.
        NewerFormat: a newer fedgrid wrote one.
    """
    configs = grid.runs()
    for name in chosen.names(grid):
        if (analysis := analyses.get(name)) is None:
            warn(f"the report lacks the analysis {name} of a plugin; name its file with --plugin")
            continue
        jobs = chosen.jobs(analysis, grid, configs)
        jobs = [job for job in jobs if among is None or job.config.run_id in among]
        found, missing = found_of(analysis, jobs, described(configs, storage), storage)
        if found:
            yield from analysis.sections(found, missing, published=published)

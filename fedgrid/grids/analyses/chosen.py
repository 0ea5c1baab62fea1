"""Which results of a grid its report shows: those that were asked for last, in `analyses.json`.

There is one entry for each analysis, run and slot. Results of other settings stay in the runs' folders, and
are shown again once they are asked for.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.storage.format import DamagedFile, seal, unseal
from fedgrid.grids.analyses.analysis import Analysis, Job
from fedgrid.grids.analyses.files import PLAIN_NAME
from fedgrid.grids.results.grid_folder import GridFolder

FILE = "analyses.json"


class _Asked(Section):
    """What the file says of a job. Another user may have written it, and `key` is part of a file's name."""

    settings: dict[str, Any]
    key: Annotated[str, Field(pattern=PLAIN_NAME)]
    round: PositiveInt


_FILE = TypeAdapter(dict[str, dict[str, dict[str, _Asked]]])
"""Analysis -> id of a run -> slot -> what was asked for."""


def note(analysis: Analysis, grid: GridFolder, jobs: Iterable[Job]) -> None:
    """Note what jobs are asked for: they replace those of the same run and slot.

    Raises:
        RunError: they cannot be written.
    """
    before = _read(grid)
    of_runs = {run: dict(slots) for run, slots in before.get(analysis.name, {}).items()}
    for job in jobs:
        if (slot := analysis.slot(job)) is not None:
            settings = job.settings.model_dump(mode="json")
            entry = _Asked(settings=settings, key=job.key, round=job.round)
            of_runs.setdefault(job.config.run_id, {})[slot] = entry
    if of_runs != before.get(analysis.name, {}):
        grid.write(FILE, seal(_FILE.dump_python({**before, analysis.name: of_runs}), indent=1))


def names(grid: GridFolder) -> list[str]:
    """Return the names of the analyses that were asked for.

    Raises:
        RunError, NewerFormat: as `jobs`.
    """
    return list(_read(grid))


def jobs(analysis: Analysis, grid: GridFolder, runs: Iterable[RunConfig]) -> list[Job]:
    """Return what was last asked for of these runs.

    Raises:
        RunError: the file is damaged.
        NewerFormat: a newer fedgrid wrote it.
    """
    of_runs = _read(grid).get(analysis.name, {})
    entries = ((run, entry) for run in runs for entry in of_runs.get(run.run_id, {}).values())
    try:
        return [
            Job(run, analysis.settings(**entry.settings), entry.key, entry.round) for run, entry in entries
        ]
    except (ConfigError, TypeError, ValidationError) as error:
        raise _damaged(DamagedFile(grid.path / FILE, f"{analysis.name} has no such settings")) from error


def _read(grid: GridFolder) -> dict[str, dict[str, dict[str, _Asked]]]:
    try:
        return _FILE.validate_python(unseal(grid.path / FILE))
    except FileNotFoundError:
        return {}
    except DamagedFile as error:
        raise _damaged(error) from error
    except ValidationError as error:
        raise _damaged(DamagedFile(grid.path / FILE, "it does not list analyses")) from error


def _damaged(error: DamagedFile) -> RunError:
    return RunError(f"{error}: move it away, and repeat the grid's `fedgrid explain`, `attack` or `analyse`")

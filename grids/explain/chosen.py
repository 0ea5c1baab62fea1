"""Which explanations of a grid a report shows: those of its last `fedgrid explain`, in `explanations.json`.

There is one entry for the default style and one as published. Explanations by other settings stay in the
runs' folders, and are shown again once they are asked for.
"""

from collections.abc import Iterable
from typing import Any

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.errors import RunError
from fedgrid.engine.explanations.settings import Explaining
from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.grids.explain.job import Job
from fedgrid.grids.results.grid_folder import GridFolder

FILE = "explanations.json"
PLAIN, AS_PUBLISHED = "", "as published"


def note(grid: GridFolder, jobs: Iterable[Job]) -> None:
    """Note the settings of jobs: they replace those of the same run, style and distribution.

    Raises:
        RunError: they cannot be written.
    """
    before = _read(grid)
    found = {style: {run: dict(by_on) for run, by_on in runs.items()} for style, runs in before.items()}
    for job in jobs:
        runs = found.setdefault(AS_PUBLISHED if job.settings.as_published else PLAIN, {})
        runs.setdefault(job.config.run_id, {})[job.settings.on] = job.settings.model_dump(mode="json")
    if found != before:
        grid.write(FILE, seal(found, indent=1))


def jobs(grid: GridFolder, runs: Iterable[RunConfig]) -> dict[str, list[Job]]:
    """Return by style what was last asked for of these runs.

    Raises:
        RunError: the file is damaged.
        NewerFormat: a newer fedgrid wrote it.
    """
    found = _read(grid)
    configs = list(runs)
    return {
        style: [
            Job(run, Explaining(**settings))
            for run in configs
            for settings in of_style.get(run.run_id, {}).values()
        ]
        for style, of_style in found.items()
    }


def _read(grid: GridFolder) -> dict[str, Any]:
    try:
        return unseal(grid.path / FILE)
    except FileNotFoundError:
        return {}
    except DamagedFile as error:
        raise RunError(f"{error}: move it away, and repeat the grid's `fedgrid explain`") from error

"""What a name on the command line means: a grid, or a run by its name, its id or the beginning of one."""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data import own_images
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.format import FORMAT, VERSION
from fedgrid.engine.integrity.done_mark import CONFIG
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder, list_grids

MOST_NAMED = 8
"""Names in a message at most."""
SHORTEST_ID = 4
"""Digits of the beginning of an id."""


@dataclass(frozen=True)
class Found:
    """A run, and the grids of its storage that have it."""

    config: RunConfig
    grids: tuple[str, ...]


def find_run(what: str, storage: Storage) -> Found:
    """Return the run of a storage that `what` names: a run's name, id, folder, or the beginning of its id.

    Raises:
        ConfigError: if there is none, or several; names them.
    """
    name = Path(what).name
    runs: dict[str, RunConfig] = {}
    grids: dict[str, list[str]] = {}
    for grid in list_grids(storage):
        for run in GridFolder(storage, grid).runs():
            runs[run.run_id] = run
            grids.setdefault(run.run_id, []).append(grid)
    if not any(_is_named(run, name) for run in runs.values()):
        # A run of `fedgrid.run`, or of a grid that was deleted, is in no grid.
        runs |= {run.run_id: run for run in _stored(storage) if run.run_id not in runs}
    found = [run for run in runs.values() if _is_named(run, name)]
    if len(found) == 1:
        return Found(found[0], tuple(grids.get(found[0].run_id, ())))
    if found:
        several = ", ".join(run.run_id for run in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise ConfigError(f"{len(found)} runs are named '{what}': {several}{more}; give one of these ids")
    names = [*list_grids(storage), *dict.fromkeys(run.name for run in runs.values())]
    near = get_close_matches(what, names, n=1)
    raise ConfigError(
        f"no grid or run '{what}' in {storage}; "
        + (f"did you mean '{near[0]}'? " if near else "")
        + (
            f"grids: {', '.join(list_grids(storage)[:MOST_NAMED]) or 'none'}; `fedgrid runs GRID` lists its "
            "runs with their ids"
        )
    )


def _is_named(run: RunConfig, name: str) -> bool:
    is_id = len(name) >= SHORTEST_ID and run.run_id.startswith(name)
    return is_id or name in (run.name, f"{run.name}-{run.run_id}")


def _stored(storage: Storage) -> list[RunConfig]:
    """Return the runs that have a folder; those of another format, or damaged, are left out."""
    found = []
    for path in sorted(storage.root.glob(f"*/{CONFIG}")):
        try:
            values = json.loads(path.read_bytes())
            if values.pop(VERSION, None) == FORMAT:
                found.append(RunConfig.model_validate(values))
                own_images.know_from(path.parent)
        except ValueError:
            continue
    return found

"""Find the run that a name on the command line refers to: a run's name, its id or the beginning of its id."""

import json
from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, FedgridError, suggest_name
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.storage.hints import explain_missing_grid, format_command
from fedgrid.engine.runtime.storage.storage import OWN, Storage
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.manifest import CONFIG

SHORTEST_ID = 4
"""Least number of hexadecimal digits that are accepted as the beginning of an id.

With fewer, a short name of a run would often match an id by chance.
"""


def find_run(what: str, storage: Storage) -> tuple[RunConfig, Sequence[str]]:
    """Find the one run that `what` names, and the grids that contain it.

    Args:
        what: a run's name, its id, its folder or path, or the first digits of its id.
        storage: where grids and runs are looked up.

    Returns:
        The run's configuration and the names of its grids; no name if the run is in no grid.

    Raises:
        ConfigError: if there is none, or several; names them.
    """
    name = Path(what).name
    runs: dict[str, RunConfig] = {}
    grids: dict[str, list[str]] = {}
    for grid in list_grids(storage):
        for run in GridFolder(storage, grid).read_definition().all_runs:
            runs[run.run_id] = run
            grids.setdefault(run.run_id, []).append(grid)
    # Folders are read only if no grid has the run: that parses one file for each run of the storage, where a
    # grid is a single file.
    if not any(_is_named(run, name) for run in runs.values()):
        # A run of `fedgrid.run`, or of a grid that was deleted, is in no grid.
        runs |= {run.run_id: run for run in _read_stored_runs(storage) if run.run_id not in runs}
    matches = [run for run in runs.values() if _is_named(run, name)]
    if len(matches) == 1:
        return matches[0], grids.get(matches[0].run_id, ())
    if matches:
        several = ", ".join(run.run_id for run in matches)
        raise ConfigError(f"{len(matches)} runs are named '{what}': {several}; give one of these ids")
    grids_here = list_grids(storage)
    if not grids_here:
        raise ConfigError(explain_missing_grid(storage, what))
    near = suggest_name(what, [*grids_here, *dict.fromkeys(run.name for run in runs.values())])
    raise ConfigError(
        f"no grid or run '{what}' in {storage}; {near}grids: {', '.join(grids_here)}; "
        f"`{format_command(storage, 'show', 'GRID')}` lists its runs with their ids"
    )


def _is_named(run: RunConfig, name: str) -> bool:
    """Check whether `name` is the run's name, its folder's name or the beginning of its id."""
    is_id = len(name) >= SHORTEST_ID and run.run_id.startswith(name)
    return is_id or name in (run.name, f"{run.name}-{run.run_id}")


def _read_stored_runs(storage: Storage) -> list[RunConfig]:
    """Read the configurations of all run folders of a storage, also of runs that are in no grid.

    Folders of another format are skipped silently; a warning names each damaged one.
    """
    configs = []
    for path in sorted(storage.root.glob(f"*/{CONFIG}")):
        if not OWN.fullmatch(path.parent.name):
            continue
        try:
            values = json.loads(path.read_bytes())
            if values["format"] == FORMAT:
                del values["format"]
                configs.append(RunConfig.model_validate(values))
                # A run on the user's own images names only their digest. The folder says where the images
                # are.
                own_images.load_places(path.parent)
        except (OSError, ValueError, LookupError, TypeError, RecursionError, FedgridError) as error:
            warn(f"{path} is not read ({str(error).partition(chr(10))[0]}); its run is left out")
    return configs

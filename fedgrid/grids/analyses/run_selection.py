"""Selection of finished runs by a command line: a grid, or one run of it, and filters."""

from collections.abc import Sequence

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.run_lookup import find_run
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.runs import describe_configs, select_where
from fedgrid.tracking.scoring.run import Run


def split_finished(
    name: str, runs: Sequence[RunConfig], storage: Storage, verb: str
) -> tuple[list[RunConfig], list[str]]:
    """Divide the runs of a grid into those that are finished and the rest, with a warning about the rest.

    Args:
        name: The grid's name.
        runs: Its runs, or some of them.
        storage: Storage of the runs.
        verb: What the command does with finished runs, for the message.

    Returns:
        The finished runs, and the names of the others.

    Raises:
        ConfigError: No run is finished.
    """
    finished = [run for run in runs if is_finished(storage, run)]
    if not finished:
        raise ConfigError(
            f"none of the {len(runs)} runs of {name} is finished, so there is nothing to {verb}; "
            "`fedgrid run` continues the grid"
        )
    done = {run.run_id for run in finished}
    waiting = [run.name for run in runs if run.run_id not in done]
    if waiting:
        more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
        warn(
            f"{len(waiting)} of {len(runs)} runs {'is' if len(waiting) == 1 else 'are'} not finished, or "
            f"damaged, and left out: {', '.join(waiting[:3])}{more}; "
            f"`{format_command(storage, 'status', name)}` "
            "says more"
        )
    return finished, waiting


def find_runs(name: str, storage: Storage, filters: Sequence[str]) -> tuple[str, tuple[RunConfig, ...]]:
    """Find the grid that is called `name`, or that has the run of this name or id, and the runs to analyse.

    Returns:
        The grid's name, and its runs, or the one run, that meet the filters.

    Raises:
        ConfigError: There is neither, or a filter leaves no run.
    """
    # A name of both is the grid's: users choose the names of grids.
    if name in list_grids(storage):
        return name, _filter_runs(GridFolder(storage, name).read_runs(), filters, storage)
    run, grids = find_run(name, storage)
    if not grids:
        raise ConfigError(f"the run {name} is in no grid; launch one that has it")
    return grids[0], _filter_runs([run], filters, storage)


def _filter_runs(
    runs: Sequence[RunConfig], filters: Sequence[str], storage: Storage
) -> tuple[RunConfig, ...]:
    """Select the runs that meet all filters."""
    # All runs are described together, as their titles depend on what differs between them.
    left: Sequence[Run] = describe_configs(runs, storage) if filters else ()
    for text in filters:
        left = select_where(left, text)
        if not left:
            raise ConfigError(f"--where {text}: no run is left")
    ids = {run.run_id for run in left}
    return tuple(run for run in runs if run.run_id in ids) if filters else tuple(runs)

"""Make the keys of its storage that a driver's lease holds, by the command that it executes.

A run has two keys, so that one driver can use a finished run that stands among those that another one has
trained: its training belongs to one driver; the run itself is shared by all that train or use it, and held
exclusively only to delete it.
"""

from collections.abc import Iterable

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.driver import LeaseKeys
from fedgrid.grids.results.archive_models import is_archived

ARCHIVE = "the archive's runs"
"""Key of all runs that the archive contains."""


def make_launch_keys(
    runs: Iterable[RunConfig], todo: Iterable[RunConfig], *, cached: bool = False, fresh: bool = False
) -> LeaseKeys:
    """Make the keys of a launch.

    Args:
        runs: all runs of the grid, which the launch uses.
        todo: those that it trains.
        cached: whether it uses cached rounds of other runs; default False.
        fresh: whether it first deletes `todo`, and the cached rounds that these could use; default False.
    """
    todo = list(todo)
    rounds = {f"cached rounds of {run.shared_prefix}" for run in todo} if cached else set()
    deleted = _name_runs(todo) | rounds if fresh else set()
    # The first keys are exclusive, the second are shared with other drivers.
    return LeaseKeys(
        {f"the training of {name}" for name in _name_runs(todo)} | deleted, _name_runs(runs) | rounds
    )


def make_deletion_keys(runs: Iterable[RunConfig]) -> LeaseKeys:
    """Make the keys of a command that deletes the folders of these runs."""
    runs = list(runs)
    archived = {ARCHIVE} if any(is_archived(run) for run in runs) else set()
    return LeaseKeys(_name_runs(runs) | archived)


def make_result_keys(kind: str, runs: Iterable[RunConfig]) -> LeaseKeys:
    """Make the keys of a command that adds `kind`, such as explanations, to these finished runs."""
    names = _name_runs(runs)
    return LeaseKeys({f"the {kind} of {name}" for name in names}, names)


def make_import_keys(grid: str) -> LeaseKeys:
    """Make the keys of an import of the archive; `grid` is its second grid."""
    return LeaseKeys({ARCHIVE, f"the grid {grid}"})


def _name_runs(runs: Iterable[RunConfig]) -> set[str]:
    """Format the names under which keys, and the messages about them, mention runs."""
    return {f"{run.name} ({run.run_id})" for run in runs}

"""The keys of its storage that a driver holds, by the command that it executes.

A run has two keys, so that one driver can use a finished run that stands among those that another one has
trained: its training belongs to one driver; the run itself is shared by all that train or use it, and held
exclusively only to delete it.
"""

from collections.abc import Iterable

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.driver import Keys
from fedgrid.grids.results.archived import is_archived

ARCHIVE = "the archive's runs"


def make_launch_keys(
    runs: Iterable[RunConfig], todo: Iterable[RunConfig], *, cached: bool = False, fresh: bool = False
) -> Keys:
    """Return the keys of a launch that trains `todo`, of a grid's `runs`.

    `cached`: it uses cached rounds of other runs. `fresh`: it deletes `todo` first, and the cached rounds
    that these could use.
    """
    todo = list(todo)
    rounds = {f"cached rounds of {run.shared_prefix}" for run in todo} if cached else set()
    deleted = _name_runs(todo) | rounds if fresh else set()
    return Keys({f"the training of {name}" for name in _name_runs(todo)} | deleted, _name_runs(runs) | rounds)


def make_deletion_keys(runs: Iterable[RunConfig]) -> Keys:
    """Return the keys of a command that deletes the folders of these runs."""
    runs = list(runs)
    archived = {ARCHIVE} if any(is_archived(run) for run in runs) else set()
    return Keys(_name_runs(runs) | archived)


def make_result_keys(kind: str, runs: Iterable[RunConfig]) -> Keys:
    """Return the keys of a command that adds `kind`, such as explanations, to these finished runs."""
    names = _name_runs(runs)
    return Keys({f"the {kind} of {name}" for name in names}, names)


def make_import_keys(grid: str) -> Keys:
    """Return the keys of an import of the archive, beside its first grid: another `grid`."""
    return Keys({ARCHIVE, f"the grid {grid}"})


def _name_runs(runs: Iterable[RunConfig]) -> set[str]:
    return {f"{run.name} ({run.run_id})" for run in runs}

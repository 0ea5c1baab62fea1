"""What a driver claims of its storage, by the command that it executes."""

from collections.abc import Iterable, Mapping

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.driver import Claims
from fedgrid.engine.runtime.round_cache.files import FOLDER
from fedgrid.grids.results.archived import is_archived

ARCHIVE = {"archive": "the archive's runs"}


def launch_claims(
    runs: Iterable[RunConfig], todo: Iterable[RunConfig], *, cached: bool = False, fresh: bool = False
) -> Claims:
    """Return the claims of a launch that trains `todo`, of a grid's `runs`.

    `cached`: it uses cached rounds of other runs. `fresh`: it deletes `todo` first, and the cached rounds
    that these could use.
    """
    todo = list(todo)
    shared_prefixes = (
        {f"{FOLDER}/{run.shared_prefix}": f"cached rounds of {run.scenario}" for run in todo}
        if cached
        else {}
    )
    changes = _named(todo)
    return Claims(
        changes, {**_named(runs), **shared_prefixes}, {**changes, **shared_prefixes} if fresh else {}
    )


def deletion_claims(doomed: Iterable[RunConfig]) -> Claims:
    """Return the claims of a command that deletes the folders of these runs."""
    doomed = list(doomed)
    archived = ARCHIVE if any(is_archived(run) for run in doomed) else {}
    return Claims(deletes={**_named(doomed), **archived})


def result_claims(kind: str, runs: Iterable[RunConfig]) -> Claims:
    """Return the claims of a command that adds `kind`, such as explanations, to these finished runs."""
    named = _named(runs)
    return Claims({f"{kind} of {run_id}": f"the {kind} of {name}" for run_id, name in named.items()}, named)


def import_claims(grid: str) -> Claims:
    """Return the claims of an import of the archive, beside those on its first grid: on another `grid`."""
    return Claims(ARCHIVE).and_grid(grid)


def _named(runs: Iterable[RunConfig]) -> Mapping[str, str]:
    return {run.run_id: f"{run.name} ({run.run_id})" for run in runs}

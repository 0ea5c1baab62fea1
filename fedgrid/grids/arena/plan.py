"""The option `fedgrid arena --dry-run`: lists the runs that are left, and roughly how long they take."""

from collections.abc import Mapping
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.kept import KeptResults
from fedgrid.grids.arena.tuning import digest_of, searches
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.search.definition import Search
from fedgrid.grids.search.progress import SearchProgress
from fedgrid.grids.search.suggest import suggestions
from fedgrid.tracking.verdicts.outcomes import Protocol, RowOfArena


def plan_arena(arena: Arena, stored: KeptResults, launcher: Launcher) -> None:
    """Show the runs that are left; settings that no search has selected yet are replaced by drawn ones.

    Raises:
        ConfigError: The runs cannot be planned.
    """
    with launcher.options.steps(launcher.console) as steps:
        steps.say("Listing the runs")
        entries, searched, missing_searches = _runs_left(arena, stored, launcher.storage)
    outcomes, missing = stored.divide(entries)
    rows = {run.run_id: run for _, run in missing}
    if launcher.options.as_json or searched or rows:
        launcher.plan(Grid(arena.name, (*searched.values(), *rows.values()), ""))
    tuning = f"{missing_searches} searches x {arena.trials} trials: {len(searched)} runs"
    launcher.say(
        *(
            f"note: {note}"
            for note in (
                *arena.left_out,
                *stored.lost_by(arena.dataset_in_files, arena.seeds_used, arena.trials),
            )
        ),
        f"{arena.name}: {tuning}; {len(entries)} rows, {len(outcomes)} of them kept, {len(rows)} runs. "
        "Settings that are not found yet are stood in for by drawn ones: their runs will have other ids.",
    )


def _runs_left(
    arena: Arena, stored: KeptResults, storage: Storage
) -> tuple[list[tuple[RowOfArena, RunConfig]], dict[str, RunConfig], int]:
    """Build all rows, the runs by id of the searches that are missing, and count these searches."""
    storage.pull_marks()
    searched: dict[str, RunConfig] = {}
    params: dict[tuple[str, Protocol], Mapping[str, Any]] = {}
    missing_searches = 0
    dataset = arena.dataset_in_files
    for method, protocol, search in searches(arena):
        if search is None:
            params[method, protocol] = {}
            continue
        tuned = stored.settings((dataset, method, protocol, arena.trials), digest_of(search))
        if tuned is not None:
            params[method, protocol] = tuned.params
            continue
        missing_searches += 1
        runs, params[method, protocol] = _stand_ins(search, storage)
        searched |= {run.run_id: run for run in runs}
    return arena.entries(params), searched, missing_searches


def _stand_ins(search: Search, storage: Storage) -> tuple[list[RunConfig], Mapping[str, Any]]:
    """Build all runs of a search, its later trials drawn at random, and settings for the tuned rows."""
    progress = SearchProgress(search, storage)
    grid, _ = progress.replay()
    if progress.complete:
        trial = max(progress.trials, key=lambda tried: tried.value(search.objective) or 0.0)
        return list(grid.runs), trial.params
    # What Optuna will suggest depends on scores that do not exist yet; random settings take about as long.
    drawn = suggestions(search.space, "random", search.trials).ask(search.trials)
    planned = {run.run_id for run in grid.runs}
    later = [run for params in drawn for run in search.runs(params) if run.run_id not in planned]
    left = search.trials * len(search.base) - len(grid.runs)
    return [*grid.runs, *later[: max(0, left)]], drawn[0]

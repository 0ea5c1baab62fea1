"""The option `fedgrid arena --dry-run`: lists the runs that are left, and estimates their hours."""

from collections.abc import Mapping
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.stored_results import StoredResults
from fedgrid.grids.arena.tuning import build_searches, compute_search_digest
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.search.definition import Search
from fedgrid.grids.search.progress import SearchProgress
from fedgrid.grids.search.searchers import create_searcher
from fedgrid.tracking.verdicts.outcomes import ArenaRow, Protocol


def plan_arena(arena: Arena, stored: StoredResults, launcher: Launcher) -> None:
    """Show the runs that are left: those of searches, then those of the arena's rows.

    Settings that no search has selected yet are replaced by drawn ones, so the runs of such rows have other
    ids later.

    Raises:
        ConfigError: The runs cannot be planned.
    """
    with launcher.options.open_steps(launcher.console) as steps:
        steps.begin_step("Listing the runs")
        entries, searched, missing_searches = _list_remaining_runs(arena, stored, launcher.storage)
    outcomes, missing = stored.split_entries(entries)
    rows = {run.run_id: run for _, run in missing}
    if launcher.options.as_json or searched or rows:
        launcher.print_plan(Grid(arena.name, (*searched.values(), *rows.values()), ""))
    tuning = f"{missing_searches} searches x {arena.trials} trials: {len(searched)} runs"
    launcher.print_lines(
        *(
            f"note: {note}"
            for note in (
                *arena.exclusion_notes,
                *stored.explain_losses(arena.dataset_in_files, arena.judged_seeds, arena.trials),
            )
        ),
        f"{arena.name}: {tuning}; {len(entries)} rows, {len(outcomes)} of them kept, {len(rows)} runs. "
        "Settings that are not found yet are stood in for by drawn ones: their runs will have other ids.",
    )


def _list_remaining_runs(
    arena: Arena, stored: StoredResults, storage: Storage
) -> tuple[list[tuple[ArenaRow, RunConfig]], dict[str, RunConfig], int]:
    """Build all rows, the runs by id of the searches that are missing, and count these searches."""
    # At a URI: fetches which runs are finished.
    storage.pull_marks()
    searched: dict[str, RunConfig] = {}
    params: dict[tuple[str, Protocol], Mapping[str, Any]] = {}
    missing_searches = 0
    dataset = arena.dataset_in_files
    for method, protocol, search in build_searches(arena):
        if search is None:
            params[method, protocol] = {}
            continue
        tuned = stored.find_settings((dataset, method, protocol, arena.trials), compute_search_digest(search))
        if tuned is not None:
            params[method, protocol] = tuned.params
            continue
        missing_searches += 1
        runs, params[method, protocol] = _draw_stand_ins(search, storage)
        searched |= {run.run_id: run for run in runs}
    return arena.build_entries(params), searched, missing_searches


def _draw_stand_ins(search: Search, storage: Storage) -> tuple[list[RunConfig], Mapping[str, Any]]:
    """Build all runs of a search, later trials drawn at random, and settings that stand for the best ones.

    A search that is complete, though its results are not stored, has its best trial.
    """
    progress = SearchProgress(search, storage)
    grid, _ = progress.replay_trials()
    if progress.complete:
        trial = max(progress.trials, key=lambda trial: trial.rank_value(search.objective) or 0.0)
        return list(grid.runs), trial.params
    # What Optuna will suggest depends on scores that do not exist yet; random settings take about as long.
    drawn = create_searcher(search.space, "random", search.trials).suggest_params(search.trials)
    planned = {run.run_id for run in grid.runs}
    later = [run for params in drawn for run in search.build_runs(params) if run.run_id not in planned]
    left = search.trials * len(search.base) - len(grid.runs)
    # The settings only stand for others of the same cost; the first drawn ones will do.
    return [*grid.runs, *later[: max(0, left)]], drawn[0]

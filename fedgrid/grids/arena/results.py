"""The outcomes of an arena's rows whose runs are finished, or have diverged."""

from collections.abc import Sequence

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.integrity.made_with import parts_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.study import load
from fedgrid.tracking.verdicts.outcomes import Outcome, RowOfArena, has_diverged, outcome_of


def read_outcomes(
    grid: str, entries: Sequence[tuple[RowOfArena, RunConfig]], storage: Storage
) -> list[Outcome]:
    """Return the outcomes of the runs among these rows that are finished or have diverged."""
    if not entries:
        return []
    results = {run.run_id: run for run in load(grid, storage).runs if run.is_finished or has_diverged(run)}
    made = {
        run_id: dict(parts[-1].made_with)
        for run_id, result in results.items()
        if (parts := parts_of(result.folder))
    }
    return [
        outcome_of(row, results[run.run_id], made.get(run.run_id, {}), has_held_out=run.held_out > 0)
        for row, run in entries
        if run.run_id in results
    ]

"""The outcomes of an arena's rows whose runs are finished, or have diverged."""

from collections.abc import Mapping, Sequence

from fedgrid.engine.federation.configuration.held_out import num_held_out
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import NO_FINITE_UPDATE
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, parts_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.study import load
from fedgrid.tracking.scoring.run import FAILED, Run
from fedgrid.tracking.verdicts.outcomes import Outcome, RowOfArena, outcome_of, outcome_of_diverged


def read_outcomes(
    grid: str, entries: Sequence[tuple[RowOfArena, RunConfig]], storage: Storage
) -> list[Outcome]:
    """Return the outcomes of the runs among these rows that are finished or have diverged."""
    if not entries:
        return []
    results = {run.run_id: run for run in load(grid, storage).runs if run.is_finished or _has_diverged(run)}
    made = {
        run_id: dict(parts[-1].made_with)
        for run_id, result in results.items()
        if (parts := parts_of(result.folder / MADE_WITH))
    }
    return [
        _outcome(row, run, results[run.run_id], made.get(run.run_id, {}))
        for row, run in entries
        if run.run_id in results
    ]


def _has_diverged(run: Run) -> bool:
    return run.state == FAILED and NO_FINITE_UPDATE in run.cause


def _outcome(row: RowOfArena, config: RunConfig, run: Run, made_with: Mapping[str, str]) -> Outcome:
    if run.is_finished:
        return outcome_of(row, run, made_with)
    held_out = num_held_out(config.held_out, config.clients)
    return outcome_of_diverged(row, run, config.clients, held_out, made_with)

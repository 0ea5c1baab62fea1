"""The trials of a search so far: suggested settings, their runs, and the scores of those.

An interrupted search is replayed from the records of its runs; nothing else is stored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path, find_last_round
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.outcome import read_scores, select_unfinished
from fedgrid.grids.search.definition import Search
from fedgrid.grids.search.early_stop import END, Rung, compute_round, compute_share
from fedgrid.grids.search.objectives import Trial, compute_means, score_or_worst
from fedgrid.grids.search.searchers import BATCH, StoppedEarly, TrialResult, create_searcher
from fedgrid.grids.search.space import Params
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import score_rounds


@dataclass(frozen=True)
class _SuggestedTrial:
    """A suggested trial."""

    params: Params
    runs: tuple[RunConfig, ...]
    problem: str | None = None
    """Why there are no runs: the settings exclude one another."""


class SearchProgress:
    """The trials of a search so far, and the grids of runs that come next."""

    def __init__(self, search: Search, storage: Storage) -> None:
        self.trials: list[Trial] = []
        """Trials of the finished batches, in the order of the suggestions."""
        self.complete = False
        """Whether all trials are done."""
        self._search = search
        self._storage = storage
        self._runs: dict[str, RunConfig] = {}
        self._reach: dict[str, int] = {}
        """Run id -> the round up to which it may run so far."""

    def yield_grids(self) -> Iterator[Grid]:
        """Yield the search as a grid, grown by a batch, or with more rounds for the better half of a batch.

        Take the next grid once the runs of this one have reached the rounds that they may run.
        """
        search = self._search
        searcher = create_searcher(
            search.space, search.searcher, search.trials, search.compute_start_order_key
        )
        # All trials are suggested at once if early stopping compares all of them.
        needs_no_scores = search.searcher != "optuna" and not search.early_stop.in_batches
        size = search.trials if needs_no_scores else BATCH
        first: list[Params] = [{}] if search.defaults_first else []
        while suggested := [
            *first,
            *searcher.suggest_params(min(size, search.trials - len(self.trials)) - len(first)),
        ]:
            batch = [self._suggest_trial(params) for params in suggested]
            self._runs |= {run.run_id: run for one in batch for run in one.runs}
            stopped: dict[int, Rung] = {}
            going = list(range(len(batch)))
            for rung in search.early_stop.at:
                yield self._build_grid((batch[place] for place in going), rung)
                better = search.early_stop.select_better(self._compute_values(batch, going, rung))
                stopped |= dict.fromkeys(set(going) - set(better), rung)
                going = better
            yield self._build_grid((batch[place] for place in going), END)
            done = len(self.trials)
            number = done if search.defaults_first else done + 1
            self.trials += [
                self._build_trial(number + place, one, stopped.get(place)) for place, one in enumerate(batch)
            ]
            # In the order of the suggestions, not of the ends of runs: the next suggestions depend on it, and
            # a resumed search must make the same ones. The first trial, of the defaults, was not the
            # searcher's.
            searcher.report_results([self._to_result(trial) for trial in self.trials[done + len(first) :]])
            first = []
        self.complete = True

    def replay_trials(self) -> tuple[Grid, Iterator[Grid]]:
        """Find the first grid whose runs have not reached their rounds yet.

        Returns:
            That grid, and an iterator of the grids after it. If the search is complete, the last grid.
        """
        grids = self.yield_grids()
        grid = next(grids)
        while not select_unfinished(grid.runs, self._storage, grid.until):
            grown = next(grids, None)
            if grown is None:
                break
            grid = grown
        return grid, grids

    def _build_grid(self, going: Iterable[_SuggestedTrial], rung: Rung) -> Grid:
        """Build the grid with the runs of going trials up to a rung."""
        for run in (run for one in going for run in one.runs):
            # Two trials may have the same run; it goes as far as either needs.
            self._reach[run.run_id] = max(self._reach.get(run.run_id, 0), compute_round(run, rung))
        until = {
            run_id: number
            for run_id, number in self._reach.items()
            if number < self._runs[run_id].training.rounds
        }
        return self._search.build_grid(tuple(self._runs.values()), until)

    def _compute_values(
        self, batch: Sequence[_SuggestedTrial], going: Sequence[int], rung: Rung
    ) -> dict[int, float]:
        """Compute position -> value at a rung, of the trials that have not failed."""
        return {
            place: score_or_worst(self._compute_scores_at(batch[place].runs, rung), self._search.objective)
            for place in going
            if batch[place].runs and not self._find_failure(batch[place].runs, rung)
        }

    def _suggest_trial(self, params: Params) -> _SuggestedTrial:
        """Build the runs of suggested settings; settings that exclude one another are a failed trial."""
        try:
            return _SuggestedTrial(params, self._search.build_runs(params))
        except ConfigError as error:
            return _SuggestedTrial(params, (), str(error))

    def _build_trial(self, number: int, suggested: _SuggestedTrial, stopped_at: Rung | None) -> Trial:
        """Build a trial from the records of its runs."""
        runs = suggested.runs
        run_ids = tuple(run.run_id for run in runs)
        problem = suggested.problem or self._find_failure(runs, stopped_at or END)
        if problem is not None:
            return Trial(number, suggested.params, run_ids, None, problem)
        if stopped_at is not None:
            at_rung = self._compute_scores_at(runs, stopped_at)
            return Trial(number, suggested.params, run_ids, None, None, stopped_at, at_rung)
        root = self._storage.root
        scores = compute_means([read_scores(build_folder_path(root, run), run.run_id) for run in runs])
        return Trial(number, suggested.params, run_ids, scores)

    def _to_result(self, trial: Trial) -> TrialResult:
        """Convert a trial to the result that the searcher takes."""
        if trial.scores_there is not None and trial.stopped_at is not None:
            share = compute_share(self._search.base[0], trial.stopped_at)
            return StoppedEarly(score_or_worst(trial.scores_there, self._search.objective), share)
        return trial.rank_value(self._search.objective)

    def _find_failure(self, runs: Sequence[RunConfig], rung: Rung) -> str | None:
        """Describe why a trial failed, None if it did not.

        One failed run is enough: a mean over the others is another score.
        """
        until = {} if rung == END else {run.run_id: compute_round(run, rung) for run in runs}
        failed = select_unfinished(runs, self._storage, until)
        if not failed:
            return None
        failure = RunFolder(self._storage, failed[0]).read_failure()
        cause = failure.cause if failure else "it is not finished"
        return f"{len(failed)} of {len(runs)} runs failed; {failed[0].scenario}: {cause}"

    def _compute_scores_at(self, runs: Sequence[RunConfig], rung: Rung) -> dict[str, float | None]:
        """Compute the scores of a trial at a rung, even if more rounds of its runs are done.

        Raises:
            RunError: The records of a run are damaged.
        """
        # A resumed search may find more rounds than the comparison saw; it must decide by the same ones.
        scores_of_runs = []
        for run in runs:
            folder = build_folder_path(self._storage.root, run)
            self._storage.pull(folder.name, skip=("state-",))
            last = min(compute_round(run, rung), find_last_round(folder, run))
            try:
                scores_of_runs.append(dict(score_rounds(folder, last - 1))[last])
            except (RecordsError, KeyError) as error:
                problem = (
                    error if isinstance(error, RecordsError) else f"{folder} has no records of round {last}"
                )
                raise RunError(
                    f"{problem}; move {folder} away, and the same command runs it again"
                ) from error
        return compute_means(scores_of_runs)

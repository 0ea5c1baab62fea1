"""The trials of a search so far: suggested settings, their runs, and the scores of those.

An interrupted search is replayed from the records of its runs; nothing else is stored. Early stopping is
successive halving (Jamieson and Talwalkar 2016): the better half of a batch goes on, twice. The trials of a
batch wait for one another there. ASHA does not wait, so what it stops depends on which run is fast.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import RunFolder, folder_of
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.outcome import finished, unfinished
from fedgrid.grids.search.definition import RUNGS, Search, round_at
from fedgrid.grids.search.objectives import Trial, score, value
from fedgrid.grids.search.space import Params
from fedgrid.grids.search.suggest import BATCH, StoppedEarly, TrialResult, suggestions
from fedgrid.tracking.scoring.scores import of_rounds


@dataclass(frozen=True)
class _Suggested:
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
        self._reach: dict[str, float] = {}
        """Run id -> the share of its rounds that it may run so far."""

    def grids(self) -> Iterator[Grid]:
        """Yield the search as a grid, grown by a batch, or with more rounds for the better half of a batch.

        Ask for the next grid once the runs of this one have reached the rounds that they may run.
        """
        search = self._search
        searcher = suggestions(search.space, search.searcher, search.trials, search.start_order_key)
        while asked := searcher.ask(min(BATCH, self._search.trials - len(self.trials))):
            batch = [self._suggested(params) for params in asked]
            self._runs |= {run.run_id: run for one in batch for run in one.runs}
            stopped: dict[int, float] = {}
            going = list(range(len(batch)))
            for share in RUNGS if self._search.early_stop else ():
                yield self._grid((batch[place] for place in going), share)
                better = self._better_half(batch, going, share)
                stopped |= dict.fromkeys(set(going) - set(better), share)
                going = better
            yield self._grid((batch[place] for place in going), 1.0)
            done = len(self.trials)
            self.trials += [
                self._ended(done + 1 + place, one, stopped.get(place)) for place, one in enumerate(batch)
            ]
            searcher.tell([self._result(trial) for trial in self.trials[done:]])
        self.complete = True

    def replay(self) -> tuple[Grid, Iterator[Grid]]:
        """Return the first grid whose runs have not reached their rounds yet, and the grids after it.

        If there is no such grid, the search is complete.
        """
        grids = self.grids()
        grid = next(grids)
        while not unfinished(grid.runs, self._storage, grid.until):
            grown = next(grids, None)
            if grown is None:
                break
            grid = grown
        return grid, grids

    def _grid(self, going: Iterable[_Suggested], share: float) -> Grid:
        for run in (run for one in going for run in one.runs):
            self._reach[run.run_id] = max(self._reach.get(run.run_id, 0.0), share)
        until = {
            run_id: round_at(self._runs[run_id], share) for run_id, share in self._reach.items() if share < 1
        }
        return self._search.grid(tuple(self._runs.values()), until)

    def _better_half(self, batch: Sequence[_Suggested], going: Sequence[int], share: float) -> list[int]:
        """Return the positions of the trials that go on; ties go to the first. Failed trials do not count."""
        values = {}
        for place in going:
            one = batch[place]
            if one.runs and not self._failure(one.runs, share):
                values[place] = value(self._scores_at(one.runs, share), self._search.objective)
        ranked = sorted(values, key=lambda place: (-values[place], place))
        return sorted(ranked[: ceil(len(ranked) / 2)])

    def _suggested(self, params: Params) -> _Suggested:
        try:
            return _Suggested(params, self._search.runs(params))
        except ConfigError as error:
            return _Suggested(params, (), str(error))

    def _ended(self, number: int, suggested: _Suggested, stopped_at: float | None) -> Trial:
        runs = suggested.runs
        run_ids = tuple(run.run_id for run in runs)
        problem = suggested.problem or self._failure(runs, stopped_at or 1.0)
        if problem is not None:
            return Trial(number, suggested.params, run_ids, None, problem)
        if stopped_at is not None:
            there = self._scores_at(runs, stopped_at)
            return Trial(number, suggested.params, run_ids, None, None, stopped_at, there)
        outcomes = [finished(self._storage.root, run) for run in runs]
        return Trial(number, suggested.params, run_ids, score([outcome.scores or {} for outcome in outcomes]))

    def _result(self, trial: Trial) -> TrialResult:
        if trial.scores_there is not None and trial.stopped_at is not None:
            return StoppedEarly(value(trial.scores_there, self._search.objective), trial.stopped_at)
        return trial.value(self._search.objective)

    def _failure(self, runs: Sequence[RunConfig], share: float) -> str | None:
        """Return why a trial failed. One failed run is enough: a mean over the others is another score."""
        until = {run.run_id: round_at(run, share) for run in runs} if share < 1 else {}
        failed = unfinished(runs, self._storage, until)
        if not failed:
            return None
        failure = RunFolder(self._storage, failed[0]).failure()
        cause = failure.cause if failure else "it is not finished"
        return f"{len(failed)} of {len(runs)} runs failed; {failed[0].scenario}: {cause}"

    def _scores_at(self, runs: Sequence[RunConfig], share: float) -> dict[str, float | None]:
        """Return the scores of a trial after this share of its runs' rounds, even if more are done."""
        found = []
        for run in runs:
            folder = folder_of(self._storage.root, run)
            self._storage.pull(folder.name, skip=("state-", "figures/"))
            last = round_at(run, share)
            tested = {number: scores.as_dict() for number, scores in of_rounds(folder) if number <= last}
            found.append(tested[last])
        return score(found)

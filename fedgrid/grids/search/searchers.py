"""Which settings come next: Optuna's ask and tell, in batches, or all points of a grid.

Suggestions depend only on the space and on the scores reported so far, in the order of the trials: not on a
clock, nor on the order in which runs end. The same scores lead to the same suggestions, so that an
interrupted search needs nothing but its runs to resume.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from math import prod
from typing import Any, Literal, TypeAlias

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.search.space import Choices, Dimension, Params, Space, Value

Searcher: TypeAlias = Literal["optuna", "random", "grid"]
StartOrderKey: TypeAlias = Callable[[Params], tuple[float, ...]]
"""Settings -> the sort key of the algorithm with them (`algorithms.contract.base.Algorithm`)."""
SEARCHERS: tuple[Searcher, ...] = ("optuna", "random", "grid")
SEED = 0
BATCH = 8
"""Trials that are suggested before the next scores are reported. Results depend on it, so it is the same on
every machine. All runs of a batch may go at once."""


@dataclass(frozen=True)
class StoppedEarly:
    """The result of a trial that was stopped early."""

    score: float
    share: float
    """Share of the rounds at which it was stopped."""


TrialResult: TypeAlias = float | StoppedEarly | None
"""Score of a trial; None if it failed."""


def create_searcher(
    space: Space, searcher: Searcher, trials: int, start_order_key: StartOrderKey = lambda params: ()
) -> "GridPoints | OptunaSampler":
    """Create a searcher.

    A grid's points come in the order of `start_order_key`, so that more rounds are cache hits.

    Args:
        space: The space.
        searcher: Name of the searcher.
        trials: Most trials that it will be used for.
        start_order_key: Sort key of settings; by default all are equal.

    Raises:
        ConfigError: A grid has more points than trials.
    """
    return (
        GridPoints(space, trials, start_order_key) if searcher == "grid" else OptunaSampler(space, searcher)
    )


class GridPoints:
    """All combinations of values by start order key; for equal keys the last setting varies fastest."""

    def __init__(self, space: Space, trials: int, start_order_key: StartOrderKey) -> None:
        levels = list_grid_levels(space, trials)
        points = (dict(zip(levels, values, strict=True)) for values in product(*levels.values()))
        self._points = iter(sorted(points, key=start_order_key))

    def suggest_params(self, number: int) -> list[Params]:
        """List the next points."""
        return list(islice(self._points, number))

    def report_results(self, results: Sequence[TrialResult]) -> None:
        """Do nothing: a grid does not depend on scores."""


class OptunaSampler:
    """Random points, or after ten of these the tree-structured Parzen estimator (Bergstra 2011)."""

    def __init__(self, space: Space, searcher: Searcher) -> None:
        # Importing it takes half a second, which other commands save.
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler: Any = (
            optuna.samplers.RandomSampler(seed=SEED)
            if searcher == "random"
            # `constant_liar` penalises pending trials, so that a batch spreads out.
            else optuna.samplers.TPESampler(seed=SEED, multivariate=True, constant_liar=True)
        )
        # In memory only: a resumed search reports all results again, in the same order.
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._states = optuna.trial.TrialState
        self._space = space
        self._distributions = {key: _convert_dimension(dimension) for key, dimension in space.items()}
        self._pending_trials: list[Any] = []

    def suggest_params(self, number: int) -> list[Params]:
        """Draw the settings that the sampler suggests."""
        self._pending_trials = [self._study.ask(self._distributions) for _ in range(number)]
        return [
            {key: _convert_value(dimension, trial.params[key]) for key, dimension in self._space.items()}
            for trial in self._pending_trials
        ]

    def report_results(self, results: Sequence[TrialResult]) -> None:
        """Report the results. The sampler ranks a stopped trial behind those that got farther."""
        for trial, outcome in zip(self._pending_trials, results, strict=True):
            if isinstance(outcome, StoppedEarly):
                # Optuna compares stopped trials by their last step first; a share makes runs of different
                # lengths comparable.
                trial.report(outcome.score, step=round(100 * outcome.share))
                self._study.tell(trial, state=self._states.PRUNED)
            elif outcome is None:
                self._study.tell(trial, state=self._states.FAIL)
            else:
                self._study.tell(trial, outcome)


def list_grid_levels(space: Space, trials: int) -> dict[str, list[Value]]:
    """List the values of each setting in a grid.

    A list, and a range with a step, have all their values; other ranges as many as fit into the trials.

    Raises:
        ConfigError: There are too many points even with only the two ends of each range.
    """
    levels = {
        key: list(dimension.values) if isinstance(dimension, Choices) else dimension.list_steps()
        for key, dimension in space.items()
    }
    points = prod(len(values) for values in levels.values() if values)
    open_ended = sum(values is None for values in levels.values())
    least = points * 2**open_ended
    if least > trials:
        raise ConfigError(
            f"a grid of {', '.join(space)} has {least} points or more, and this search {trials} trials: use "
            f"--trials {least}, or write a file with fewer values"
        )
    most = next(more - 1 for more in count(3) if points * more**open_ended > trials) if open_ended else 0
    return {
        key: levels[key] or ([] if isinstance(dimension, Choices) else dimension.space_evenly(most))
        for key, dimension in space.items()
    }


def _convert_value(dimension: Dimension, value: Any) -> Value:
    """Convert Optuna's value of a setting, which may be a position."""
    if isinstance(dimension, Choices):
        return dimension.values[int(value)]
    steps = dimension.list_steps()
    return dimension.round_value(value) if steps is None else steps[int(value)]


def _convert_dimension(dimension: Dimension) -> Any:
    """Convert a dimension to Optuna's distribution."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(dimension, Choices):
        # By position: to Optuna 1, 1.0 and true are the same choice.
        return CategoricalDistribution(range(len(dimension.values)))
    if (steps := dimension.list_steps()) is not None:
        # By position: Optuna would shorten a range that is not a multiple of its step, and warn.
        return IntDistribution(0, len(steps) - 1)
    if dimension.is_integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)

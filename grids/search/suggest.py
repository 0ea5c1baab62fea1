"""Which settings to try next: Optuna's ask and tell, in batches; or all points of a grid.

What is suggested depends on the space and on the scores told so far, in the order of the trials, and on
nothing else: no clock, no order in which runs end. So the same scores lead to the same suggestions, and a
search that was interrupted need not keep more than its runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from math import prod
from typing import Any, Literal, Protocol, TypeAlias

from fedgrid.engine.errors import ConfigError
from fedgrid.grids.search.space import Choices, Dimension, Params, Range, Space, Value

Searcher: TypeAlias = Literal["optuna", "random", "grid"]
Patience: TypeAlias = Callable[[Params], tuple[float, ...]]
"""Settings -> how late the algorithm acts with them (`algorithms.contract.base.Algorithm.patience`)."""
SEARCHERS: tuple[Searcher, ...] = ("optuna", "random", "grid")
SEED = 0
BATCH = 8
"""Trials that are suggested before the next scores are looked at. The same on every machine, as results
would depend on it; a trial's runs all go at once, too."""


@dataclass(frozen=True)
class Stopped:
    """What is known of a trial that was stopped early."""

    score: float
    share: float
    """Of the rounds."""


Told: TypeAlias = float | Stopped | None
"""What came of a trial; None: it failed."""


class Suggestions(Protocol):
    """Says what to try."""

    def ask(self, number: int) -> list[Params]:
        """Return the settings of the next trials, at most `number`."""

    def tell(self, told: Sequence[Told]) -> None:
        """Take what came of all that was asked for last, in that order."""


def suggestions(
    space: Space, searcher: Searcher, trials: int, start_order_key: Patience = lambda params: ()
) -> Suggestions:
    """Return a searcher of which at most so many trials will be asked.

    A grid does not learn: its points come in the order of `start_order_key`, which saves rounds
    (`grids.planning.start_order`).

    Raises:
        ConfigError: if a grid does not fit into them.
    """
    return (
        GridPoints(space, trials, start_order_key) if searcher == "grid" else OptunaSampler(space, searcher)
    )


class GridPoints:
    """Every combination; those first that act first, and of equal ones the last setting varies fastest."""

    def __init__(self, space: Space, trials: int, start_order_key: Patience) -> None:
        levels = grid_levels(space, trials)
        points = (dict(zip(levels, values, strict=True)) for values in product(*levels.values()))
        self._points = iter(sorted(points, key=start_order_key))

    def ask(self, number: int) -> list[Params]:
        """Return the next points."""
        return list(islice(self._points, number))

    def tell(self, told: Sequence[Told]) -> None:
        """Nothing: a grid does not learn."""


class OptunaSampler:
    """Random points, or after the first ten those of the tree-structured Parzen estimator (Bergstra 2011)."""

    def __init__(self, space: Space, searcher: Searcher) -> None:
        # Half a second that other commands need not spend.
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler: Any = (
            optuna.samplers.RandomSampler(seed=SEED)
            if searcher == "random"
            # The liar takes what is asked for and not told yet for bad, so that a batch spreads out.
            else optuna.samplers.TPESampler(seed=SEED, multivariate=True, constant_liar=True)
        )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._states = optuna.trial.TrialState
        self._space = space
        self._distributions = {key: _distribution(dimension) for key, dimension in space.items()}
        self._asked: list[Any] = []

    def ask(self, number: int) -> list[Params]:
        """Return what the sampler suggests."""
        self._asked = [self._study.ask(self._distributions) for _ in range(number)]
        return [
            {key: _said(dimension, trial.params[key]) for key, dimension in self._space.items()}
            for trial in self._asked
        ]

    def tell(self, told: Sequence[Told]) -> None:
        """Tell the sampler, which ranks trials that were stopped behind those that came farther."""
        for trial, outcome in zip(self._asked, told, strict=True):
            if isinstance(outcome, Stopped):
                trial.report(outcome.score, step=round(100 * outcome.share))
                self._study.tell(trial, state=self._states.PRUNED)
            elif outcome is None:
                self._study.tell(trial, state=self._states.FAIL)
            else:
                self._study.tell(trial, outcome)


def grid_levels(space: Space, trials: int) -> dict[str, list[Value]]:
    """Return the values of each setting: all of a list or of a range with a step, of the others as many
    as fit into so many trials.

    Raises:
        ConfigError: if not even the two ends of each do.
    """
    known = {key: _all_values(dimension) for key, dimension in space.items()}
    points = prod(len(values) for values in known.values() if values)
    open_ended = sum(values is None for values in known.values())
    least = points * 2**open_ended
    if least > trials:
        raise ConfigError(
            f"a grid of {', '.join(space)} has {least} points or more, and this search {trials} trials: ask "
            f"for --trials {least}, or write a file with fewer values"
        )
    most = next(more - 1 for more in count(3) if points * more**open_ended > trials) if open_ended else 0
    return {key: known[key] or _spread(dimension, most) for key, dimension in space.items()}


def _spread(dimension: Dimension, number: int) -> list[Value]:
    assert isinstance(dimension, Range), "choices are all known"
    return dimension.spread(number)


def _all_values(dimension: Dimension) -> list[Value] | None:
    return list(dimension.values) if isinstance(dimension, Choices) else dimension.steps()


def _said(dimension: Dimension, value: Any) -> Value:
    """Return the value of a setting that Optuna's value stands for."""
    if isinstance(dimension, Choices):
        return dimension.values[int(value)]
    steps = dimension.steps()
    return dimension.rounded(value) if steps is None else steps[int(value)]


def _distribution(dimension: Dimension) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(dimension, Choices):
        # By position: Optuna takes 1 and 1.0 and true for the same choice.
        return CategoricalDistribution(range(len(dimension.values)))
    if (steps := dimension.steps()) is not None:
        # By position: Optuna would shorten a range that is no multiple of its step, and warn.
        return IntDistribution(0, len(steps) - 1)
    if dimension.whole:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)

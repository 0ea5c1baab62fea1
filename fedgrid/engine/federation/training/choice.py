"""How a client chooses among models: by their loss or accuracy on images of one kind."""

from collections.abc import Callable, Sequence
from math import inf, isnan

from fedgrid.algorithms.contract.orders import ChooseBy
from fedgrid.engine.federation.training.confusion import Counts


def best(candidates: Sequence[int], test: Callable[[int], Counts], by: ChooseBy) -> int:
    """Return the candidate with the least loss, or the highest accuracy; ties go to the first.

    A loss that is NaN counts as infinite.
    """
    penalties = {candidate: _penalty(test(candidate), by) for candidate in candidates}
    return min(candidates, key=penalties.__getitem__)


def _penalty(counts: Counts, by: ChooseBy) -> float:
    if by == "accuracy":
        return -float(counts.confusion.trace())
    return inf if isnan(counts.loss_sum) else counts.loss_sum

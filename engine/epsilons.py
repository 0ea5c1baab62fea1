"""Epsilons for Sattler's test from a training without clients: rules of thumb, to start a search from.

Source: Sattler, Mueller, Samek 2021: epsilon_1 is about a tenth of the largest norm of a round's mean update,
epsilon_2 one to ten times epsilon_1. Here a centralised epoch stands for the round, as with the OCFL authors,
whose Table 4 has a factor of about five for three data sets. They took differences of L1 norms, though, which
have nothing to do with the test's Euclidean norms.

Shapes: E epochs, R rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgrid.engine.errors import RunError

EPSILON_1_SHARE = 0.1
"""Of the largest norm."""
EPSILON_2_FACTOR, EPSILON_2_MOST = 5, 10
"""Times epsilon_1."""
SETTLED = 0.02
"""Share of the loss's whole decrease that may be left at the epoch of convergence, as in a settling time."""


@dataclass(frozen=True)
class Proposal:
    """Settings of `sattler`, epsilons to three digits."""

    epsilon_1: float
    epsilon_2: float
    epsilon_2_range: tuple[float, float]
    """What the rule of thumb allows."""
    cooldown: int
    """The epoch of convergence."""
    largest_norm: float
    largest_norm_epoch: int
    is_settled: bool
    """Whether the loss converged before the last epoch; else a longer training gives a longer cooldown."""

    @property
    def settings(self) -> dict[str, float | int]:
        """As the algorithm takes them."""
        return {"epsilon_1": self.epsilon_1, "epsilon_2": self.epsilon_2, "cooldown": self.cooldown}

    def reach(self, mean_norm_R: Sequence[float], max_norm_R: Sequence[float]) -> float | None:
        """Return what an epsilon_2 must be below, for a federation with these norms to split at all.

        That is the largest norm of a client in the rounds after the cooldown in which the norm of the mean
        update is below epsilon_1; None if there is no such round. All before any split.
        """
        rounds = self._stalled(mean_norm_R)
        return max((max_norm_R[number - 1] for number in rounds), default=None)

    def first_split(self, mean_norm_R: Sequence[float], max_norm_R: Sequence[float]) -> int | None:
        """Return the round, from 1, in which a federation with these norms splits first; None: in none."""
        rounds = self._stalled(mean_norm_R)
        return next((number for number in rounds if max_norm_R[number - 1] > self.epsilon_2), None)

    def _stalled(self, mean_norm_R: Sequence[float]) -> list[int]:
        numbered = enumerate(mean_norm_R, start=1)
        return [number for number, norm in numbered if number > self.cooldown and norm < self.epsilon_1]


def propose(update_norm_E: Sequence[float], loss_E: Sequence[float]) -> Proposal:
    """Return what the rules of thumb make of the Euclidean norm of each epoch's update, and of its loss.

    Raises:
        RunError: if the loss never falls.
    """
    largest = int(np.argmax(update_norm_E))
    epsilon_1 = EPSILON_1_SHARE * update_norm_E[largest]
    cooldown = convergence(loss_E)
    return Proposal(
        epsilon_1=_rounded(epsilon_1),
        epsilon_2=_rounded(EPSILON_2_FACTOR * epsilon_1),
        epsilon_2_range=(_rounded(epsilon_1), _rounded(EPSILON_2_MOST * epsilon_1)),
        cooldown=cooldown,
        largest_norm=float(update_norm_E[largest]),
        largest_norm_epoch=largest + 1,
        is_settled=cooldown < len(loss_E),
    )


def convergence(loss_E: Sequence[float]) -> int:
    """Return the first epoch, from 1, after which the loss falls by at most `SETTLED` of its whole decrease.

    The decrease is from the first epoch's to the least loss; what falls after an epoch, to the least of all
    later ones. So a spike counts for nothing, and it depends on how long the training goes on.

    Raises:
        RunError: if the loss is never below that of the first epoch.
    """
    losses_E = np.asarray(loss_E, np.float64)
    decrease = losses_E[0] - losses_E.min()
    if not decrease > 0:
        raise RunError(
            f"the loss, {losses_E[0]:.4g} in the first of {len(losses_E)} epochs, is never lower: there is "
            "nothing to propose; choose another training.learning_rate or more --epochs"
        )
    least_from_E = np.minimum.accumulate(losses_E[::-1])[::-1]
    return int(np.argmax(losses_E - least_from_E <= SETTLED * decrease)) + 1


def _rounded(epsilon: float) -> float:
    return float(f"{epsilon:.3g}")

"""Epsilons as numbers for Sattler's test, from centralised training: rules of thumb, to start a search from.

By default `sattler` takes shares of the run's own norms instead, and needs none of this.

Source: Sattler, Mueller, Samek 2021: epsilon_1 is about a tenth of the largest norm of a round's mean update,
epsilon_2 one to ten times epsilon_1. Here a centralised epoch takes the place of a round. The OCFL authors do
the same, and their Table 4 has a factor of about five for three data sets; but they use differences of L1
norms, which are unrelated to the Euclidean norms of the test.

Shapes: E epochs, R rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedgrid.engine.federation.errors import RunError

EPSILON_1_SHARE = 0.1
"""epsilon_1 as a share of the largest norm of an epoch's update."""
EPSILON_2_FACTOR, EPSILON_2_MOST = 5, 10
"""epsilon_2 as a multiple of epsilon_1: the proposed one, and the largest of the rule."""
SETTLED_SHARE = 0.02
"""Share of the loss's total decrease that may remain after the epoch of convergence (a settling time)."""
ROUNDING_SHARE = 1e-6
"""Share of the loss that two sums of the same losses in float32 differ by, if their order differs."""


@dataclass(frozen=True)
class Proposal:
    """Proposed settings of `sattler`, with epsilons of three digits; it is stored as JSON."""

    epsilon_1: float
    epsilon_2: float
    epsilon_2_range: tuple[float, float]
    """Least and largest epsilon_2 of the rule of thumb."""
    cooldown: int
    """Epoch of convergence, from 1."""
    largest_norm: float
    largest_norm_epoch: int
    is_settled: bool
    """Whether the loss converged before the last epoch; if not, longer training gives a longer cooldown."""

    @property
    def settings(self) -> dict[str, Any]:
        """Proposed settings by name."""
        return {"epsilon_1": self.epsilon_1, "epsilon_2": self.epsilon_2, "cooldown": self.cooldown}


def propose_settings(update_norm_E: Sequence[float], loss_E: Sequence[float]) -> Proposal:
    """Apply the rules of thumb to the Euclidean norm of each epoch's update and to its loss.

    Raises:
        RunError: the loss never falls.
    """
    largest = int(np.argmax(update_norm_E))
    epsilon_1 = EPSILON_1_SHARE * update_norm_E[largest]
    cooldown = find_convergence(loss_E)
    return Proposal(
        epsilon_1=_round_epsilon(epsilon_1),
        epsilon_2=_round_epsilon(EPSILON_2_FACTOR * epsilon_1),
        epsilon_2_range=(_round_epsilon(epsilon_1), _round_epsilon(EPSILON_2_MOST * epsilon_1)),
        cooldown=cooldown,
        largest_norm=float(update_norm_E[largest]),
        largest_norm_epoch=largest + 1,
        is_settled=cooldown < len(loss_E),
    )


def find_convergence(loss_E: Sequence[float]) -> int:
    """Find the first epoch, from 1, after which the loss falls by at most `SETTLED_SHARE` of its total
    decrease.

    The total decrease is from the loss of the first epoch to the smallest loss. The decrease after an epoch
    is to the smallest later loss, so single spikes have no effect. The result depends on the number of
    epochs.

    Raises:
        RunError: the loss is never below that of the first epoch.
    """
    losses_E = np.asarray(loss_E, np.float64)
    decrease = losses_E[0] - losses_E.min()
    # Written so that NaN is refused too.
    if not decrease > ROUNDING_SHARE * losses_E[0]:
        raise RunError(
            f"the loss, {losses_E[0]:.4g} in the first of {len(losses_E)} epochs, never falls below that, so "
            "no settings can be proposed; choose another training.learning_rate or more training.rounds"
        )
    # The smallest loss from each epoch on: a cumulative minimum from the end.
    least_from_E = np.minimum.accumulate(losses_E[::-1])[::-1]
    return int(np.argmax(losses_E - least_from_E <= SETTLED_SHARE * decrease)) + 1


def _round_epsilon(epsilon: float) -> float:
    """Round an epsilon to three digits: more would suggest a precision that a rule of thumb does not have."""
    return float(f"{epsilon:.3g}")

"""FedProx: local training is pulled back to the model that it started from.

Source: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, arXiv:1812.06127, Algorithm
2: the local objective gains (mu / 2) |w - w_t|^2. Deviation: a fixed number of local epochs for all, no
gamma-inexact solutions.

Shapes: W entries of a state vector that are parameters.
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalModel, LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Order, Presence
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings

if TYPE_CHECKING:
    from torch import Tensor


class FedProxSettings(FedOptSettings):
    """The defaults of FedOpt, and the pull."""

    mu: Annotated[float, Field(ge=0)] = 0.01
    """mu in the paper, which searches {0.001, 0.01, 0.1, 1}; 0 is FedAvg."""


class ProximalRule(LocalRule):
    """Adds mu (w - w_t) to the gradient."""

    mu: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Return the hook that corrects the gradient."""
        return _Pull(self.mu, local.start)


class _Pull(LocalSteps):
    def __init__(self, mu: float, start: "Tensor") -> None:
        self._mu, self._start = mu, start

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        gradient.add_(weights - self._start, alpha=self._mu)


class FedProx(FedOpt):
    """FedOpt whose clients train by `ProximalRule`."""

    settings: FedProxSettings

    def start_order_key(self) -> tuple[float, ...]:
        """From round 1 on, unless mu is 0."""
        return (1.0 if self.settings.mu else inf,)

    def orders(
        self, state: State, round_index: int, present: Presence, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client its cluster's model and the rule."""
        rule = ProximalRule(mu=self.settings.mu) if self.settings.mu else PLAIN
        return [Order(client, (int(state.labels_K[client]),), rule=rule) for client in present.sampled]

"""SCAFFOLD: control variates take the clients' drift out of local training.

Source: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
arXiv:1910.06378, Algorithm 1 with option II. A client steps along g - c_i + c. Its next variate is
c_i - c + (x - y_i) / (steps x learning rate), which for plain SGD is the mean of the gradients g along its
path. Computed as that mean here, so that it stays right with momentum or Adam, where the quotient does not.
Deviations: BatchNorm's buffers have no variate; with weights and partial participation the server's variate
moves by the share of clients, not of weights.

Shapes: W entries of a state vector that are parameters, N clients of the federation, S that took part.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedgrid.algorithms.averaging.fedopt import FedOpt, OwnRuleSettings
from fedgrid.algorithms.contract.base import Conditions, Fresh, State, Traits
from fedgrid.algorithms.contract.local_method import own_sums_problem
from fedgrid.algorithms.contract.local_rule import Finished, LocalModel, LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Order, Presence
from fedgrid.algorithms.updates.source import Layout
from fedgrid.algorithms.updates.updates import Updates

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{karimireddy2020scaffold,
  author = {Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank J. and
    Stich, Sebastian U. and Suresh, Ananda Theertha},
  title = {{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2020},
  eprint = {1910.06378},
  archiveprefix = {arXiv}
}"""

VARIATE = "variate"
"""The server's c in the state and in orders; the client's c_i in its memory. Float32, shape (W,)."""
CHANGE = "variate_change"
"""A reply's new c_i minus the old one, float32, shape (W,)."""


class ScaffoldSettings(OwnRuleSettings):
    """The defaults of FedOpt; `server_learning_rate` is eta_g."""


class ScaffoldRule(LocalRule):
    """Adds c - c_i to the gradient, and returns the change of c_i."""

    outputs: ClassVar[tuple[str, ...]] = (CHANGE,)
    remembers: ClassVar[tuple[str, ...]] = (VARIATE,)

    def start(self, local: LocalModel) -> LocalSteps:
        """Return the hooks; a client that has no variate yet starts from zero."""
        return _ControlledSteps(local)


class _ControlledSteps(LocalSteps):
    def __init__(self, local: LocalModel) -> None:
        server = local.tensor(local.payload[VARIATE])
        self._own = local.tensor(local.memory[VARIATE]) if VARIATE in local.memory else server.new_zeros(())
        self._correction = server - self._own
        self._sum = server.new_zeros(server.shape)

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        self._sum += gradient
        gradient += self._correction

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        mean = self._sum / max(1, num_steps) if num_steps else self._own.expand_as(self._sum)
        return Finished({CHANGE: local.vector(mean - self._own)}, {VARIATE: local.vector(mean)})


class Scaffold(FedOpt):
    """FedOpt with control variates. It needs several local steps to be worth its bytes.

    Sends: Twice what FedAvg does, in both directions: a variate beside the model, its change beside the
    update.

    Degenerate cases:

    - A client that drops out keeps its old variate.

    Memory: The server's variate in the array `variate`, shape (W,); each client keeps its own.
    """

    settings: ScaffoldSettings

    @property
    def traits(self) -> Traits:
        """The server's variate is a mean of the clients' variates, not of updates."""
        return replace(super().traits, averages_updates=False)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse another aggregator than the mean: the server's variate is a sum of its own."""
        return own_sums_problem("scaffold", self.settings.aggregate) or super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Return FedOpt's state and a variate of zero."""
        state = super().init(layout, num_clients, fresh, rng)
        return state.keep(**{VARIATE: np.zeros(layout.num_parameters, np.float32)})

    def orders(
        self, state: State, round_index: int, present: Presence, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client the model, the rule and the server's variate."""
        payload = {VARIATE: state.arrays[VARIATE]}
        return [
            Order(client, (int(state.labels_K[client]),), rule=ScaffoldRule(), payload=payload)
            for client in present.sampled
        ]

    def aggregate(self, state: State, updates: Updates, rng: np.random.Generator) -> State:
        """Average the updates, and move the variate: c <- c + (S / N) mean(c_i+ - c_i)."""
        [change_W] = updates.means([updates.clients], output=CHANGE)
        share = np.float32(len(updates.clients) / len(state.labels_K))
        state = state.keep(**{VARIATE: state.arrays[VARIATE] + share * change_W})
        return super().aggregate(state, updates, rng)

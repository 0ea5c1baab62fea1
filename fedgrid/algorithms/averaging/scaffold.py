"""SCAFFOLD: control variates take the clients' drift out of local training.

Source: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
arXiv:1910.06378, Algorithm 1 with option II. A client steps along g - c_i + c. Its next variate is
c_i - c + (x - y_i) / (steps x learning rate), which for plain SGD is the mean of the gradients g along its
path. Computed as that mean here, so that it stays right with momentum or Adam, where the quotient does not.
Deviations: BatchNorm's buffers have no variate; with weights and partial participation the server's variate
moves by the share of clients, not of weights. That under a partition a cluster's variate is the mean of its
members' own (`ControlledTraining`) is ours.

Shapes: W entries of a state vector that are parameters, N clients of the federation, S that took part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.averaging.fedopt import FedOpt, OwnRuleSettings
from fedgrid.algorithms.contract.base import Fresh, State, Traits
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import LocalMethod, explain_own_sums
from fedgrid.algorithms.contract.local_rule import Finished, LocalModel, LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Order, Payload, Presence
from fedgrid.algorithms.updates.source import Layout, Rng, Vector
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
"""Name of the server's c in the state and in orders, and of the client's c_i in its memory; float32, shape
(W,)."""
CHANGE = "variate_change"
"""Name of a reply's new c_i minus the old one, float32, shape (W,)."""
VARIATES, WEIGHTS = "variates", "variate_weights"
"""Arrays of the state under any partition: each client's variate, and the weight of its last reply."""


class ScaffoldSettings(OwnRuleSettings):
    """Settings of SCAFFOLD: those of FedOpt; `server_learning_rate` is eta_g."""


class ScaffoldRule(LocalRule):
    """Local rule that adds c - c_i to the gradient, and returns the change of c_i."""

    outputs: ClassVar[tuple[str, ...]] = (CHANGE,)
    remembers: ClassVar[tuple[str, ...]] = (VARIATE,)

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks; a client that has no variate yet starts from zero."""
        return _ControlledSteps(local)


class _ControlledSteps(LocalSteps):
    """Hooks of one training: the correction, and the sum of gradients for the new variate."""

    def __init__(self, local: LocalModel) -> None:
        # A scalar zero stands for a variate of zeros, which broadcasts.
        server = local.tensor(local.payload[VARIATE])
        self._own = local.tensor(local.memory[VARIATE]) if VARIATE in local.memory else server.new_zeros(())
        self._correction = server - self._own
        self._sum = server.new_zeros(server.shape)

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Sum up the gradient as it is, then correct it."""
        self._sum += gradient
        gradient += self._correction

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        # Not the quotient of option II, which is this mean for plain SGD only.
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
        """Facts about the algorithm; the server's variate is a mean of variates, not of updates."""
        return replace(super().traits, averages_updates=False)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse another aggregator than the mean: the server's variate is a sum of its own."""
        return explain_own_sums("scaffold", self.settings.aggregate) or super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build FedOpt's state and a variate of zero."""
        state = super().init(layout, num_clients, fresh, rng)
        return state.keep(**{VARIATE: np.zeros(layout.num_parameters, np.float32)})

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client the model, the rule and the server's variate."""
        payload = {VARIATE: state.arrays[VARIATE]}
        return [
            Order(client, (int(state.labels_K[client]),), rule=ScaffoldRule(), payload=payload)
            for client in present.sampled
        ]

    def aggregate(self, state: State, updates: Updates, rng: Rng) -> State:
        """Average the updates, and move the variate: c <- c + (S / N) mean(c_i+ - c_i)."""
        [change_W] = updates.means([updates.clients], output=CHANGE)
        # Clients that are held out of the federation never reply: N counts the others.
        share = np.float32(len(updates.clients) / (len(state.labels_K) - len(updates.held_out)))
        state = state.keep(**{VARIATE: state.arrays[VARIATE] + share * change_W})
        return super().aggregate(state, updates, rng)


class ControlledTraining(LocalMethod):
    """Control variates within each cluster: `local: {name: scaffold}`.

    A cluster's variate is the mean of its members' own, so that the corrections of a cluster cancel out also
    right after a split; with the parent's they would pull every model back to the parent's optimum. The
    server therefore sums up each client's changes. Refused where clients choose their model or start from
    another one: IFCA, FLIS, communities.

    Memory: `variates` (float32, shape (N, W)), and `variate_weights` (float64, shape (N,)), the weight of
    each client's last reply, 0 before its first.
    """

    name: Literal["scaffold"] = "scaffold"

    def rule(self) -> LocalRule:
        """Build the rule of `scaffold`."""
        return ScaffoldRule()

    def init(self, layout: Layout, num_clients: int) -> Mapping[str, NDArray[Any]]:
        """Build variates of zero."""
        zeros = np.zeros((num_clients, layout.num_parameters), np.float32)
        return {VARIATES: zeros, WEIGHTS: np.zeros(num_clients)}

    def payloads(self, state: State) -> Sequence[Payload]:
        """Compute each cluster's variate; a member that has not replied yet counts as a zero."""
        return [{VARIATE: _compute_cluster_variate(state, cluster)} for cluster in range(len(state.models))]

    def learn(self, state: State, updates: Updates) -> State:
        """Add each reply's change to its client's variate."""
        variates_NW = state.arrays[VARIATES].copy()
        weights_N = state.arrays[WEIGHTS].copy()
        # Means of single clients, and not outputs: these are kept in the round cache.
        changes = updates.means([[client] for client in updates.clients], output=CHANGE)
        for client, change_W in zip(updates.clients, changes, strict=True):
            variates_NW[client] += change_W
            # The last weight: clusters of later rounds may hold clients that do not reply then.
            weights_N[client] = 1.0 if updates.weights is None else updates.weights[client]
        return state.keep(**{VARIATES: variates_NW, WEIGHTS: weights_N})


def _compute_cluster_variate(state: State, cluster: int) -> Vector:
    """Compute a cluster's variate: the mean of its members' own, by their last weights."""
    members = np.asarray(state.members(cluster), np.int64)
    weights = state.arrays[WEIGHTS][members]
    variates_NW = state.arrays[VARIATES][members]
    if not weights.any():
        return np.zeros(variates_NW.shape[1], np.float32)
    # Members without a reply count as zeros; `average` leaves them out, as their weight is 0.
    share = np.count_nonzero(weights) / len(members)
    mean_W: Vector = np.average(variates_NW, axis=0, weights=weights).astype(np.float32)
    return np.float32(share) * mean_W

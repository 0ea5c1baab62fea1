"""SCAFFOLD's local rule under any partition: control variates within each cluster.

Source: Karimireddy et al. 2020, arXiv:1910.06378, as in `averaging.scaffold`; that a cluster's variate is the
mean of its members' own is ours.

Shapes: N clients of the federation, W entries of a state vector that are parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.averaging.scaffold import CHANGE, VARIATE, ScaffoldRule
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.local_method import LocalMethod
from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.contract.orders import Payload
from fedgrid.algorithms.updates.source import Layout, Vector
from fedgrid.algorithms.updates.updates import Updates

VARIATES, WEIGHTS = "variates", "variate_weights"


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
        """Return the rule of `scaffold`."""
        return ScaffoldRule()

    def init(self, layout: Layout, num_clients: int) -> Mapping[str, NDArray[Any]]:
        """Return variates of zero."""
        zeros = np.zeros((num_clients, layout.num_parameters), np.float32)
        return {VARIATES: zeros, WEIGHTS: np.zeros(num_clients)}

    def payloads(self, state: State) -> Sequence[Payload]:
        """Return each cluster's variate. A member that has not replied yet counts as a zero."""
        return [{VARIATE: _cluster_variate(state, cluster)} for cluster in range(len(state.models))]

    def learn(self, state: State, updates: Updates) -> State:
        """Add each reply's change to its client's variate."""
        variates_NW, weights_N = state.arrays[VARIATES].copy(), state.arrays[WEIGHTS].copy()
        # Means of single clients, and not outputs: these are kept in the round cache.
        changes = updates.means([[client] for client in updates.clients], output=CHANGE)
        for client, change_W in zip(updates.clients, changes, strict=True):
            variates_NW[client] += change_W
            weights_N[client] = 1.0 if updates.weights is None else updates.weights[client]
        return state.keep(**{VARIATES: variates_NW, WEIGHTS: weights_N})


def _cluster_variate(state: State, cluster: int) -> Vector:
    members = np.asarray(state.members(cluster), np.int64)
    weights, variates_NW = state.arrays[WEIGHTS][members], state.arrays[VARIATES][members]
    if not weights.any():
        return np.zeros(variates_NW.shape[1], np.float32)
    share = np.count_nonzero(weights) / len(members)
    mean_W: Vector = np.average(variates_NW, axis=0, weights=weights).astype(np.float32)
    return np.float32(share) * mean_W

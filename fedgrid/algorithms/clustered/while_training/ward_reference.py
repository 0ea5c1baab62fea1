"""Ward's tree on pooled standardised distances, cut once at a number of clusters that the user gives.

Ours, the reference for clustering: no server has the number of hidden groups, so what a method that has to
find it loses against this one is the price of that. It sees what `evident-groups` sees of standardised
updates: their cosine distances, averaged over the rounds so far (docs/our-algorithm.md). Ward's tree on these
is cut at `num_clusters`. It is simple on purpose: no k-means moves single clients after it, and no test
decides whether there are groups at all.

Shapes: K clients of the federation.
"""

from typing import Annotated

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, select_moving
from fedgrid.algorithms.clustering.latecomers import can_place_later, split_seen_clients
from fedgrid.algorithms.clustering.pooled_cosines import (
    NUM_SHARED_ROUNDS,
    add_to_sums,
    average_over_rounds,
    find_seen_clients,
    have_shared_round,
)
from fedgrid.algorithms.clustering.ward import cut_into_number
from fedgrid.algorithms.contract.base import Diagnostics, State, StepResult
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.section import FirstRound, PositiveInt
from fedgrid.algorithms.updates.source import Rng
from fedgrid.algorithms.updates.updates import Updates

POOLED = "pooled_standardised_KK"
"""Name of the state's array with sums of distances, float64, shape (K, K)."""


class WardReferenceSettings(FedOptSettings):
    """Settings of the reference: how many clusters there are, and when they are formed."""

    num_clusters: PositiveInt = 3
    """Number of clusters."""
    round: Annotated[PositiveInt, FirstRound()] = 5
    """The round of the clustering, counted from 1; later if by then some pair of clients has not shared a
    round."""


class WardReference(FedOpt):
    """One clustering, in `round`, at the number of clusters that is given; FedOpt before it.

    Degenerate cases:

    - It splits a federation without groups too.
    - Two clients, or clients of which no two are nearer to each other than others, stay together.
    - A client that has sent nothing but zeros or unusable updates waits like one that was never seen.

    Absent clients: Nothing is decided before every two of the clients seen so far have shared a round; while
    clients are still to come, also not before a round in which each cluster sends an update. One that comes
    after the split joins the cluster with the least mean cosine distance to its members' updates at the
    split.

    Memory: Until the clustering `pooled_standardised_KK`, sums of distances over the rounds in which a pair
    sent updates (float64), and `rounds_met_KK`, the number of these rounds (int64).
    """

    settings: WardReferenceSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more clusters than clients."""
        return conditions.too_few_for(self.settings.num_clusters) or super().problem(conditions)

    def start_order_key(self) -> tuple[float, ...]:
        """Order runs by `round`, after those that can deviate from FedAvg in round 2."""
        return (3.0, self.settings.round)

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Pool this round's distances; split the federation's only cluster, from `round` on."""
        part = select_moving(updates)
        if len(state.models) > 1 or not part.clients:
            return state, Diagnostics()
        state = add_to_sums(state, part.clients, {POOLED: part.standardised_distances_KK})
        clients = find_seen_clients(state)
        if round_index + 1 < self.settings.round or not have_shared_round(state, clients):
            return state, Diagnostics()
        positions = cut_into_number(average_over_rounds(state, clients, POOLED), self.settings.num_clusters)
        groups = [[clients[place] for place in group] for group in positions]
        # Clients that come later are compared with the groups' updates of the round of the split.
        if len(groups) == 1 or not can_place_later(state, groups, part.clients):
            return state, Diagnostics()
        return split_seen_clients(state.without(POOLED, NUM_SHARED_ROUNDS), groups, updates), Diagnostics(
            clustered=True
        )

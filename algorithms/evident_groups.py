"""Cluster once, as soon as there is evidence of groups; if there is none, never.

Ours. In every round before the clustering the distances between clients' updates, as they are and
standardised, are averaged over the rounds so far. Ward's tree says how many groups there are, and k-means
at that number who is in them (`algorithms.clustering.ward`). They become the clusters in the first round in
which they are those of the round before and evident: tighter than those of rotated clients
(`algorithms.clustering.evidence`). docs/our-algorithm.md says why, and where it fails.

By default each client fine-tunes the model that it is served (`fine_tune`): clients may differ without groups
to find, and then neither one model nor a cluster's serves them well.

With partial participation a round shows some pairs only: nothing is decided before every two of the clients
seen so far have met. Clients that come after the clustering are placed as after any other split
(`algorithms.clustering.latecomers`).

Shapes: K clients of the federation, M of them seen so far.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, NonNegativeInt
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.clustering import evidence, graph, ward
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.latecomers import split_among
from fedgrid.algorithms.clustering.pooled import MET, add, known, pooled
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.updates import Matrix, Updates
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings, moving

AS_THEY_ARE, STANDARDISED = "pooled_distances_KK", "pooled_standardised_KK"
"""Sums of cosine distances over the rounds in which a pair sent updates, float64."""
FOUND, ASKED = "found_K", "rounds_asked"
"""The groups of the round before, int64, shape (K,), -1 for clients not seen yet; and the number of rounds in
which groups were looked for, int64."""
MEMORY = (AS_THEY_ARE, STANDARDISED, MET, FOUND, ASKED)
SHARE = 0.8
"""What distances of standardised updates count; those of updates as they are count the rest."""


class EvidentGroupsSettings(FedOptSettings):
    """How evident groups must be, and how long they are searched for."""

    evidence: Annotated[float, Field(gt=0)] = 7.0
    """By how many standard deviations groups must be tighter than those of rotated clients."""
    window: Annotated[int, Field(ge=2)] = 8
    """Rounds in which groups are looked for, from the first in which every two clients have met. Each asks
    again whether chance explains what it sees, so more rounds cut up more federations without groups."""
    restarts: NonNegativeInt = 10
    """Random starts of k-means besides Ward's clusters; with 0 these are the groups."""


class EvidentGroups(FedOpt):
    """One clustering, when groups are evident; FedOpt before it, and if they never are.

    Memory until the clustering or the window's end: `MEMORY`.
    """

    settings: EvidentGroupsSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Round 2 at the earliest: two rounds must agree."""
        return (2.0, 0.0)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Return the state of one cluster, no groups found yet."""
        state = super().init(layout, num_clients, fresh, rng)
        return _note(state.keep(**{ASKED: np.zeros((), np.int64)}), [])

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Split the federation's only cluster if the groups have held for a round and are evident.

        While clients are still to come it also waits for a round in which each cluster sends an update, by
        which latecomers are compared with it.
        """
        part = moving(updates)
        if FOUND not in state.arrays or not part.clients:
            return state, Diagnostics()
        distances = {
            AS_THEY_ARE: part.cosine_distances_KK,
            STANDARDISED: part.standardised_distances_KK,
        }
        state = add(state, part.clients, distances)
        clients = known(state)
        squares_MM = squared_distances(state, clients)
        if squares_MM is None or len(clients) < 2:
            return state, Diagnostics()
        with threadpool_limits(limits=1):
            positions = ward.groups_of(squares_MM, self.settings.restarts, rng)
            silhouette = graph.silhouette(squares_MM, positions)
            groups = [[clients[place] for place in group] for group in positions]
            noted = _note(state, groups)
            held = np.array_equal(noted.arrays[FOUND], state.arrays[FOUND])
            score = evidence.score(squares_MM, positions, rng) if held else None
        if score is None or score <= self.settings.evidence or not _can_place_latecomers(state, groups, part):
            return self._asked(noted), Diagnostics(silhouette=silhouette)
        return _split(state, groups, updates), Diagnostics(clustered=True, silhouette=silhouette)

    def _asked(self, state: State) -> State:
        """Return the state after a round without evidence; it remembers nothing once the window is over."""
        asked = state.arrays[ASKED] + 1
        if asked >= self.settings.window:
            return state.without(*MEMORY)
        return state.keep(**{ASKED: np.asarray(asked)})


def squared_distances(state: State, clients: Sequence[int]) -> Matrix | None:
    """Return how far apart these clients are, shape (M, M); None if two of them never met.

    Cosine distances of their updates, as they are and standardised, mean over the rounds, each divided by its
    mean over pairs. Both are squared Euclidean distances. All entries of standardised updates count alike:
    they show groups that differ by a little in many entries; updates as they are show those that differ by
    much in a few.
    """
    as_they_are_MM = pooled(state, clients, AS_THEY_ARE)
    standardised_MM = pooled(state, clients, STANDARDISED)
    if as_they_are_MM is None or standardised_MM is None or not as_they_are_MM.any():
        return as_they_are_MM
    return (1.0 - SHARE) * _of_mean_one(as_they_are_MM) + SHARE * _of_mean_one(standardised_MM)


def _of_mean_one(distances_MM: Matrix) -> Matrix:
    num_clients = len(distances_MM)
    return distances_MM * (num_clients * (num_clients - 1) / float(distances_MM.sum()))


def _note(state: State, groups: Groups) -> State:
    """Return the state with these groups of client ids, numbered by their first member."""
    found_K = np.full(len(state.labels_K), -1, np.int64)
    for number, group in enumerate(groups):
        found_K[group] = number
    return state.keep(**{FOUND: found_K})


def _can_place_latecomers(state: State, groups: Groups, part: Updates) -> bool:
    everyone_is_here = sum(map(len, groups)) == len(state.labels_K)
    return everyone_is_here or all(set(group) & set(part.clients) for group in groups)


def _split(state: State, groups: Groups, updates: Updates) -> State:
    """Return the state with a cluster for each group; clients that were never seen wait."""
    seen = {client for group in groups for client in group}
    view = updates.select(updates.clients, absent=set(range(len(state.labels_K))) - seen)
    return split_among(state.without(*MEMORY), 0, groups, view)

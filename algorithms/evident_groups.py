"""Cluster once, as soon as there is evidence of groups; if there is none, never.

Ours. In every round before the clustering, the cosines of the clients' updates are averaged over the rounds
so far and the clients' mean direction is taken out. Ward's tree says how many groups there are, and k-means
at that number who is in them (`algorithms.clustering.ward`). They become the clusters in the first round in
which they are those of the round before and their silhouette passes a test against clients without groups
(`algorithms.clustering.null_test`). docs/our-algorithm.md derives both and says where they fail.

By default each client fine-tunes the model that it is served (`fine_tune`): clients may differ without groups
to find, and then neither one model nor a cluster's serves them well.

With partial participation a round shows some pairs only: nothing is decided before every two of the clients
seen so far have met. Clients that come after the clustering are placed as after any other split
(`algorithms.clustering.latecomers`).

Shapes: K clients of the federation, M of them seen so far.
"""

from typing import Annotated

import numpy as np
from pydantic import Field, NonNegativeInt
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.clustering import null_test, ward
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.latecomers import split_among
from fedgrid.algorithms.clustering.pooled import MET, POOLED, centred_cosines, known, pool, pooled_cosines
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.updates import Updates
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings, moving

FOUND = "found_K"
"""The groups of the round before, int64, shape (K,); -1 for clients not seen yet."""


class EvidentGroupsSettings(FedOptSettings):
    """How strict the test is, and how long groups are searched for."""

    level: Annotated[float, Field(gt=0, le=0.5)] = 0.005
    """The nominal share of draws of noise that pass. More do, 2.2 % with 30 clients: the threshold is a
    quantile of 200 draws. Of federations without groups yet more pass, as every round asks again and noise is
    not quite Gaussian: docs/our-algorithm.md counts them."""
    restarts: NonNegativeInt = 10
    """Random starts of k-means besides Ward's clusters; with 0 these are the groups."""


class EvidentGroups(FedOpt):
    """One clustering, when a test says that there are groups; FedOpt before it, and if it never does.

    Memory until the clustering: the sums of `algorithms.clustering.pooled`, and `found_K`.
    """

    settings: EvidentGroupsSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Round 2 at the earliest: two rounds must agree."""
        return (2.0, 0.0)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Return the state of one cluster, no groups found yet."""
        state = super().init(layout, num_clients, fresh, rng)
        return _note(state, [])

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Split the federation's only cluster if the groups have held for a round and pass the test.

        While clients are still to come it also waits for a round in which each cluster sends an update, by
        which latecomers are compared with it.
        """
        part = moving(updates)
        if FOUND not in state.arrays or not part.clients:
            return state, Diagnostics()
        state = pool(state, part)
        clients = known(state)
        cosines_MM = pooled_cosines(state, clients)
        if cosines_MM is None or len(clients) < 2:
            return state, Diagnostics()
        with threadpool_limits(limits=1):
            centred_MM = centred_cosines(cosines_MM)
            positions = ward.groups_of(centred_MM, self.settings.restarts, rng)
            silhouette = null_test.score(centred_MM, positions)
            if silhouette is None:
                return _note(state, []), Diagnostics()
            needed = null_test.threshold(centred_MM, positions, self.settings.level)
        groups = [[clients[place] for place in group] for group in positions]
        noted = _note(state, groups)
        held = np.array_equal(noted.arrays[FOUND], state.arrays[FOUND])
        if not held or silhouette <= needed or not _can_place_latecomers(state, groups, part):
            return noted, Diagnostics(silhouette=silhouette)
        return _split(state, groups, updates), Diagnostics(clustered=True, silhouette=silhouette)


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
    return split_among(state.without(POOLED, MET, FOUND), 0, groups, view)

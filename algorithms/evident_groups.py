"""Cluster once, as soon as there is evidence of groups; if there is none, never.

Ours. In every round before the clustering, the cosines of the clients' updates are averaged over the rounds
so far, the clients' mean direction is taken out, and Leiden finds the communities of the positive cosines:
their number is an output. A community that is clearly two is cut (`algorithms.clustering.within`). They
become the clusters in the first round in which they are those of the round before, with or without the cuts
made then, and their silhouette passes a test against clients without groups
(`algorithms.clustering.null_test`). docs/our-algorithm.md derives the tests and says where they fail.

Until then there is one model for all, and each client fine-tunes it before it uses it (`fine_tune`): clients
may differ without groups to find, and then one model serves none of them well.

With partial participation a round shows some pairs only: nothing is decided before every two of the clients
seen so far have met. Clients that come after the clustering are placed as after any other split
(`algorithms.clustering.latecomers`).

Shapes: K clients of the federation, M of them seen so far.
"""

from typing import Annotated

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.clustering import null_test, within
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.latecomers import split_among
from fedgrid.algorithms.clustering.pooled import centred_cosines, forget, known, pool, pooled_cosines
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.orders import Adaptation
from fedgrid.algorithms.contract.updates import Updates
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings, moving

FOUND = "found_K"
"""The communities of the round before, int64, shape (K,); -1 for clients not seen yet."""
UNCUT = "uncut_K"
"""The same before it looked within them, if it does: a cut that is not made again need not have held."""


class EvidentGroupsSettings(FedOptSettings):
    """How strict the test is."""

    level: Annotated[float, Field(gt=0, le=0.5)] = 0.005
    """Share of draws of noise that pass the test. Of federations without groups more do, as every round asks
    again and noise is not quite Gaussian: docs/our-algorithm.md counts them."""
    look_within: bool = False
    """Whether a community that is clearly two groups is cut in two."""

    later = ("look_within",)


class EvidentGroups(FedOpt):
    """One clustering, when a test says that there are groups; FedOpt before it, and if it never does.

    Memory until the clustering: the sums of `algorithms.clustering.pooled`, and `found_K`.
    """

    settings: EvidentGroupsSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Round 2 at the earliest: two rounds must agree."""
        return (2.0, 0.0)

    def fine_tuning(self, state: State) -> Adaptation | None:
        """Return that of the settings as long as no groups are evident."""
        return super().fine_tuning(state) if len(state.models) == 1 else None

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Return the state of one cluster, no communities found yet."""
        state = super().init(layout, num_clients, fresh, rng)
        return self._note(state, [], [])

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Split the federation's only cluster if the communities have held for a round and pass the test.

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
            uncut = positions = null_test.cluster(centred_MM, rng)
            if self.settings.look_within:
                positions = within.split_further(cosines_MM, uncut, self.settings.level)
            silhouette = null_test.score(centred_MM, positions)
            if silhouette is None:
                return self._note(state, [], []), Diagnostics()
            needed = null_test.threshold(centred_MM, positions, self.settings.level)
        uncut, groups = (
            [[clients[place] for place in group] for group in each] for each in (uncut, positions)
        )
        noted = self._note(state, groups, uncut)
        before = [state.arrays[name] for name in (FOUND, UNCUT) if name in state.arrays]
        held = any(np.array_equal(noted.arrays[FOUND], each_K) for each_K in before)
        if not held or silhouette <= needed or not _can_place_latecomers(state, groups, part):
            return noted, Diagnostics(silhouette=silhouette)
        return _split(state, groups, updates), Diagnostics(clustered=True, silhouette=silhouette)

    def _note(self, state: State, groups: Groups, uncut: Groups) -> State:
        """Return the state with these communities of client ids, numbered by their first member."""
        noted = {FOUND: groups, UNCUT: uncut} if self.settings.look_within else {FOUND: groups}
        arrays = {name: np.full(len(state.labels_K), -1, np.int64) for name in noted}
        for name, communities in noted.items():
            for number, group in enumerate(communities):
                arrays[name][group] = number
        return state.keep(**arrays)


def _can_place_latecomers(state: State, groups: Groups, part: Updates) -> bool:
    everyone_is_here = sum(map(len, groups)) == len(state.labels_K)
    return everyone_is_here or all(set(group) & set(part.clients) for group in groups)


def _split(state: State, groups: Groups, updates: Updates) -> State:
    """Return the state with a cluster for each group; clients that were never seen wait."""
    arrays = {name: array for name, array in forget(state).arrays.items() if name not in (FOUND, UNCUT)}
    seen = {client for group in groups for client in group}
    view = updates.select(updates.clients)
    view.absent = frozenset(range(len(state.labels_K))) - seen
    return split_among(State(state.models, state.labels_K, arrays), 0, groups, view)

"""Cluster once, as soon as there is evidence of groups; if there is none, never.

Ours. In every round before the clustering the clients are compared in two ways: by the cosine distances of
their updates as they are, and of standardised ones, each averaged over the rounds so far. In both, Ward's
tree says how many groups there are, and k-means at that number who is in them
(`algorithms.clustering.ward`). Groups become the clusters in the first round in which they are those of the
round before and evident: tighter than those of rotated clients (`algorithms.clustering.ward.score`).
docs/our-algorithm.md says why, and where it fails.

By default each client fine-tunes the model that it is served (`fine_tune`): clients may differ without groups
to find, and then neither one model nor a cluster's serves them well.

With partial participation a round shows some pairs only: nothing is decided before every two of the clients
seen so far have met. Clients that come after the clustering are placed as after any other split
(`algorithms.clustering.latecomers`).

Shapes: K clients of the federation, M of them seen so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field, NonNegativeInt
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, select_moving
from fedgrid.algorithms.clustering import ward
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.latecomers import can_wait, split_seen
from fedgrid.algorithms.clustering.measures import labels_of, silhouette
from fedgrid.algorithms.clustering.pooled import MET, add, clients_seen, have_met, mean_over_rounds
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State, Step
from fedgrid.algorithms.updates.source import Layout, Rng
from fedgrid.algorithms.updates.updates import Updates

KINDS = ("as_they_are", "standardised")
"""Updates as they are show groups that differ by much in a few entries; standardised ones, in which all
entries count alike, those that differ by a little in many."""
ASKED = "rounds_asked"
"""In how many rounds groups were looked for, int64, of the arrays of a state."""


class EvidentGroupsSettings(FedOptSettings):
    """How evident groups must be, and how long they are searched for."""

    evidence: Annotated[float, Field(gt=0)] = 6.0
    """How evident groups must be: standard deviations by which they are tighter than those of rotated
    clients, over the square root of the number of groups less one."""
    window: Annotated[int, Field(ge=2)] = 8
    """Rounds in which groups are looked for, from the first in which every two clients have met. Each asks
    again whether chance explains what it sees, so more rounds cut up more federations without groups."""
    restarts: NonNegativeInt = 10
    """Random starts of k-means besides Ward's clusters; with 0 these are the groups."""


@dataclass(frozen=True)
class ShownGroups:
    """The groups that one kind of distances shows in a round."""

    groups: Groups
    """Client ids, by first member."""
    score: float
    """How evident they are; 0 if they are not those of the round before, or have no score."""
    silhouette: float | None


class EvidentGroups(FedOpt):
    """One clustering, when groups are evident; FedOpt before it, and if they never are.

    Degenerate cases:

    - A client that has sent nothing but zeros or unusable updates waits like one that was never seen.
    - Once `window` rounds have passed without evidence, it is FedOpt to the end.
    - Two groups that share classes, with few images a client, are mostly not found.

    Absent clients: Nothing is decided before every two of the clients seen so far have met; while clients are
    still to come, also not before a round in which each group sends an update. One that comes after the split
    joins the cluster with the least mean cosine distance to its members' updates at the split.

    Memory: Until the clustering or the window's end, for each kind of distances: their sums over the rounds
    in which a pair sent updates (float64, shape (K, K)), and the groups of the round before (int64, shape
    (K,), -1 for clients not seen yet). Beside these `rounds_met_KK` and `rounds_asked`.
    """

    settings: EvidentGroupsSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Round 2 at the earliest: two rounds must agree."""
        return (2.0, 0.0)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Return the state of one cluster, no groups found yet."""
        state = super().init(layout, num_clients, fresh, rng)
        nobody_K = {_found_in(kind): np.full(num_clients, -1, np.int64) for kind in KINDS}
        return state.keep(**{ASKED: np.zeros((), np.int64)}, **nobody_K)

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> Step:
        """Split the federation's only cluster if the groups have held for a round and are evident.

        While clients are still to come it also waits for a round in which each cluster sends an update, by
        which latecomers are compared with it.
        """
        part = select_moving(updates)
        if ASKED not in state.arrays or not part.clients:
            return state, Diagnostics()
        distances = (part.cosine_distances_KK, part.standardised_distances_KK)
        state = add(state, part.clients, dict(zip(map(_pooled_in, KINDS), distances, strict=True)))
        clients = clients_seen(state)
        if not have_met(state, clients):
            return state, Diagnostics()
        with threadpool_limits(limits=1):
            shown = [self._look(state, kind, clients, rng) for kind in KINDS]
        best = max(shown, key=lambda groups: groups.score)
        evident = best.score > self.settings.evidence and can_wait(state, best.groups, part.clients)
        state = split_seen(_forget(state), best.groups, updates) if evident else self._asked(state, shown)
        return state, Diagnostics(clustered=evident, silhouette=best.silhouette)

    def _look(self, state: State, kind: str, clients: Sequence[int], rng: Rng) -> ShownGroups:
        squares_MM = mean_over_rounds(state, clients, _pooled_in(kind))
        positions = ward.groups_of(squares_MM, self.settings.restarts, rng)
        groups = [[clients[place] for place in group] for group in positions]
        held = np.array_equal(labels_of(groups, len(state.labels_K)), state.arrays[_found_in(kind)])
        score = ward.score(squares_MM, positions, rng) if held else None
        return ShownGroups(groups, score or 0.0, silhouette(squares_MM, positions))

    def _asked(self, state: State, shown: Sequence[ShownGroups]) -> State:
        """Return the state after a round without evidence; it remembers nothing once the window is over."""
        asked = state.arrays[ASKED] + 1
        if asked >= self.settings.window:
            return _forget(state)
        labels_K = {
            _found_in(kind): labels_of(groups.groups, len(state.labels_K))
            for kind, groups in zip(KINDS, shown, strict=True)
        }
        return state.keep(**{ASKED: np.asarray(asked)}, **labels_K)


def _pooled_in(kind: str) -> str:
    return f"pooled_{kind}_KK"


def _found_in(kind: str) -> str:
    return f"found_{kind}_K"


def _forget(state: State) -> State:
    return state.without(MET, ASKED, *map(_pooled_in, KINDS), *map(_found_in, KINDS))

"""Cluster once, as soon as there is evidence of groups; if there is none, never.

Ours. In every round before the clustering the clients are compared in two ways: by the cosine distances of
their updates as they are, and of standardised ones, each averaged over the rounds so far. In both, Ward's
tree says how many groups there are, and k-means at that number who is in them (`algorithms.clustering.ward`).
Groups become the clusters in the first round in which they are those of the round before and evident: tighter
than those of rotated clients (`algorithms.clustering.ward.score_evidence`). One client is no group: if all
that is evident are clients that are like no others, these are set aside, and groups are searched for among
the rest (`algorithms.clustering.ward.find_outliers`). docs/our-algorithm.md says why, and where it fails.

By default each client fine-tunes the model that it is served (`fine_tune`): clients may differ without groups
to find, and then neither one model nor a cluster's serves them well.

With partial participation a round shows some pairs only: nothing is decided before each of the clients seen
so far has sent two updates, and every two of them have shared a round, or both shared one with the same third
client. Clients that come after the clustering are placed as after any other split
(`algorithms.clustering.latecomers`).

Shapes: K clients of the federation, M of them seen so far, E of these examined: not set aside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, select_moving
from fedgrid.algorithms.clustering import ward
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.latecomers import can_place_later, split_seen_clients
from fedgrid.algorithms.clustering.measures import compute_silhouette, number_groups
from fedgrid.algorithms.clustering.pooled_cosines import (
    NUM_SHARED_ROUNDS,
    add_to_sums,
    can_compare,
    estimate_distances,
    find_seen_clients,
)
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, Labels, State, StepResult
from fedgrid.algorithms.updates.source import Layout, Rng
from fedgrid.algorithms.updates.updates import Updates

DISTANCE_KINDS = ("as_they_are", "standardised")
"""Kinds of distances. Updates as they are show groups that differ by much in a few entries; standardised
ones, in which all entries count alike, those that differ by a little in many."""
LEAST_UPDATES = 2
"""Number of rounds in which each client seen so far must have sent an update before anything is decided."""
NUM_TESTED_ROUNDS = "rounds_asked"
"""Array of a state: number of rounds in which groups were tested, int64. Stored states have this name."""
OUTLIERS = "odd_K"
"""Array of a state: clients that are set aside, bool, shape (K,)."""


class EvidentGroupsSettings(FedOptSettings):
    """Settings of the test: how evident groups must be, and how long they are searched for."""

    evidence: Annotated[float, Field(gt=0)] = 6.0
    """Least score of G groups: D / sqrt(G - 1), where D counts the standard deviations by which they are
    tighter than groups of rotated clients."""
    window: Annotated[int, Field(ge=2)] = 8
    """Rounds in which groups are tested, counted where each client seen so far has sent two updates. Each is
    a further chance to be misled, so more rounds cut up more federations without groups."""
    restarts: NonNegativeInt = 10
    """Random starts of k-means in addition to Ward's clusters; with 0 these are the groups."""


@dataclass(frozen=True)
class GroupEvidence:
    """The groups that one kind of distances shows in a round, and how evident they are."""

    clusters: Groups
    """Client ids of each group, by first member, with the outliers that are nearest to it."""
    labels_K: Labels
    """Group of each client before outliers were moved, int64, shape (K,); -1 for clients that were not
    examined."""
    outliers: tuple[int, ...]
    """Ids of clients that this round shows to be like no others, ascending."""
    score: float
    """Evidence of the groups; 0 if they differ from those of the round before, or have no score."""
    silhouette: float | None
    """Mean silhouette of the groups; None if it is not defined."""

    @property
    def score_in_deviations(self) -> float:
        """D, in standard deviations: the score times sqrt(G - 1). By it the two kinds are compared."""
        return self.score * float(np.sqrt(self.labels_K.max()))


class EvidentGroups(FedOpt):
    """One clustering, when groups are evident; FedOpt before it, and if they never are.

    Degenerate cases:

    - A client that has sent nothing but zeros or unusable updates waits like one that was never seen.
    - Once groups have been tested in `window` rounds without a split, it is FedOpt to the end.
    - Two groups that share classes, with few images a client, are mostly not found.
    - A client that is like no others is named in a warning. It stays in the cluster with all others, or, once
      there are groups, in that of the nearest one.

    Absent clients: Nothing is decided before each of the clients seen so far has sent two updates, and every
    two of them have shared a round, or both shared one with the same third client; while clients are still to
    come, also not before a round in which each group sends an update. One that comes after the split joins
    the cluster with the least mean cosine distance to its members' updates at the split.

    Memory: Until the clustering or the window's end, for each kind of distances: their sums over the rounds
    in which a pair sent updates (float64, shape (K, K)), and the groups of the round before (int64, shape
    (K,), -1 for clients not seen yet). And `rounds_met_KK`, the rounds in which each pair sent updates,
    `rounds_asked` and `odd_K`.
    """

    settings: EvidentGroupsSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Deviate from FedAvg in round 2, counted from 1, at the earliest: two rounds must agree."""
        return (2.0, 0.0)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state of one cluster; no groups have been seen yet."""
        state = super().init(layout, num_clients, fresh, rng)
        nobody_K = {_labels_name(kind): np.full(num_clients, -1, np.int64) for kind in DISTANCE_KINDS}
        nobody_is_odd = {OUTLIERS: np.zeros(num_clients, np.bool_)}
        return state.keep(**{NUM_TESTED_ROUNDS: np.zeros((), np.int64)}, **nobody_is_odd, **nobody_K)

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Split the federation's only cluster if the groups are those of the round before and evident.

        While clients are still to come it also waits for a round in which each cluster sends an update, by
        which latecomers are compared with it.

        Args:
            state: the state so far.
            round_index: the round, from 0; not used.
            updates: the usable updates of this round.
            rng: draws starts of k-means and rotations.
        """
        part = select_moving(updates)
        # The arrays are dropped when the search is over: after the split, or after the window.
        if NUM_TESTED_ROUNDS not in state.arrays or not part.clients:
            return state, Diagnostics()
        # 1. Add this round to the sums, even if nothing can be decided yet.
        distances = (part.cosine_distances_KK, part.standardised_distances_KK)
        state = add_to_sums(
            state, part.clients, dict(zip(map(_sums_name, DISTANCE_KINDS), distances, strict=True))
        )
        clients = find_seen_clients(state)
        if not can_compare(state, clients):
            return state, Diagnostics()
        # 2. Examine both kinds of distances. On one thread: sums of several would have other last bits on
        # other machines.
        with threadpool_limits(limits=1):
            shown = [self._examine_groups(state, kind, clients, rng) for kind in DISTANCE_KINDS]
        has_enough_updates = bool(
            np.diagonal(state.arrays[NUM_SHARED_ROUNDS])[list(clients)].min() >= LEAST_UPDATES
        )
        # 3. Split by the more evident kind; deviations compare them, as their numbers of groups may differ.
        evident = [groups for groups in shown if has_enough_updates and groups.score > self.settings.evidence]
        best = max(evident, key=lambda groups: groups.score_in_deviations, default=None)
        report = Diagnostics(silhouette=max(shown, key=lambda groups: groups.score).silhouette)
        if best and len(best.clusters) > 1 and can_place_later(state, best.clusters, part.clients):
            state = split_seen_clients(_drop_arrays(state), best.clusters, updates)
            return state, replace(report, clustered=True, warnings=_warn_of_outliers(best.outliers))
        # 4. Otherwise store the groups, with which the next round is compared. If all that is evident are
        # outliers, they leave the search.
        state = self._store_groups(state, shown, has_enough_updates)
        if best and len(best.clusters) == 1:
            report = replace(report, warnings=_warn_of_outliers(best.outliers))
            state = _exclude_outliers(state, best.outliers) if NUM_TESTED_ROUNDS in state.arrays else state
        return state, report

    def _examine_groups(self, state: State, kind: str, clients: Sequence[int], rng: Rng) -> GroupEvidence:
        """Examine the groups that one kind of distances shows, and score them."""
        # Ward's tree takes squared distances. Between directions of length 1 these are twice the cosine
        # distances; the factor does not matter to the tree.
        squares_MM = estimate_distances(state, clients, _sums_name(kind))
        examined = np.flatnonzero(~_read_outliers(state)[list(clients)])
        squares_EE = squares_MM[np.ix_(examined, examined)]
        cut = ward.find_groups(squares_EE, self.settings.restarts, rng)
        odd = ward.find_outliers(squares_EE, cut)
        # A group is either all outliers or none: `find_outliers` judges groups as a whole.
        groups = [examined[group].tolist() for group in cut if group[0] not in odd]
        # Everybody ends in a group, outliers too: each client has to be served by some cluster.
        clusters = ward.join_nearest(squares_MM, groups)
        ids = np.array(clients)
        found_K = number_groups([ids[examined[group]].tolist() for group in cut], len(state.labels_K))
        is_same = np.array_equal(found_K, state.arrays[_labels_name(kind)])
        # Scoring takes most of the time, so groups that have just changed are not scored.
        score = ward.score_evidence(squares_EE, cut, rng) if is_same else None
        return GroupEvidence(
            [ids[cluster].tolist() for cluster in clusters],
            found_K,
            tuple(ids[examined[odd]].tolist()),
            score or 0.0,
            compute_silhouette(squares_EE, cut),
        )

    def _store_groups(self, state: State, shown: Sequence[GroupEvidence], is_tested: bool) -> State:
        """Store the groups of a round without a split; drop everything once the window is over."""
        tested_rounds = state.arrays[NUM_TESTED_ROUNDS] + is_tested
        if tested_rounds >= self.settings.window:
            return _drop_arrays(state)
        labels = {
            _labels_name(kind): groups.labels_K for kind, groups in zip(DISTANCE_KINDS, shown, strict=True)
        }
        return state.keep(**{NUM_TESTED_ROUNDS: np.asarray(tested_rounds)}, **labels)


def _read_outliers(state: State) -> NDArray[np.bool_]:
    """Read which clients are set aside, bool, shape (K,); states of older versions have none."""
    return state.arrays.get(OUTLIERS, np.zeros(len(state.labels_K), np.bool_))


def _exclude_outliers(state: State, odd: Sequence[int]) -> State:
    """Set clients aside, so that groups are searched for without them from now on."""
    odd_K = _read_outliers(state).copy()
    odd_K[list(odd)] = True
    # The groups of the round before no longer count: the remaining clients have to agree twice again.
    nobody_K = np.full(len(odd_K), -1, np.int64)
    return state.keep(**{OUTLIERS: odd_K}, **{_labels_name(kind): nobody_K for kind in DISTANCE_KINDS})


def _warn_of_outliers(odd: Sequence[int]) -> tuple[str, ...]:
    """Format the warning about clients that are like no others."""
    if not odd:
        return ()
    return (f"clients that are like no others, and no group: {', '.join(map(str, odd))}",)


def _sums_name(kind: str) -> str:
    """Name the array with the sums of a kind of distances."""
    return f"pooled_{kind}_KK"


def _labels_name(kind: str) -> str:
    """Name the array with the groups of the round before."""
    return f"found_{kind}_K"


def _drop_arrays(state: State) -> State:
    """Drop every array that the search for groups needs."""
    return state.without(
        NUM_SHARED_ROUNDS,
        NUM_TESTED_ROUNDS,
        OUTLIERS,
        *map(_sums_name, DISTANCE_KINDS),
        *map(_labels_name, DISTANCE_KINDS),
    )

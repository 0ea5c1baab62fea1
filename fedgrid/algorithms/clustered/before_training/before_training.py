"""Clusters that are formed before round 1, by messages of the clients about their data; FedAvg within each.

Shapes: K clients of the federation, N that sent a message, C clusters, D entries of a client's vector.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import floor
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.averaging.shared_layers import SharedLayers, SharedLayersSettings
from fedgrid.algorithms.clustered.before_training.class_means import MessageNoise, read_vector
from fedgrid.algorithms.contract.base import Diagnostics, Labels, State, StepResult, Traits
from fedgrid.algorithms.contract.orders import Order, Payload, Presence
from fedgrid.algorithms.contract.section import FirstRound, PositiveInt
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.updates.source import Layout, Rng
from fedgrid.algorithms.updates.updates import Updates

CENTROIDS, MEMBERS = "cluster_centroids", "cluster_members"
"""Arrays of a state: centroids, float64, shape (C, D), and how many clients each is the mean of, int64, shape
(C,)."""
NEWCOMERS, NEWCOMER_DISTANCES = "newcomers", "newcomers_distances"
"""Arrays of a state: the clients of the last messages, and how far each is from its cluster's centroid."""
NO_CLIENTS, NO_DISTANCES = np.zeros(0, np.int64), np.zeros(0)
"""Empty values of these two."""


class BeforeTrainingSettings(SharedLayersSettings, MessageNoise):
    """Settings that do not depend on the content of the messages."""

    sample: Literal["all", "cluster"] = "all"
    """Whether `participation` is the share of all clients, or of the members of each cluster, at least one of
    each (the text of Prigent et al.; its code draws from all)."""
    update_centroids: bool = True
    """Whether a newcomer, which joins the cluster of the nearest centroid, moves that centroid."""
    recluster_every: Annotated[PositiveInt | None, FirstRound(later=1)] = None
    """Rounds after which all clients send their messages again and go to the nearest centroid, so that those
    whose data have changed migrate (Prigent et al., section VIII, future work: 50); None: never."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("recluster_every",)


class BeforeTraining(SharedLayers):
    """Clusters once, by the first messages; newcomers join the nearest centroid.

    Absent clients: Those that are there in round 1 are clustered. A newcomer joins the cluster of the nearest
    centroid before its first round; until then it counts to the largest cluster.

    Memory: `cluster_centroids` (float64, shape (C, D)) and `cluster_members` (int64, shape (C,)).
    """

    settings: BeforeTrainingSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm; records say what messages cost."""
        return replace(super().traits, columns=frozenset({"message"}))

    @abstractmethod
    def cluster_vectors(self, vectors_ND: NDArray[np.float64], rng: Rng) -> Labels:
        """Cluster N clients by their vectors, which are read from their messages.

        Called by `meet` once a run, before round 1.

        Returns:
            The cluster of each client, int64, shape (N,).
        """

    def meet(self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: Rng) -> State:
        """Form clusters of the first clients, or give later ones their places.

        Args:
            state: the state so far.
            messages: client -> the arrays that it sent.
            layout: not used.
            rng: passed to `cluster_vectors`.
        """
        # Sorted, so that numbers of clusters do not depend on the order in which messages arrive.
        clients = sorted(messages)
        vectors_ND = np.array([read_vector(messages[client]) for client in clients])
        if CENTROIDS in state.arrays:
            return self._join_nearest(state, clients, vectors_ND)
        labels_N = self.cluster_vectors(vectors_ND, rng)
        ids = np.array(clients)
        state = split(state, 0, [ids[labels_N == label].tolist() for label in np.unique(labels_N)])
        # The split has renumbered the clusters by their first members.
        own_N = state.labels_K[ids]
        centroids_CD = np.array(
            [vectors_ND[own_N == label].mean(axis=0) for label in range(len(state.models))]
        )
        members_C = np.bincount(own_N, minlength=len(state.models))
        return _store_memberships(state, state.labels_K, centroids_CD, members_C)

    def _join_nearest(self, state: State, clients: Sequence[int], vectors_ND: NDArray[np.float64]) -> State:
        """Put newcomers into the clusters of the nearest centroids, one after the other."""
        centroids_CD = state.arrays[CENTROIDS].copy()
        members_C = state.arrays[MEMBERS].copy()
        labels_K = state.labels_K.copy()
        distances = []
        for client, vector_D in zip(clients, vectors_ND, strict=True):
            distances_C = np.linalg.norm(centroids_CD - vector_D, axis=1)
            nearest = int(distances_C.argmin())
            labels_K[client] = nearest
            distances.append(distances_C[nearest])
            if self.settings.update_centroids:
                members_C[nearest] += 1
                # Running mean: the messages of earlier members are not stored.
                centroids_CD[nearest] += (vector_D - centroids_CD[nearest]) / members_C[nearest]
        return _store_memberships(
            state, labels_K, centroids_CD, members_C, np.array(clients), np.array(distances)
        )

    def meets_again(self, round_index: int) -> bool:
        """Check whether `recluster_every` rounds have passed since the last messages of all."""
        every = self.settings.recluster_every
        return every is not None and round_index > 0 and round_index % every == 0

    def meet_again(self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: Rng) -> State:
        """Move every client to the nearest centroid.

        With `update_centroids` each centroid then becomes the mean of its new members.

        Args:
            state: the state so far.
            messages: client -> the arrays that it sent.
            layout: not used.
            rng: not used.
        """
        clients = sorted(messages)
        vectors_ND = np.array([read_vector(messages[client]) for client in clients])
        centroids_CD = state.arrays[CENTROIDS]
        distances_NC = np.linalg.norm(vectors_ND[:, None] - centroids_CD[None], axis=2)
        nearest_N = distances_NC.argmin(axis=1)
        labels_K = state.labels_K.copy()
        labels_K[clients] = nearest_N
        # Only clients that move are reported; the records of the others stay as they are.
        has_moved_N = nearest_N != state.labels_K[clients]
        if self.settings.update_centroids:
            centroids_CD = centroids_CD.copy()
            # A cluster that all have left keeps its centroid, so that clients may come back.
            for cluster in np.unique(nearest_N):
                centroids_CD[cluster] = vectors_ND[nearest_N == cluster].mean(axis=0)
        members_C = np.bincount(nearest_N, minlength=len(centroids_CD))
        newcomers = np.array(clients)[has_moved_N], distances_NC.min(axis=1)[has_moved_N]
        return _store_memberships(state, labels_K, centroids_CD, members_C, *newcomers)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client its cluster's model.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            present: the clients that were sampled; with `sample: cluster` a share of each cluster is drawn
                from `joined` instead.
            layout: names and shapes of the tensors in a state vector; not used here.
            rng: draws that share.
        """
        if self.settings.sample == "cluster":
            present = Presence(
                present.joined, self._sample_each_cluster(state, present, rng), present.participation
            )
        return super().orders(state, round_index, present, layout, rng)

    def _sample_each_cluster(self, state: State, present: Presence, rng: Rng) -> tuple[int, ...]:
        """Sample a share of the members of each cluster that have joined, at least one, ascending."""
        sampled: list[int] = []
        for cluster in range(len(state.models)):
            members = sorted(set(state.members(cluster)) & set(present.joined))
            # Rounded half up: `round` would take the even one of two.
            size = min(len(members), max(1, floor(present.participation * len(members) + 0.5)))
            sampled += rng.choice(members, size, replace=False).tolist() if members else []
        return tuple(sorted(sampled))

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Report what the messages before this round decided.

        That is the clustering in round 1 or later messages of all clients, and the places of newcomers.

        Args:
            state: the state so far; clients are in their clusters already.
            round_index: the round, from 0.
            updates: not used.
            rng: not used.
        """
        placed = {
            int(client): f"distance {distance:.2f} to the nearest centroid"
            for client, distance in zip(
                state.arrays.get(NEWCOMERS, ()), state.arrays.get(NEWCOMER_DISTANCES, ()), strict=True
            )
        }
        # Each reason is reported once.
        if placed:
            state = state.keep(**{NEWCOMERS: NO_CLIENTS, NEWCOMER_DISTANCES: NO_DISTANCES})
        has_messages = round_index == 0 or self.meets_again(round_index)
        return state, Diagnostics(clustered=has_messages and CENTROIDS in state.arrays, placed=placed)


def _store_memberships(
    state: State,
    labels_K: Labels,
    centroids_CD: NDArray[np.float64],
    members_C: Labels,
    clients: Labels = NO_CLIENTS,
    distances: NDArray[np.float64] = NO_DISTANCES,
) -> State:
    """Store the clusters after messages, with the clients that have joined or changed theirs."""
    state = replace(state, labels_K=labels_K)
    return state.keep(
        **{CENTROIDS: centroids_CD, MEMBERS: members_C, NEWCOMERS: clients, NEWCOMER_DISTANCES: distances}
    )

"""Clusters before training: each client sends once what share of its images is of each class."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans

from fedgrid import (
    AlgorithmEntry,
    Conditions,
    Diagnostics,
    FedOpt,
    FedOptSettings,
    Layout,
    Message,
    Payload,
    State,
    Traits,
    Updates,
    split,
)

if TYPE_CHECKING:
    from torch import Tensor

CENTRES = "cluster_centres"
"""The mean shares of each cluster, shape (C, L): an array `cluster_...` has a row a model."""


class ClassShares(Message):
    """A message that is computed at the client; only the returned arrays travel."""

    def describe(
        self, images: "Tensor", labels: "Tensor", num_classes: int, rng: np.random.Generator
    ) -> Payload:
        """Compute the share of each class, shape (L,)."""
        counts = labels.bincount(minlength=num_classes).cpu().numpy()
        return {"shares": (counts / counts.sum()).astype(np.float32)}


class SameClassesSettings(FedOptSettings):
    """Number of clusters."""

    num_clusters: int = 3


class SameClasses(FedOpt):
    """FedAvg within clusters of clients that hold the same classes."""

    settings: SameClassesSettings

    @property
    def traits(self) -> Traits:
        """Traits of FedAvg, and the column of the records with the bytes of the messages."""
        return replace(super().traits, columns=frozenset({"message"}))

    def start_order_key(self) -> tuple[float, ...]:
        """Name the first round that is not plain averaging, by which runs of a grid are sorted."""
        return (1.0,)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more clusters than clients."""
        return conditions.too_few_for(self.settings.num_clusters) or super().problem(conditions)

    def message(self) -> Message:
        """Build the message of every client before its first round."""
        return ClassShares()

    def meet(
        self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: np.random.Generator
    ) -> State:
        """Cluster the first clients; clients that join later go to the nearest centre."""
        clients = sorted(messages)
        shares_NL = np.array([messages[client]["shares"] for client in clients])
        if CENTRES in state.arrays:
            labels_K, centres_CL = state.labels_K.copy(), state.arrays[CENTRES]
            distances_NC = np.linalg.norm(shares_NL[:, None] - centres_CL, axis=2)
            labels_K[clients] = distances_NC.argmin(axis=1)
            return replace(state, labels_K=labels_K)
        num_clusters = min(self.settings.num_clusters, len(clients))
        found_N = KMeans(num_clusters, n_init=10, random_state=int(rng.integers(2**31))).fit_predict(
            shares_NL
        )
        ids = np.array(clients)
        state = split(state, 0, [ids[found_N == label].tolist() for label in np.unique(found_N)])
        own_N = state.labels_K[ids]
        centres = [shares_NL[own_N == cluster].mean(axis=0) for cluster in range(len(state.models))]
        return state.keep(**{CENTRES: np.array(centres)})

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Record that the partition was chosen before round 1."""
        return state, Diagnostics(clustered=round_index == 0)


ALGORITHMS = [
    AlgorithmEntry(
        name="same-classes",
        title="Same classes",
        summary="clusters before round 1, by the share of each class",
        source="ours",
        algorithm=SameClasses,
        settings=SameClassesSettings(),
    )
]

"""An algorithm and a model of your own; the grid's file names this one under `plugins:`.

The contract between server and clients, and more examples: docs/own-algorithm.md and docs/examples/. Every
command that names the grid reads this file: what takes long to import is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedgrid import (
    AlgorithmEntry,
    Diagnostics,
    FedOpt,
    FedOptSettings,
    ModelEntry,
    State,
    Updates,
    split_by_labels,
)

if TYPE_CHECKING:
    from torch import nn


class OneCutSettings(FedOptSettings):
    """When clients are clustered, and how far apart clusters are. Each setting can be an axis of a grid."""

    round: int = 3
    """Round in which clients are clustered, counted from 1."""
    threshold: float = 0.7
    """Cosine distance, from 0 to 2, from which two clusters stay apart."""


class OneCut(FedOpt):
    """Federated averaging with one clustering of the clients, by the angles between their updates."""

    settings: OneCutSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Find the first round that is not plain averaging; rounds before it are shared with other runs.

        Called before the runs of a grid start, to sort them.
        """
        return (float(self.settings.round),)

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Cluster the clients in the round of the settings, and return the partition.

        Called by the server once a round, before it averages the updates of each cluster. Clients without an
        update join the largest cluster.

        Args:
            state: the partition and the models so far.
            round_index: the round, counted from 0.
            updates: the clients' updates of this round.
            rng: generator for everything random, seeded by the run and the round.

        Returns:
            The state with the new partition, and what is recorded of the clustering.
        """
        # A single client cannot be split; the clustering below would refuse it.
        if round_index + 1 != self.settings.round or len(updates.clients) < 2:
            return state, Diagnostics()
        # Imported here, because every command that names the grid imports this file.
        from sklearn.cluster import AgglomerativeClustering

        cut = AgglomerativeClustering(
            n_clusters=None,
            distance_threshold=self.settings.threshold,
            metric="precomputed",
            linkage="average",
        )
        labels_K = cut.fit_predict(updates.cosine_distances_KK)
        return split_by_labels(state, updates, labels_K), Diagnostics(clustered=True)


def two_layers(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build a network from images (N, channels, height, width) in [0, 1] to logits (N, num_classes).

    Args:
        channels, height, width: shape of an image.
        num_classes: number of classes.
    """
    from torch import nn

    pixels = channels * height * width
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 64), nn.ReLU(), nn.Linear(64, num_classes))


ALGORITHMS = [
    AlgorithmEntry(
        name="one-cut",
        title="ONE-CUT",
        summary="clusters once, in a fixed round: average linkage",
        source="ours",
        algorithm=OneCut,
        settings=OneCutSettings(),
    )
]
MODELS = [ModelEntry(name="two-layers", description="one hidden layer", source="ours", build=two_layers)]

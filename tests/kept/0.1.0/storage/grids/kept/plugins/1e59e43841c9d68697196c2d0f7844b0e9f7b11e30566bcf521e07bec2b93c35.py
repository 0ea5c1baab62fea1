"""Two clusters, made once: clients whose updates are longer than the median, and the others."""

import numpy as np
from torch import nn

from fedgrid import (
    AlgorithmEntry,
    Diagnostics,
    FedOpt,
    FedOptSettings,
    ModelEntry,
    State,
    Updates,
    split_positions,
)


class HalvesSettings(FedOptSettings):
    """When the clients are split."""

    round: int = 2
    """Counted from 1."""


class Halves(FedOpt):
    """Federated averaging, in two clusters from round `round` on."""

    settings: HalvesSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Return the first round that is not plain averaging."""
        return (float(self.settings.round),)

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Return the partition of this round; `round_index` counts from 0."""
        if round_index + 1 != self.settings.round:
            return state, Diagnostics()
        is_long = updates.norms_K > np.median(updates.norms_K)
        groups = [np.flatnonzero(is_long).tolist(), np.flatnonzero(~is_long).tolist()]
        return split_positions(state, 0, updates, groups), Diagnostics(clustered=True)


def one_layer(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return a module from images (N, channels, height, width) to logits (N, num_classes)."""
    inputs = channels * (height // 2) * (width // 2)
    return nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(inputs, num_classes))


ALGORITHMS = [
    AlgorithmEntry(
        name="halves",
        title="HALVES",
        summary="splits once, in a fixed round: long updates from short ones",
        source="ours",
        algorithm=Halves,
        settings=HalvesSettings(),
    )
]
MODELS = [ModelEntry(name="one-layer", description="one linear layer", source="ours", build=one_layer)]

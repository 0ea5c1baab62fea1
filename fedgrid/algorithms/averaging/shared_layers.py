"""Averaging in clusters whose models have their first layers in common.

Source: Ghosh et al. 2020, arXiv:2006.04088, section 6 (IFCA); the code of Prigent et al. 2024, whose clusters
share the convolutions of their LeNet.

Shapes: C cluster models, P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgrid.algorithms.averaging.fedopt import MOMENTS, FedOpt, FedOptSettings
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.updates.source import Layout, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates


class SharedLayersSettings(FedOptSettings):
    """Settings of averaging in clusters with shared layers."""

    shared: Annotated[int, Field(ge=0)] = 0
    """Number of lower layers, each a kernel and its bias, that all models share: averaged over all clients.
    With more than the model has there is one model for all."""


class SharedLayers(FedOpt):
    """FedOpt in clusters; layers that these share are averaged over all clients."""

    settings: SharedLayersSettings

    def find_shared_entries(self, layout: Layout) -> NDArray[np.bool_]:
        """Find the entries that all models share, bool, shape (P,): the first layers that have weights."""
        layers = [name.rpartition(".")[0] for name, _, _ in layout.slices()]
        # A dict for unique names in the order of the vector; a set would lose it.
        shared = list(dict.fromkeys(layers))[: self.settings.shared]
        shared_P = np.zeros(layout.size, bool)
        for layer, (_, where, _) in zip(layers, layout.slices(), strict=True):
            shared_P[where] = layer in shared
        return shared_P

    def aggregate(self, state: State, updates: Updates, rng: Rng) -> State:
        """Average within each cluster, and shared layers over all clients."""
        apart = super().aggregate(state, updates, rng)
        shared_P = self.find_shared_entries(updates.layout)
        if not shared_P.any():
            return apart
        names = MOMENTS[self.settings.server_optimizer]
        # All clients as one cluster: its step is the one of the shared layers. They are the same in every
        # model, so any cluster's may stand for all.
        one = State(
            state.models[:1],
            np.zeros_like(state.labels_K),
            {name: state.arrays[name][:1] for name in names},
        )
        together = super().aggregate(one, updates, rng)
        models = [np.where(shared_P, together.models[0], model) for model in apart.models]
        moments = {name: np.where(shared_P, together.arrays[name], apart.arrays[name]) for name in names}
        return replace(apart, models=tuple(models)).keep(**moments)


def copy_shared_entries(shared_P: NDArray[np.bool_], models: Sequence[Vector]) -> list[Vector]:
    """Copy the shared entries of the first model into the others."""
    return [models[0], *(np.where(shared_P, models[0], model) for model in models[1:])]

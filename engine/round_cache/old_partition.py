"""Means that other runs will ask for, computed while the updates are there."""

from collections.abc import Sequence

import numpy as np

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.contract.updates import Updates


def cache_means_of_old_partition(
    orders: Sequence[Order], before: State, after: State, updates: Updates
) -> None:
    """Compute the means that runs need which keep the old partition: only this run has the updates.

    Clusters that start from one model count as one: other runs have not parted their clients yet.
    """
    labels_K = before.labels_K
    if not all(order.candidates == (int(labels_K[order.client]),) for order in orders):
        return
    places = {id(model): place for place, model in enumerate(before.models)}
    old = updates.groups(np.array([places[id(before.models[label])] for label in labels_K]))
    if sorted(old.values()) != sorted(updates.groups(after.labels_K).values()):
        updates.means(list(old.values()))

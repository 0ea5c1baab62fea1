"""Pools of labels alone, split among clients, client by client."""

from typing import NamedTuple

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing import split as splits
from fedgrid.engine.federation.partition.scenarios import scenario_of


class Held(NamedTuple):
    """What a client of a partition holds."""

    client: int
    cluster: int
    train: np.ndarray
    test: np.ndarray


def by_client(partition):
    """Return what each client holds; of tests in the official test set the positions there."""
    clients = zip(partition.group_K, partition.train_K, partition.test_K, strict=True)
    return [Held(client, *held) for client, held in enumerate(clients)]


def split_pool(labels, *, dataset, num_classes, num_clients, split, seed, shape=(1, 8, 8), **of_pool):
    """Split a pool of which labels are known, and what `of_pool` gives: groups, subjects, assigned."""
    pool = ImageSet(np.empty((0, *shape), np.uint8), labels, **of_pool)
    scenario = scenario_of(dataset, split.kind, num_clients)
    return by_client(splits.split_pool(pool, num_classes, scenario, split, seed))

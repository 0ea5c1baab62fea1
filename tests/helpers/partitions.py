"""Pools of labels alone, split among clients, client by client."""

from typing import NamedTuple

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing import split as splits
from fedgrid.engine.federation.partition.scenarios import build_scenario
from fedgrid.engine.federation.partition.settings import Split


class Held(NamedTuple):
    """The images of one client of a partition, by position."""

    client: int
    cluster: int
    train: np.ndarray
    test: np.ndarray

    @property
    def positions(self):
        """Positions of its training and test images, sorted."""
        return np.sort(np.concatenate([self.train, self.test]))


def list_held(partition):
    """List what each client holds; of tests in the official test set the positions there."""
    clients = zip(partition.group_K, partition.train_K, partition.test_K, strict=True)
    return [Held(client, *held) for client, held in enumerate(clients)]


def deal_labels(labels, kind, clients, *, dataset="digits", seed=0, of_pool=None, **options):
    """Deal a pool with these labels to clients.

    Args:
        labels: class of each image of the pool.
        kind: of split.
        clients: number of clients.
        dataset: name by which the papers' sizes of clients are looked up.
        seed: of the dealing.
        of_pool: groups, subjects or a file of the pool.
        options: further keys of the split.
    """
    pool = ImageSet(np.empty((0, 1, 8, 8), np.uint8), labels, **(of_pool or {}))
    scenario = build_scenario(dataset, kind, clients)
    split = Split(kind=kind, **options)
    return list_held(splits.split_pool(pool, int(labels.max()) + 1, scenario, split, seed))


def find_leakage(parts):
    """Compute the share of a client's test images that any other client trains on, mean over clients."""
    every_train = np.unique(np.concatenate([part.train for part in parts]))
    return float(np.mean([np.isin(part.test, every_train).mean() for part in parts]))

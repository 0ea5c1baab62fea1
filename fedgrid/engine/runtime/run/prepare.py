"""The images of a run, loaded and dealt out."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.before_training.setup import build_setup, deal_after_moves, deal_images
from fedgrid.engine.federation.clients.messages import Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.runtime.data.datasets import find_dataset, load_with_digest
from fedgrid.engine.runtime.data.partition_files import add_partition
from fedgrid.engine.runtime.plugins.active import activate_plugins
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm


def load_run_images(config: RunConfig, data_dir: Path) -> tuple[Pair, str]:
    """Load the images of a run's data set, and their digest; activates the run's plugins.

    Raises:
        DataError: the images cannot be loaded.
    """
    activate_plugins(config.plugin_digests)
    read = DATASETS[config.dataset].read if config.dataset in DATASETS else None
    return _load_images(config.dataset, read, data_dir)


@lru_cache(maxsize=1)
def _load_images(name: str, read: Callable[[Path], Pair] | None, data_dir: Path) -> tuple[Pair, str]:
    """Load the images of a data set, or take those of the last call: a grid's next run mostly has the same.

    `read` distinguishes versions of a plugin's data set.
    """
    return load_with_digest(name, data_dir)


def prepare_setup(config: RunConfig, data_dir: Path) -> tuple[Setup, np.ndarray]:
    """Load and deal out the images of a run; return what clients need and their true clusters, shape (K,).

    Raises:
        DataError: the images cannot be loaded.
        ConfigError: the data set cannot carry the split.
    """
    images = add_partition(load_run_images(config, data_dir)[0], config.split)
    return build_setup(
        config, build_algorithm(config), images, find_dataset(config.dataset, data_dir).num_classes
    )


def find_partition(config: RunConfig, data_dir: Path, round_index: int) -> Partition:
    """Find which images each client holds in a round, from 0, as positions among the images of
    `prepare_setup`.

    Raises:
        DataError: the images cannot be loaded.
    """
    images = add_partition(load_run_images(config, data_dir)[0], config.split)
    num_classes = find_dataset(config.dataset, data_dir).num_classes
    start = deal_images(config, images, num_classes)
    end = deal_after_moves(config, images, num_classes, start)
    moved = {client for client, move in config.drift.items() if round_index >= move.round - 1}
    parts_K = [end if client in moved else start for client in range(config.clients)]
    return replace(
        start,
        group_K=[part.group_K[client] for client, part in enumerate(parts_K)],
        train_K=[part.train_K[client] for client, part in enumerate(parts_K)],
        test_K=[part.test_K[client] for client, part in enumerate(parts_K)],
    )

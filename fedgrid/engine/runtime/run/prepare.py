"""The images of a run, loaded and dealt out."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.before_training.setup import deal, deal_again, setup_of
from fedgrid.engine.federation.clients.messages import Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.runtime.data.datasets import find, load_known
from fedgrid.engine.runtime.data.partition_files import with_file
from fedgrid.engine.runtime.plugins.active import activate
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of


def images_of(config: RunConfig, data_dir: Path) -> tuple[Pair, str]:
    """Load the images of a run's data set, and their digest; activates the run's plugins.

    Raises:
        DataError: the images cannot be loaded.
    """
    activate(config.plugin_digests)
    read = DATASETS[config.dataset].read if config.dataset in DATASETS else None
    return _images(config.dataset, read, data_dir)


@lru_cache(maxsize=1)
def _images(name: str, read: Callable[[Path], Pair] | None, data_dir: Path) -> tuple[Pair, str]:
    """Load the images of a data set, or take those of the last call: a grid's next run mostly has the same.

    `read` distinguishes versions of a plugin's data set.
    """
    return load_known(name, data_dir)


def prepare(config: RunConfig, data_dir: Path) -> tuple[Setup, np.ndarray]:
    """Load and deal out the images of a run; return what clients need and their true clusters, shape (K,).

    Raises:
        DataError: the images cannot be loaded.
        ConfigError: the data set cannot carry the split.
    """
    images = with_file(images_of(config, data_dir)[0], config.split)
    return setup_of(config, algorithm_of(config), images, find(config.dataset, data_dir).num_classes)


def held_in(config: RunConfig, data_dir: Path, round_index: int) -> Partition:
    """Find which images each client holds in a round, from 0, as positions among the images of `prepare`.

    Raises:
        DataError: the images cannot be loaded.
    """
    images = with_file(images_of(config, data_dir)[0], config.split)
    num_classes = find(config.dataset, data_dir).num_classes
    start = deal(config, images, num_classes)
    end = deal_again(config, images, num_classes, start)
    moved = {client for client, move in config.drift.items() if round_index >= move.round - 1}
    of_each = [end if client in moved else start for client in range(config.clients)]
    return replace(
        start,
        group_K=[part.group_K[client] for client, part in enumerate(of_each)],
        train_K=[part.train_K[client] for client, part in enumerate(of_each)],
        test_K=[part.test_K[client] for client, part in enumerate(of_each)],
    )

"""What the clients of a run are given: images, settings and the hidden groups that only scores see."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from fedgrid.engine.before_training.deal import deal
from fedgrid.engine.clients.messages import Setup
from fedgrid.engine.configuration.algorithm_of import algorithm_of
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data.datasets import find
from fedgrid.engine.data.identity import load_known
from fedgrid.engine.data.pixel_statistics import statistics_for
from fedgrid.engine.data.readers import Pair
from fedgrid.engine.disturbances.held import client_data
from fedgrid.engine.disturbances.moved import moved_parts
from fedgrid.engine.partition.kinds import transform_of
from fedgrid.engine.partition.server_images import hold_out, server_parts, sets_of_groups
from fedgrid.engine.partition.split import client_sets
from fedgrid.engine.plugins import active


@lru_cache(maxsize=1)
def images_of(name: str, data_dir: Path) -> tuple[Pair, str]:
    """Keep the images of the last data set, and their digest: a grid's next run mostly has the same."""
    return load_known(name, data_dir)


def prepare(config: RunConfig, data_dir: Path) -> tuple[Setup, np.ndarray]:
    """Load and deal out the images of a run; return what clients need and their true clusters, shape (K,)."""
    (pool_set, official), _ = images_of(config.dataset, data_dir)
    splits = deal(config, (pool_set, official), data_dir)
    num_classes = find(config.dataset, data_dir).num_classes
    transform = transform_of(config.split, num_classes)
    rest, _ = hold_out(official, config.split.reference_images, config.root_seed)
    source = pool_set, rest, transform
    of_split = config.split_scenario, num_classes, config.split, config.seed
    moved = moved_parts(config.drift, splits, pool_set, rest, *of_split)
    sets = client_sets(splits, *source), client_sets(moved, *source)
    server_set, reference_set = sets_of_groups(official, config.split, config.root_seed, transform)
    sends = algorithm_of(config).traits.sends_updates
    setup = Setup(
        model=config.model,
        num_classes=num_classes,
        training=config.training.local,
        seed=config.root_seed,
        clients=client_data(*sets, config.drift, config.faults, num_classes, config.root_seed, sends=sends),
        server_set=server_set,
        server_parts=server_parts(len(server_set), config.clients),
        reference_set=reference_set,
        normalised_by=statistics_for(config.training, pool_set),
        uplink=config.uplink if sends else (),
        plugins=active.sources(config.plugin_digests),
    )
    return setup, np.array([part.cluster for part in splits], np.int64)

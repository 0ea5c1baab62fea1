"""What the clients of a run are given: images, settings and the hidden groups that only scores see."""

import numpy as np

from fedgrid.algorithms.contract.base import Algorithm
from fedgrid.engine.federation.before_training.deal import deal, deal_again
from fedgrid.engine.federation.clients.messages import Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.data.pixel_statistics import statistics_for
from fedgrid.engine.federation.dealing.kinds import transform_of
from fedgrid.engine.federation.dealing.server_images import hold_out, server_parts, sets_of_groups
from fedgrid.engine.federation.dealing.split import client_sets
from fedgrid.engine.federation.disturbances.held import client_data


def setup_of(
    config: RunConfig, algorithm: Algorithm, images: Pair, num_classes: int
) -> tuple[Setup, np.ndarray]:
    """Deal out the images of a run; return what clients need and their true clusters, shape (K,).

    Args:
        config: the run's.
        algorithm: the run's.
        images: its data set's pool and official test set.
        num_classes: of the data set.
    """
    pool_set, official = images
    splits = deal(config, images, num_classes)
    transform = transform_of(config.split, num_classes)
    rest, _ = hold_out(official, config.split.reference_images, config.root_seed)
    source = pool_set, rest, transform
    moved = deal_again(config, images, num_classes, splits)
    sets = client_sets(splits, *source), client_sets(moved, *source)
    server_set, reference_set = sets_of_groups(official, config.split, config.root_seed, transform)
    sends = algorithm.traits.sends_updates
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
        plugins=config.plugin_digests,
    )
    return setup, np.array([part.cluster for part in splits], np.int64)

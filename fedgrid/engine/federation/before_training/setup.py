"""What the clients of a run are given: images, settings and the hidden groups that only scores see."""

from collections.abc import Sequence

import numpy as np

from fedgrid.algorithms.contract.base import Algorithm
from fedgrid.engine.federation.before_training.deal import deal, deal_again
from fedgrid.engine.federation.clients.messages import ClientData, Moved, Setup
from fedgrid.engine.federation.configuration.faults import flipped, noisy
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import HeldImages, Pair, PixelStatistics
from fedgrid.engine.federation.dealing.kinds import transform_of
from fedgrid.engine.federation.dealing.server_images import hold_out, server_parts, sets_of_groups
from fedgrid.engine.federation.dealing.split import client_sets
from fedgrid.engine.federation.seeds import generator

Sets = tuple[HeldImages, HeldImages]
"""A client's training and test images."""


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
    moved = deal_again(config, images, num_classes, splits)
    transform = transform_of(config.split, num_classes)
    rest, _ = hold_out(official, config.split.reference_images, config.root_seed)
    sets_K, new_sets = (client_sets(parts, pool_set, rest, transform) for parts in (splits, moved))
    server_set, reference_set = sets_of_groups(official, config.split, config.root_seed, transform)
    sends = algorithm.traits.sends_updates
    normalises = config.training.normalise == "dataset"
    setup = Setup(
        model=config.model,
        num_classes=num_classes,
        training=config.training.local,
        seed=config.root_seed,
        clients=_clients(config, num_classes, sets_K, new_sets, sends=sends),
        server_set=server_set,
        server_parts=server_parts(len(server_set), config.clients),
        reference_set=reference_set,
        normalised_by=PixelStatistics.of(pool_set.images) if normalises else None,
        uplink=config.uplink if sends else (),
        plugins=config.plugin_digests,
    )
    return setup, np.array([part.cluster for part in splits], np.int64)


def _clients(
    config: RunConfig, num_classes: int, sets_K: Sequence[Sets], new_sets: Sequence[Sets], *, sends: bool
) -> tuple[ClientData, ...]:
    """Return what the clients of a run are given: attackers and those that move other data than the rest.

    `sets_K` are their images at the start, `new_sets` those of `config.drift`, in its order. Unless a client
    `sends` its updates, there is nothing to multiply.
    """
    faults = config.faults

    def trained_on(client: int, train: HeldImages) -> HeldImages:
        if client in faults.label_noise:
            rng = generator(config.root_seed, "label noise", client=client)
            train = noisy(train, num_classes, faults.label_noise[client], rng)
        return flipped(train, num_classes) if client in faults.label_flip else train

    moved = {
        client: Moved(move.round - 1, move.to, trained_on(client, train), test)
        for (client, move), (train, test) in zip(config.drift.items(), new_sets, strict=True)
    }
    return tuple(
        ClientData(
            client,
            trained_on(client, train),
            test,
            moved.get(client),
            faults.factor(client) if sends else 1.0,
            faults.name(client),
        )
        for client, (train, test) in enumerate(sets_K)
    )

"""The setup of a run: its clients' images, settings, and the hidden groups that only scores see.

Without torch: a driver checks the splits of all runs first.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import Algorithm
from fedgrid.engine.federation.clients.messages import ClientData, Moved, Setup
from fedgrid.engine.federation.configuration.faults import add_label_noise, flip_labels
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.data.images import ChannelStatistics, HeldImages, ImageSet, Pair
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.dealing.holdouts import (
    build_group_sets,
    divide_server_tests,
    hold_out_reference,
)
from fedgrid.engine.federation.dealing.kinds import find_changes, find_kind
from fedgrid.engine.federation.dealing.split import (
    add_official_tests,
    build_client_sets,
    check_both_sets,
    cut_clients,
    reduce_quantity,
    split_pool,
)
from fedgrid.engine.federation.partition.kind import ImagePool
from fedgrid.engine.federation.seeds import make_generator

Sets = tuple[HeldImages, HeldImages]
"""A client's training and test images."""


def deal_images(config: RunConfig, pair: Pair, num_classes: int) -> Partition:
    """Deal the images of a data set to the clients of a run; needs classes, groups and size, but no pixels.

    Raises:
        ConfigError: a split that the data set cannot carry.
    """
    partition = split_pool(pair[0], num_classes, config.split_scenario, config.split, config.seed)
    return _add_official_tests(config, pair, partition)


def deal_after_moves(config: RunConfig, pair: Pair, num_classes: int, partition: Partition) -> Partition:
    """Deal images again to the clients of `config.drift`, which move to another hidden group.

    A pure function, so that every process finds the same images.

    Args:
        config: The run's configuration.
        pair: The data set's pool and official test set, as for `deal_images`.
        num_classes: Number of classes, L.
        partition: The images at the start, from `deal_images`.

    Returns:
        What all clients hold once those have moved.

    Raises:
        ConfigError: a client would have no training or no test image.
    """
    if not config.drift:
        return partition
    scenario, split, seed = config.split_scenario, config.split, config.seed
    pool, kind = ImagePool.from_images(pair[0], num_classes), find_kind(config.split.kind)
    group_K, train_K, test_K = [*partition.group_K], [*partition.train_K], [*partition.test_K]
    stay = [client for client in range(partition.num_clients) if client not in config.drift]
    # Where images are cut by subject, no client may train on a subject that another one is scored on: the cut
    # of a mover's images follows that of the clients that stay.
    staying = Partition(
        [group_K[client] for client in stay],
        [train_K[client] for client in stay],
        [test_K[client] for client in stay],
    )
    for client, move in config.drift.items():
        # A generator a client: what one mover draws does not depend on which others move.
        rng = make_generator(seed, f"drift of {scenario.seed_text}", client=client)
        group_K[client] = move.to
        held = kind.draw_again(scenario, pool, split, seed, rng, move.to)
        if held is not None:
            dealt = Partition([move.to], [reduce_quantity(held, split, rng)])
            alone = cut_clients(scenario, dealt, [rng], pool, split, seed, staying)
            [train_K[client]], [test_K[client]] = alone.train_K, alone.test_K
    moved = replace(partition, group_K=group_K, train_K=train_K, test_K=test_K)
    check_both_sets(moved, split)
    return _add_official_tests(config, pair, moved)


def _add_official_tests(config: RunConfig, pair: Pair, partition: Partition) -> Partition:
    """Add the official test images to the clients, if these are what they are tested on."""
    pool, official = pair
    rest, _ = hold_out_reference(official, config.split.reference_images, config.root_seed)
    if config.split.tested_on != "official" or config.split.scored_on != "test":
        return partition
    return add_official_tests(partition, pool, rest, config.split.kind)


def build_setup(
    config: RunConfig, algorithm: Algorithm, images: Pair, num_classes: int
) -> tuple[Setup, np.ndarray]:
    """Deal out the images of a run; return what clients need and their true clusters, shape (K,).

    Args:
        config: The run's configuration.
        algorithm: The run's algorithm; one that sends no updates needs no uplink.
        images: The data set's pool and official test set.
        num_classes: Number of classes, L.

    Raises:
        ConfigError: a split that the data set cannot carry.
    """
    pool_set, official = images
    # 1. Who holds which images, before and after clients move; positions only.
    partition = deal_images(config, images, num_classes)
    moved = deal_after_moves(config, images, num_classes, partition)
    changes = find_changes(config.split, config.clients, num_classes)
    # 2. The images themselves. Numbers to predict are standardised by what clients train on, never by test
    # rows.
    if names.has_target(config.dataset):
        pool_set, official = _standardise_labels(images, pool_set.labels[np.concatenate(partition.train_K)])
    rest, _ = hold_out_reference(official, config.split.reference_images, config.root_seed)
    sets_K = build_client_sets(partition, pool_set, rest, changes)
    new_sets = build_client_sets(moved, pool_set, rest, changes, config.drift)
    server_set, reference_set = build_group_sets(official, config.split, config.root_seed, changes)
    # 3. Attackers and group names, then everything that clients get.
    sends = algorithm.traits.sends_updates
    clients = _build_clients(config, num_classes, sets_K, new_sets, sends=sends)
    if names_of_groups := partition.group_names:
        clients = tuple(
            replace(client, group=names_of_groups[group])
            for client, group in zip(clients, partition.group_K, strict=True)
        )
    setup = Setup(
        model=config.model,
        num_classes=num_classes,
        training=config.training.local,
        seed=config.root_seed,
        clients=clients,
        server_set=server_set,
        server_parts=divide_server_tests(len(server_set), config.clients),
        reference_set=reference_set,
        probabilities=config.evaluation.probabilities,
        normalised_by=_compute_statistics(config, pool_set, sets_K),
        uplink=config.uplink if sends else (),
        plugins=config.plugin_digests,
    )
    return setup, np.array(partition.group_K, np.int64)


def _standardise_labels(images: Pair, numbers: NDArray[np.float32]) -> Pair:
    """Shift and scale labels so that those that clients train on, `numbers`, have mean 0 and deviation 1."""
    # A constant target has deviation 0, and stays constant with a divisor of 1.
    mean, deviation = numbers.mean(dtype=np.float64), numbers.std(dtype=np.float64) or 1.0
    pool, official = (
        replace(part, labels=((part.labels - mean) / deviation).astype(np.float32)) for part in images
    )
    return pool, official


def _compute_statistics(
    config: RunConfig, pool: ImageSet, sets_K: Sequence[Sets]
) -> ChannelStatistics | None:
    """Compute those by which models normalise: of a pool of images, or of the rows that clients train on."""
    if config.training.normalise == "none":
        return None
    is_pixels = pool.inputs.kind == "pixels"
    return ChannelStatistics.measure(
        pool.images if is_pixels else np.concatenate([train.images for train, _ in sets_K])
    )


def _build_clients(
    config: RunConfig, num_classes: int, sets_K: Sequence[Sets], new_sets: Sequence[Sets], *, sends: bool
) -> tuple[ClientData, ...]:
    """Build what the clients of a run hold: attackers, and those that move, hold other data than the rest.

    Args:
        config: The run's configuration.
        num_classes: Number of classes, L.
        sets_K: The clients' images at the start.
        new_sets: Those of the clients of `config.drift`, in its order.
        sends: Whether clients send updates; else there is nothing to multiply.
    """
    faults = config.faults

    def apply_label_faults(client: int, train: HeldImages) -> HeldImages:
        """Change the labels that an attacker trains on; those of other clients stay."""
        if client in faults.label_noise:
            rng = make_generator(config.root_seed, "label noise", client=client)
            train = add_label_noise(train, num_classes, faults.label_noise[client], rng)
        return flip_labels(train, num_classes) if client in faults.label_flip else train

    moved = {
        client: Moved(move.round - 1, move.to, apply_label_faults(client, train), test)
        for (client, move), (train, test) in zip(config.drift.items(), new_sets, strict=True)
    }
    return tuple(
        ClientData(
            client,
            apply_label_faults(client, train),
            test,
            moved.get(client),
            faults.factor(client) if sends else 1.0,
            faults.name(client),
        )
        for client, (train, test) in enumerate(sets_K)
    )

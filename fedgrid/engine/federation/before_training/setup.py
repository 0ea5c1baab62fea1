"""What the clients of a run are given: images, settings and the hidden groups that only scores see.

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
from fedgrid.engine.federation.dealing.holdouts import hold_out, server_parts, sets_of_groups
from fedgrid.engine.federation.dealing.kinds import Movable, changes_of, kind_of
from fedgrid.engine.federation.dealing.split import (
    ClientSplit,
    add_official_tests,
    client_sets,
    cut,
    positions_by_class,
    reduce_quantity,
    require_images,
    split_pool,
)
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.scenarios import ImagePool
from fedgrid.engine.federation.seeds import generator

Sets = tuple[HeldImages, HeldImages]
"""A client's training and test images."""


def deal(config: RunConfig, pair: Pair, num_classes: int) -> tuple[ClientSplit, ...]:
    """Return which client holds which images; needs their classes, groups and size, but no pixels.

    Raises:
        ConfigError: a split that the data set cannot carry.
    """
    pool, _ = pair
    parts_K = split_pool(
        pool.classes,
        dataset=config.dataset,
        num_classes=num_classes,
        num_clients=config.clients,
        split=config.split,
        seed=config.seed,
        shape=pool.images.shape[1:],
        pool_groups=pool.groups,
        group_names=pool.group_names,
        assigned=pool.assigned,
        pool_subjects=pool.subjects,
    )
    return _add_official_tests(config, pair, parts_K)


def deal_again(
    config: RunConfig, pair: Pair, num_classes: int, parts_K: Sequence[ClientSplit]
) -> tuple[ClientSplit, ...]:
    """Return what the clients of `config.drift`, in its order, hold after their moves. A pure function.

    Needs what `deal` needs; `parts_K` is what it has returned.

    Raises:
        ConfigError: a client would have no training or no test image.
    """
    if not config.drift:
        return ()
    (pool, _), scenario, split, seed = pair, config.split_scenario, config.split, config.seed
    images = ImagePool(positions_by_class(pool.classes, num_classes), pool.classes, subjects_N=pool.subjects)
    staying = [(part.train, part.test) for part in parts_K if part.client not in config.drift]
    kind = kind_of(split.kind)
    assert isinstance(kind, Movable), "`RunConfig` has seen that"
    moved = []
    for client, move in config.drift.items():
        rng = generator(seed, f"drift of {scenario.seed_text}", client=client)
        held = kind.draw_again(scenario, images, split, seed, rng, move.to)
        if held is None:
            moved.append(replace(parts_K[client], cluster=move.to))
        else:
            held = reduce_quantity(held, split, rng)
            [parts] = cut(scenario, [held], [rng], images, split, seed, staying)
            moved.append(ClientSplit(client, move.to, *parts))
    require_images(moved, split)
    return _add_official_tests(config, pair, moved)


def _add_official_tests(
    config: RunConfig, pair: Pair, parts_K: Sequence[ClientSplit]
) -> tuple[ClientSplit, ...]:
    """Return the clients with the official test images, if these are what they are tested on."""
    pool, official = pair
    rest, _ = hold_out(official, config.split.reference_images, config.root_seed)
    if config.split.tested_on != "official" or config.split.scored_on != "test":
        return tuple(parts_K)
    return add_official_tests(parts_K, pool, rest, config.split.kind)


def setup_of(
    config: RunConfig, algorithm: Algorithm, images: Pair, num_classes: int
) -> tuple[Setup, np.ndarray]:
    """Deal out the images of a run; return what clients need and their true clusters, shape (K,).

    `images` are its data set's pool and official test set.
    """
    pool_set, official = images
    splits = deal(config, images, num_classes)
    moved = deal_again(config, images, num_classes, splits)
    changes = changes_of(config.split, config.clients, num_classes)
    if names.has_target(config.dataset):
        rows = np.concatenate([part.train for part in splits])
        pool_set, official = _standardised(images, pool_set.labels[rows])
    rest, _ = hold_out(official, config.split.reference_images, config.root_seed)
    sets_K, new_sets = (client_sets(parts, pool_set, rest, changes) for parts in (splits, moved))
    server_set, reference_set = sets_of_groups(official, config.split, config.root_seed, changes)
    sends = algorithm.traits.sends_updates
    clients = _clients(config, num_classes, sets_K, new_sets, sends=sends)
    if group_names := _group_names(config.split.kind, pool_set):
        clients = tuple(
            replace(client, group=group_names[part.cluster])
            for client, part in zip(clients, splits, strict=True)
        )
    setup = Setup(
        model=config.model,
        num_classes=num_classes,
        training=config.training.local,
        seed=config.root_seed,
        clients=clients,
        server_set=server_set,
        server_parts=server_parts(len(server_set), config.clients),
        reference_set=reference_set,
        probabilities=config.evaluation.probabilities,
        normalised_by=_statistics(config, pool_set, sets_K),
        uplink=config.uplink if sends else (),
        plugins=config.plugin_digests,
    )
    return setup, np.array([part.cluster for part in splits], np.int64)


def _standardised(images: Pair, numbers: NDArray[np.float32]) -> Pair:
    """Return images whose labels have mean 0 and deviation 1 where clients train on `numbers`."""
    mean, deviation = numbers.mean(dtype=np.float64), numbers.std(dtype=np.float64) or 1.0
    pool, official = (
        replace(part, labels=((part.labels - mean) / deviation).astype(np.float32)) for part in images
    )
    return pool, official


def _statistics(config: RunConfig, pool: ImageSet, sets_K: Sequence[Sets]) -> ChannelStatistics | None:
    """Return those by which models normalise: of a pool of images, or of the rows that clients train on."""
    if config.training.normalise == "none":
        return None
    is_pixels = pool.inputs.kind == "pixels"
    return ChannelStatistics.of(
        pool.images if is_pixels else np.concatenate([train.images for train, _ in sets_K])
    )


def _group_names(kind: str, pool: ImageSet) -> tuple[str, ...]:
    """Return what the data set or a file calls the hidden groups; empty where the split makes them."""
    if kind == FILE:
        assert pool.assigned is not None, "`deal` has seen it"
        return pool.assigned.group_names
    return pool.group_names if kind == NATURAL else ()


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
            train = add_label_noise(train, num_classes, faults.label_noise[client], rng)
        return flip_labels(train, num_classes) if client in faults.label_flip else train

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

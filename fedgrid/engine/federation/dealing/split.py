"""Split a pool of images among clients, and each client's images into training and test set.

The kind of split (`federation.dealing.kinds`) decides which client holds which images. The cut into training
and test images (`federation.dealing.holdouts`) is the same for every kind: 30 % of a client's images, rounded
up, are its test set; or all are for training, and the test set is of official test images.

The published splits LEAK: clients draw independently, so 43 to 52 % of a client's test images are in the
training set of another client. This inflates the scores of every algorithm that trains clients together, so
it is done with `test_leakage='published'` only, as in the `paper` presets. Else a seeded 30 % of each class
is test data for every client, the rest is training data. Clients hold the same images either way; the sizes
of a client's two sets are then right in expectation instead of exactly. A kind whose clients share no images
never leaks.

Shapes: K clients, L classes, N images.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import log

import numpy as np

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.images import HeldImages, ImageSet, ImageView
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.data.tables.options import MIN_ROWS
from fedgrid.engine.federation.dealing import kinds
from fedgrid.engine.federation.dealing.holdouts import cut_by_subject, cut_each, cut_for_all
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.kind import Changes, ImagePool, Rngs
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator


def split_pool(images: ImageSet, num_classes: int, scenario: Scenario, split: Split, seed: int) -> Partition:
    """Split a pool among clients, and cut each client's images into training and test images.

    A pure function of its arguments. With `split.tested_on='official'` the test sets are empty;
    `add_official_tests` fills them.

    Args:
        images: the pool; of its images only the shape is used, and there may be none.
        num_classes: L; classes are numbered from 0, and every one is present.
        scenario: data set, kind of split and number of clients; different ones draw independently.
        split: settings.
        seed: the run's seed.

    Raises:
        ConfigError: the settings do not fit the pool or one another.
    """
    num_groups = None if images.groups is None else int(images.groups.max()) + 1
    facts = Facts(
        num_classes=num_classes,
        inputs=images.inputs,
        pool_size=len(images),
        num_groups=num_groups,
        assigned=images.assigned,
    )
    # 1. Check before anything is drawn.
    kinds.check_split(scenario, facts, split, seed)
    pool = ImagePool.from_images(images, num_classes)
    # 2. Deal the images. A client's generator goes on to its cut: one more draw in a deal would move all test
    # sets.
    rngs_K = [
        make_generator(seed, f"split of {scenario.seed_text}", client=client)
        for client in range(scenario.num_clients)
    ]
    dealt = kinds.find_kind(split.kind).deal_images(scenario, pool, split, seed, rngs_K)
    # 3. Leave each client a share of them, with generators of their own.
    if split.quantity != 1:
        purpose = f"quantity of {scenario.seed_text}"
        dealt = dealt.restrict_to(
            [
                reduce_quantity(held, split, make_generator(seed, purpose, client=client))
                for client, held in enumerate(dealt.held_K)
            ]
        )
    # 4. Cut what is left into training and test images.
    partition = cut_clients(scenario, dealt, rngs_K, pool, split, seed)
    check_both_sets(partition, split)
    return partition


def reduce_quantity(held: Positions, split: Split, rng: np.random.Generator) -> Positions:
    """Choose what `split.quantity` leaves a client of its images, ascending: at least two, if it has two."""
    if split.quantity == 1:
        return held
    # Uniform in the exponent is log-uniform between `quantity` and 1.
    share = split.quantity ** rng.random()
    count = min(len(held), max(2, round(share * len(held))))
    return np.sort(rng.choice(held, count, replace=False))


def compute_mean_share(quantity: float) -> float:
    """Compute the mean of a share that is log-uniform between `quantity` and 1."""
    return 1.0 if quantity == 1 else (1 - quantity) / -log(quantity)


def cut_clients(
    scenario: Scenario,
    dealt: Partition,
    rngs_K: Rngs,
    pool: ImagePool,
    split: Split,
    seed: int,
    fixed: Partition | None = None,
) -> Partition:
    """Cut the images that clients hold into training and test images, by the rule of the scenario's kind.

    Args:
        scenario: data set, kind of split and number of clients.
        dealt: the images of each client.
        rngs_K: a generator for each client.
        pool: the pool that the positions are of.
        split: settings.
        seed: the run's seed.
        fixed: clients that are cut already and stay as they are. Default: none.
    """
    are_shared = kinds.find_kind(scenario.split).IMAGES_ARE_SHARED
    if scenario.split == FILE:
        assert pool.assigned is not None, "`check` has seen it"
        are_shared = pool.assigned.has_shared_examples
    if pool.subjects_N is not None and not dealt.is_cut:
        return cut_by_subject(dealt, rngs_K, pool.subjects_N, split, seed, scenario.seed_text, fixed)
    if are_shared and not dealt.is_cut and split.test_leakage == "none":
        return cut_for_all(dealt, pool.positions_L, split, seed, scenario.seed_text)
    return cut_each(dealt, rngs_K, split, seed, scenario.seed_text)


def add_official_tests(partition: Partition, pool: ImageSet, official: ImageSet, split: str) -> Partition:
    """Give each client the official test images of the labels that it trains on, all of them.

    Two clients with a label in common have test images in common. With split natural a client's test images
    are those of its own group.

    Args:
        partition: the clients, with their training images.
        pool: the images that these are positions in.
        official: the official test set.
        split: the kind of split.

    Raises:
        ConfigError: a client has no test image, or with split natural the test images have no groups.
    """
    if split == NATURAL and official.groups is None:
        raise ConfigError(
            "split.tested_on = official: the official test images have no groups, so no client of split "
            "natural has any of them; take own",
            ("split", "tested_on"),
        )
    test_K = []
    for group, train in zip(partition.group_K, partition.train_K, strict=True):
        is_test = np.isin(official.classes, np.unique(pool.classes[train]))
        if split == NATURAL:
            is_test &= official.groups == group
        test_K.append(np.flatnonzero(is_test))
    tested = replace(partition, test_K=test_K, is_official=True)
    _check_not_empty(tested, "official test", "take fewer split.reference_images, or split.tested_on own")
    return tested


def build_client_sets(
    partition: Partition,
    pool: ImageSet,
    official: ImageSet,
    changes: Changes | None,
    clients: Iterable[int] | None = None,
) -> list[tuple[HeldImages, HeldImages]]:
    """Build the training and test images of `clients`, as `changes` makes them for each.

    Without changes they are views of `pool` and `official`: no image is copied. Clients with the same change
    and official test images share one object: a hundred may have the whole test set each.

    Args:
        partition: the clients and their examples.
        pool: the images that are split.
        official: the official test set.
        changes: what groups, or clients, do to their images; None: nothing.
        clients: the clients. Default: all.

    Returns:
        (training images, test images) of each client.
    """
    pool, official = pool.without_groups(), official.without_groups()

    def make_set(images: ImageSet, positions: Positions, change: int) -> HeldImages:
        """View the images at some positions, or copy and change them."""
        view = ImageView(images, positions)
        return view if changes is None else changes.make(view.copy_images(), change)

    shared: dict[tuple[int, bytes], HeldImages] = {}
    sets = []
    for client in range(partition.num_clients) if clients is None else clients:
        train, tests = partition.train_K[client], partition.test_K[client]
        change = client if changes and changes.by_client else partition.group_K[client]
        if partition.is_official:
            # Clients with the same labels have the same positions; bytes make them a key.
            key = change if changes else 0, tests.tobytes()
            if key not in shared:
                shared[key] = make_set(official, tests, change)
            test = shared[key]
        else:
            test = make_set(pool, tests, change)
        sets.append((make_set(pool, train, change), test))
    return sets


def check_both_sets(partition: Partition, split: Split) -> None:
    """Check that every client has training and test images, unless it is tested on official images.

    Raises:
        ConfigError: one has none.
    """
    if split.tested_on == "own" or split.scored_on == "validation":
        helps = "take fewer clients"
        if "draws" in kinds.find_kind(split.kind).OPTIONS:
            helps += " or more split.draws"
        if split.kind == NATURAL and len(set(partition.group_K)) == partition.num_clients:
            helps = "leave its group out of the data, add images to it, or set split.tested_on=official"
        if split.kind == FILE:
            helps = "leave it out of the file, or give it more"
            if split.path is None:
                helps += f"; of a table, #{MIN_ROWS}=10 leaves out clients with fewer rows"
        _check_not_empty(partition, split.scored_on, helps)


def _check_not_empty(partition: Partition, scored_on: str, helps: str) -> None:
    """Check that no client's training or test set is empty; `helps` is the advice in the message."""
    for client, (train, test) in enumerate(zip(partition.train_K, partition.test_K, strict=True)):
        if len(train) == 0 or len(test) == 0:
            raise ConfigError(
                f"client {client} would hold {len(train)} training and {len(test)} {scored_on} images, but "
                f"needs at least one of each; {helps}"
            )

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from fedgrid.engine.federation.data.images import (
    Assigned,
    ClassLabels,
    Groups,
    HeldImages,
    ImageSet,
    ImageView,
    Positions,
    Subjects,
)
from fedgrid.engine.federation.data.tables.columns import MIN_ROWS
from fedgrid.engine.federation.dealing import kinds
from fedgrid.engine.federation.dealing.holdouts import Cuts, cut_by_subject, cut_each, cut_for_all
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition import from_file
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.scenarios import (
    Changes,
    Facts,
    ImagePool,
    Rngs,
    Scenario,
    scenario_of,
)
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import generator


@dataclass(frozen=True)
class ClientSplit:
    """Images of one client, as positions in the pool: ascending, unique, train and test disjoint."""

    client: int
    cluster: int
    """Hidden group, from 0."""
    train: Positions
    test: Positions
    """Images it is scored on. With `split.scored_on='validation'` none of them is in its test set."""
    is_official: bool = False
    """Whether `test` are positions in the official test set, not in the pool."""


def split_pool(
    pool_labels: ClassLabels,
    *,
    dataset: str,
    num_classes: int,
    num_clients: int,
    split: Split,
    seed: int,
    shape: tuple[int, ...] | None = None,
    pool_groups: Groups | None = None,
    group_names: Sequence[str] = (),
    assigned: Assigned | None = None,
    pool_subjects: Subjects | None = None,
) -> tuple[ClientSplit, ...]:
    """Return the images of each of K clients. A pure function.

    With `split.tested_on='official'` the test sets are empty; `with_official_tests` fills them.

    Args:
        pool_labels: int64, shape (N,), 0..L-1, every class present.
        dataset: its name; with the other choices it names the scenario, and different scenarios draw
            independently. The path of a user's own images has no effect.
        num_classes: L.
        num_clients: K.
        split: settings.
        seed: the run's seed.
        shape: channels, height and width of an image; None is not checked.
        pool_groups: the images' own groups, int64, shape (N,), 0..G-1, none empty; None: they have none.
        group_names: what these are called, for messages.
        assigned: who holds what, for split file.
        pool_subjects: whom each image is about, int64, shape (N,), from 0; None: each about another.

    Raises:
        ConfigError: the settings do not fit the pool or one another.
    """
    scenario = scenario_of(dataset, split.kind, num_clients)
    num_groups = None if pool_groups is None else int(pool_groups.max()) + 1
    facts = Facts(num_classes, len(pool_labels), shape, num_groups, assigned)
    kinds.check(scenario, facts, split, seed)
    kind = kinds.kind_of(split.kind)
    positions_L = positions_by_class(pool_labels, num_classes)
    pool = ImagePool(positions_L, pool_labels, pool_groups, group_names, assigned, pool_subjects)
    rngs_K = [
        generator(seed, f"split of {scenario.seed_text}", client=client) for client in range(num_clients)
    ]
    cluster_K, held_K = kind.deal(scenario, pool, split, seed, rngs_K)
    held_K = [
        reduce_quantity(held, split, generator(seed, f"quantity of {scenario.seed_text}", client=client))
        for client, held in enumerate(held_K)
    ]
    cuts_K = cut(scenario, held_K, rngs_K, pool, split, seed)
    parts_K = tuple(
        ClientSplit(client, cluster, *parts)
        for client, (cluster, parts) in enumerate(zip(cluster_K, cuts_K, strict=True))
    )
    require_images(parts_K, split)
    return parts_K


def reduce_quantity(held: Positions, split: Split, rng: np.random.Generator) -> Positions:
    """Return what `split.quantity` leaves a client of its images, ascending: two at least, if it has two."""
    if split.quantity == 1:
        return held
    share = split.quantity ** rng.random()
    count = min(len(held), max(2, round(share * len(held))))
    return np.sort(rng.choice(held, count, replace=False))


def mean_share_kept(quantity: float) -> float:
    """Return the mean of a share that is log-uniform between `quantity` and 1."""
    return 1.0 if quantity == 1 else (1 - quantity) / -log(quantity)


def cut(
    scenario: Scenario,
    held_K: Sequence[Positions],
    rngs_K: Rngs,
    pool: ImagePool,
    split: Split,
    seed: int,
    before: Cuts | None = None,
) -> Cuts:
    """Cut the images that clients hold into training and test images, as the scenario's kind wants it.

    `before` are the cuts of clients that stay as they are.
    """
    kind = kinds.kind_of(scenario.split)
    are_shared, test_K = kind.IMAGES_ARE_SHARED, None
    if kind is from_file:
        assert pool.assigned is not None, "`check` has seen it"
        are_shared, test_K = pool.assigned.are_shared, pool.assigned.test_K
    if pool.subjects_N is not None and test_K is None:
        return cut_by_subject(held_K, rngs_K, pool.subjects_N, split, seed, scenario.seed_text, before)
    if are_shared and test_K is None and split.test_leakage == "none":
        return cut_for_all(held_K, pool.positions_L, split, seed, scenario.seed_text)
    return cut_each(held_K, rngs_K, split, seed, scenario.seed_text, test_K)


def add_official_tests(
    parts_K: Sequence[ClientSplit], pool: ImageSet, official: ImageSet, split: str
) -> tuple[ClientSplit, ...]:
    """Return the clients with the official test images of the labels that they train on, all of them.

    Two clients with a label in common have test images in common. With split natural a client's test images
    are those of its own group.

    Raises:
        ConfigError: a client has no test image, or with split natural the test images have no groups.
    """
    if split == NATURAL and official.groups is None:
        raise ConfigError(
            "split.tested_on = official: the official test images have no groups, so no client of split "
            "natural has any of them; take own",
            ("split", "tested_on"),
        )
    tested_K = []
    for part in parts_K:
        is_test = np.isin(official.classes, np.unique(pool.classes[part.train]))
        if split == NATURAL:
            is_test &= official.groups == part.cluster
        tested_K.append(replace(part, test=np.flatnonzero(is_test), is_official=True))
    _require_both(tested_K, "official test", "take fewer split.reference_images, or split.tested_on own")
    return tuple(tested_K)


def client_sets(
    parts_K: Sequence[ClientSplit], pool: ImageSet, official: ImageSet, changes: Changes | None
) -> list[tuple[HeldImages, HeldImages]]:
    """Return each client's training and test images, as `changes` makes them for it.

    Without changes they are views of `pool` and `official`: no image is copied. Clients with
    the same change and official test images share one object: a hundred may have the whole test set each.
    """
    pool, official = pool.without_groups(), official.without_groups()

    def held(images: ImageSet, positions: Positions, change: int) -> HeldImages:
        view = ImageView(images, positions)
        return view if changes is None else changes.make(view.copied(), change)

    shared: dict[tuple[int, bytes], HeldImages] = {}
    sets_K = []
    for part in parts_K:
        change = part.client if changes and changes.by_client else part.cluster
        if part.is_official:
            key = change if changes else 0, part.test.tobytes()
            if key not in shared:
                shared[key] = held(official, part.test, change)
            test = shared[key]
        else:
            test = held(pool, part.test, change)
        sets_K.append((held(pool, part.train, change), test))
    return sets_K


def positions_by_class(pool_labels: ClassLabels, num_classes: int) -> tuple[Positions, ...]:
    """Return the positions of each class in the pool, ascending."""
    return tuple(np.flatnonzero(pool_labels == label) for label in range(num_classes))


def require_images(parts_K: Sequence[ClientSplit], split: Split) -> None:
    """Check that every client has images of both kinds, unless it is tested on official images.

    Raises:
        ConfigError: one has none.
    """
    if split.tested_on == "own" or split.scored_on == "validation":
        helps = "take fewer clients"
        if "draws" in kinds.kind_of(split.kind).OPTIONS:
            helps += " or more split.draws"
        if split.kind == NATURAL and len({part.cluster for part in parts_K}) == len(parts_K):
            helps = "leave its group out of the data, add images to it, or set split.tested_on=official"
        if kinds.kind_of(split.kind) is from_file:
            helps = "leave it out of the file, or give it more"
            if split.path is None:
                helps += f"; of a table, #{MIN_ROWS}=10 leaves out clients with fewer rows"
        _require_both(parts_K, split.scored_on, helps)


def _require_both(parts_K: Sequence[ClientSplit], scored_on: str, helps: str) -> None:
    for part in parts_K:
        if len(part.train) == 0 or len(part.test) == 0:
            raise ConfigError(
                f"client {part.client} would hold {len(part.train)} training and {len(part.test)} "
                f"{scored_on} images, but needs at least one of each; {helps}"
            )

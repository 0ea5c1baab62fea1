"""Examples that no client trains on: those that clients are scored on, the server's, reference images.

Either each client has a cut of its own (`cut_each`), or one cut of the pool holds for all clients
(`cut_for_all`): a seeded share of each class is for scores, wherever those images are. If the data name the
subject of each example, subjects stay whole (`cut_by_subject`). With `split.tested_on='official'` there is no
cut for tests: clients train on all their images.

Where hidden groups change images or labels (rotated, rolled, flipped, ...), an equal, seeded share of the
server's images is as each group would have it; with a continuum, as each client would. With flipped or
swapped labels no single model can be right on all.

Shapes: K clients, L classes, N images, S subjects.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import ImageSet, Subjects
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.kind import Changes, Rngs
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator

UNDECIDED, TRAINED, SCORED = range(3)
"""Side of the cut that a subject is on."""


def cut_each(dealt: Partition, rngs_K: Rngs, split: Split, seed: int, scenario: str) -> Partition:
    """Cut each client's images: unless its test set is given, it is `test_share` of them, rounded up.

    With `scored_on='validation'` the test set stays unused and the training images are cut again, by the same
    share; the client is scored on the second part.

    Args:
        dealt: the images of each client.
        rngs_K: a generator for each client, which the deal has already drawn from.
        split: settings.
        seed: the run's seed.
        scenario: the scenario's `seed_text`.
    """
    if dealt.is_cut:
        cut_once = dealt
    elif split.tested_on == "official":
        cut_once = _leave_uncut(dealt)
    else:
        cut_once = _cut_by_client(dealt, rngs_K, split)
    if split.scored_on == "test":
        return cut_once
    # Own generators: searches score on validation images without moving the test images of the final run.
    again_K = [
        make_generator(seed, f"validation of {scenario}", client=client)
        for client in range(dealt.num_clients)
    ]
    return _cut_by_client(cut_once, again_K, split)


def cut_for_all(
    dealt: Partition, positions_L: Sequence[Positions], split: Split, seed: int, scenario: str
) -> Partition:
    """Cut by image, so that no client trains on an image that any client is scored on.

    With `scored_on='validation'` the test images stay unused, and `test_share` of the rest of each class is
    for the scores of all clients.

    Args:
        dealt: the images of each client.
        positions_L: the images of each class in the pool.
        split: settings.
        seed: the run's seed.
        scenario: the scenario's `seed_text`.
    """
    if split.tested_on == "official":
        cut_once, left_L = _leave_uncut(dealt), positions_L
    else:
        is_test = choose_common_tests(
            positions_L, split.test_share, make_generator(seed, f"common test of {scenario}")
        )
        cut_once = _cut_by_image(dealt, is_test)
        left_L = [positions[~is_test[positions]] for positions in positions_L]
    if split.scored_on == "test":
        return cut_once
    rng = make_generator(seed, f"common validation of {scenario}")
    return _cut_by_image(cut_once, choose_common_tests(left_L, split.test_share, rng))


def cut_by_subject(
    dealt: Partition,
    rngs_K: Rngs,
    subjects_N: Subjects,
    split: Split,
    seed: int,
    scenario: str,
    fixed: Partition | None = None,
) -> Partition:
    """Cut by subject, so that no client trains on a subject that any client is scored on.

    Of each client's subjects `test_share`, rounded up but never all, are its test set. A subject that several
    clients hold stays on the side on which an earlier client has put it. `scored_on='validation'` cuts again,
    as in `cut_each`.

    Args:
        dealt: the images of each client.
        rngs_K: a generator for each client.
        subjects_N: the subject of each example of the pool.
        split: settings.
        seed: the run's seed.
        scenario: the scenario's `seed_text`.
        fixed: clients that are cut already and stay as they are. Default: none.

    Raises:
        ConfigError: a client has no subject to train on, or none to be scored on.
    """
    side_S = np.full(1 + subjects_N.max(initial=-1), UNDECIDED)
    if fixed is not None:
        for train, test in zip(fixed.train_K, fixed.test_K, strict=True):
            side_S[subjects_N[train]], side_S[subjects_N[test]] = TRAINED, SCORED
    if split.scored_on == "test" and split.tested_on == "official":
        return _leave_uncut(dealt)
    if split.scored_on == "validation":
        if split.tested_on == "own":
            # The first cut sets the test images aside; its sides say nothing about the second one.
            open_S = np.full(len(side_S), UNDECIDED)
            dealt = _cut_by_side(dealt, rngs_K, subjects_N, split.test_share, open_S)
        rngs_K = [
            make_generator(seed, f"validation of {scenario}", client=client)
            for client in range(dealt.num_clients)
        ]
    return _cut_by_side(dealt, rngs_K, subjects_N, split.test_share, side_S)


def _cut_by_side(
    dealt: Partition,
    rngs_K: Rngs,
    subjects_N: Subjects,
    test_share: float,
    side_S: NDArray[np.int64],
) -> Partition:
    """Cut each client's images by the sides of their subjects, and choose sides for the undecided ones."""
    cuts = []
    for client, (held, rng) in enumerate(zip(dealt.train_K, rngs_K, strict=True)):
        subjects = np.unique(subjects_N[held])
        num_scored = min(round_share(len(subjects), test_share), len(subjects) - 1)
        # Subjects that earlier clients have put on the scored side count towards this client's share.
        num_scored -= int(np.count_nonzero(side_S[subjects] == SCORED))
        left = rng.permutation(subjects[side_S[subjects] == UNDECIDED])
        side_S[left] = TRAINED
        side_S[left[: max(0, num_scored)]] = SCORED
        is_scored = side_S[subjects_N[held]] == SCORED
        if is_scored.all() or not is_scored.any():
            raise ConfigError(
                f"client {client} has rows of {len(subjects)} subjects, and all of these are "
                f"{'tested' if is_scored.any() else 'trained'} on, here or at other clients; give it more "
                "subjects, take fewer clients, or leave the column subject out"
            )
        cuts.append((held[~is_scored], held[is_scored]))
    return dealt.with_cuts(cuts)


def cut_at_random(
    rng: np.random.Generator, held: Positions, test_share: float
) -> tuple[Positions, Positions]:
    """Cut a client's images at random into train and test; test has `test_share` of them, rounded up."""
    num_test = round_share(len(held), test_share)
    shuffled = rng.permutation(held)
    return np.sort(shuffled[num_test:]), np.sort(shuffled[:num_test])


def choose_common_tests(
    positions_L: Sequence[Positions], test_share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose `test_share` of each class, rounded up but never the whole class, as test images.

    Returns:
        For each position in the pool, up to the last one in `positions_L`: whether it is a test image.
    """
    is_test = np.zeros(1 + max(positions.max() for positions in positions_L), bool)
    for positions in positions_L:
        # One image of each class stays for training, however small the class.
        num_test = min(round_share(len(positions), test_share), len(positions) - 1)
        is_test[rng.permutation(positions)[:num_test]] = True
    return is_test


def round_share(count: int, share: float) -> int:
    """Round `share` of `count` up, computed in decimals, so that 0.1 of 30 is 3 and not 4."""
    return ceil(Fraction(repr(share)) * count)


def _leave_uncut(dealt: Partition) -> Partition:
    """Give each client all its images to train on, and none to be scored on."""
    return dealt.with_cuts([(held, held[:0]) for held in dealt.train_K])


def _cut_by_client(dealt: Partition, rngs_K: Rngs, split: Split) -> Partition:
    """Cut each client's images with its own generator."""
    return dealt.with_cuts(
        [cut_at_random(rng, held, split.test_share) for rng, held in zip(rngs_K, dealt.train_K, strict=True)]
    )


def _cut_by_image(dealt: Partition, is_test: NDArray[np.bool_]) -> Partition:
    """Cut each client's images by one mark for each image of the pool."""
    return dealt.with_cuts([(held[~is_test[held]], held[is_test[held]]) for held in dealt.train_K])


def build_server_sets(server: ImageSet, split: Split, seed: int) -> tuple[ImageSet, ImageSet | None]:
    """Divide the official test set into the server's test set and its reference images; None without any.

    Raises:
        ConfigError: `split` sets more images than the official test set has.
    """
    rest, reference = hold_out_reference(server, split.reference_images, seed)
    return draw_server_subset(rest, split.server_images, seed), reference


def build_group_sets(
    official: ImageSet, split: Split, seed: int, changes: Changes | None
) -> tuple[ImageSet, ImageSet | None]:
    """Build the server's test set and reference images, with an equal share for each hidden group.

    With a continuum the shares are the clients'.

    Args:
        official: the official test set.
        split: settings.
        seed: the run's seed.
        changes: what groups, or clients, do to their images; None: nothing.

    Raises:
        ConfigError: as `build_server_sets`.
    """
    sets = build_server_sets(official.without_groups(), split, seed)
    if changes is None:
        return sets
    test_set, reference_set = sets
    return _mix_groups(test_set, changes, seed, "server images"), (
        None if reference_set is None else _mix_groups(reference_set, changes, seed, "reference images")
    )


def _mix_groups(held: ImageSet, changes: Changes, seed: int, purpose: str) -> ImageSet:
    """Change each image as one of the hidden groups, or clients, would; the images keep their order.

    The groups are drawn with the seed; each has as many images as any other, but for one.
    """
    group_N = make_generator(seed, f"groups of {purpose}").permutation(len(held)) % changes.number
    mixture = replace(held.without_groups(), images=held.images.copy(), labels=held.labels.copy())
    for group in range(changes.number):
        is_member = group_N == group
        part = changes.make(held.take(is_member), group)
        mixture.images[is_member], mixture.labels[is_member] = part.images, part.labels
    return mixture


def divide_server_tests(num_images: int, num_clients: int, batch: int = 128) -> dict[int, slice]:
    """Divide the server's test images among the clients, which test the served models on them.

    With more clients than images, a few of the clients test a `batch` each, and the others none: a pass of
    the model takes about as long for one image as for many.

    Returns:
        Client -> its part; clients without one are left out.
    """
    num_parts = num_clients if num_clients <= num_images else max(1, round(num_images / batch))
    # Rounded bounds, not rounded sizes: the parts tile the set, and differ by one image at most.
    bounds = np.linspace(0, num_images, num_parts + 1).round().astype(int)
    return {
        part * num_clients // num_parts: slice(bounds[part], bounds[part + 1]) for part in range(num_parts)
    }


def hold_out_reference(server: ImageSet, count: int | None, seed: int) -> tuple[ImageSet, ImageSet | None]:
    """Hold the reference images out of the official test set.

    Args:
        server: the official test set.
        count: number of reference images; None: none.
        seed: the run's seed.

    Returns:
        The images that are left to test on, and the reference images.

    Raises:
        ConfigError: none are left to test on.
    """
    if count is None:
        return server, None
    if count >= len(server):
        raise ConfigError(
            f"split.reference_images {count}: the official test set has {len(server)} images, of which at "
            f"least one must be left to test on; take at most {len(server) - 1}"
        )
    order = make_generator(seed, "reference images").permutation(len(server))
    # What is left stays in its order, so that a reference set of another size changes as few test batches as
    # possible.
    return server.take(np.sort(order[count:])), server.take(order[:count])


def draw_server_subset(server: ImageSet, count: int | None, seed: int) -> ImageSet:
    """Draw `count` images of the server's test set with the seed; None takes the whole set.

    Raises:
        ConfigError: `count` is more than there are.
    """
    if count is None:
        return server
    if count > len(server):
        raise ConfigError(
            f"split.server_images {count} is more than the {len(server)} images of the server's test set; "
            f"take at most {len(server)}, or leave it out for all"
        )
    return server.take(make_generator(seed, "server images").permutation(len(server))[:count])

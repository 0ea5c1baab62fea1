"""Deal a pool of images out by majority classes: most of what client k holds is of class k mod L.

Source: Bettinelli, Benoit, Grandjean 2024: ten clients of CIFAR-10, 5,000 images each, a share m of them
of the client's own class and the others evenly of the other classes. m = 1 is a class a client, m = 1 / L
the same classes for everybody. Every client holds the same number of images and nobody an image of
another's, so that nothing leaks, whatever `split.test_leakage` says. Where the classes are equally large
and the clients a multiple of them, all of the pool is dealt out; elsewhere as much of it as leaves every
client its share of every class.

Shapes: K clients, L classes.
"""

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.partition.groups import MAJORITY_GROUPS, majority_groups
from fedgrid.engine.partition.holdouts import Positions
from fedgrid.engine.partition.scenarios import Scenario
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.seeds import generator

WITHOUT_EFFECT = ("alpha", "proportions")
"""Options of imbalanced groups."""


def check(scenario: Scenario, num_classes: int, split: Split) -> None:
    """Check that the options of a split are of its kind, and that this kind can be dealt out.

    Raises:
        ConfigError: an option that has no effect, or clients of one hidden group only; with its key.
    """
    if scenario.overlap != "majority":
        for option in ("majority", "first_group"):
            if (given := getattr(split, option)) != _default(option):
                raise ConfigError(
                    f"split.{option} = {given} is of overlap majority, not of {scenario.overlap}",
                    ("split", option),
                )
        return
    if scenario.balance != "balanced":
        raise ConfigError(
            f"balance = {scenario.balance}: with overlap majority all clients have equally many images; "
            "take balanced",
            ("balance",),
        )
    if split.num_clusters != MAJORITY_GROUPS:
        raise ConfigError(
            f"split.num_clusters = {split.num_clusters}: overlap majority has {MAJORITY_GROUPS} hidden "
            "groups; leave it out, and say which classes are one of them with split.first_group",
            ("split", "num_clusters"),
        )
    for option in WITHOUT_EFFECT:
        if (given := getattr(split, option)) != _default(option):
            raise ConfigError(
                f"split.{option} = {given} has no effect on overlap majority; leave it out",
                ("split", option),
            )
    _check_clients(scenario, num_classes, split)


def groups_of_clients(scenario: Scenario, num_classes: int, split: Split) -> list[int]:
    """Return the hidden group of each client, that of its class."""
    group_L = majority_groups(scenario.dataset, num_classes, split.first_group)
    return [group_L[client % num_classes] for client in range(scenario.num_clients)]


def counts(images: int, num_clients: int, num_classes: int, majority: float) -> NDArray[np.int64]:
    """Return how many of a client's `images` are of which class, shape (K, L).

    What the other classes cannot share evenly goes to those that follow the client's own, round the ring:
    so no class gets more of it than another from every L clients.
    """
    own = round(Fraction(repr(majority)) * images)
    each, over = divmod(images - own, num_classes - 1)
    steps_KL = (np.arange(num_classes) - np.arange(num_clients)[:, None]) % num_classes
    return np.where(steps_KL == 0, own, each + (steps_KL <= over))


def images_per_client(available_L: Sequence[int], num_clients: int, split: Split) -> int:
    """Return `split.draws`, or else the most images that every client can hold without sharing any.

    Raises:
        ConfigError: a class runs out.
    """

    def runs_out(images: int) -> bool:
        wanted_L = counts(images, num_clients, len(available_L), split.majority).sum(axis=0)
        return bool((wanted_L > available_L).any())

    most = bisect_left(range(1, sum(available_L) // num_clients + 1), True, key=runs_out)
    if most == 0:
        raise ConfigError(
            f"clients = {num_clients}: with overlap majority their classes have too few images; take fewer",
            ("clients",),
        )
    if split.draws is not None and split.draws > most:
        raise ConfigError(
            f"split.draws = {split.draws}: with overlap majority no image is dealt out twice, which gives "
            f"{num_clients} clients at most {most} each; leave it out for that",
            ("split", "draws"),
        )
    return split.draws or most


def deal(positions_L: Sequence[Positions], scenario: Scenario, split: Split, seed: int) -> list[Positions]:
    """Return what each of K clients holds, ascending: each class, in a seeded order, is cut among them.

    Args:
        positions_L: positions of each class in the pool.
        scenario: one that `check` has passed.
    """
    num_clients, num_classes = scenario.num_clients, len(positions_L)
    images = images_per_client([len(positions) for positions in positions_L], num_clients, split)
    stops_KL = counts(images, num_clients, num_classes, split.majority).cumsum(axis=0)
    parts_LK = [
        np.split(generator(seed, f"class {label} of {scenario.name}").permutation(positions), stops)[:-1]
        for label, (positions, stops) in enumerate(zip(positions_L, stops_KL.T, strict=True))
    ]
    return [np.sort(np.concatenate(parts)) for parts in zip(*parts_LK, strict=True)]


def _check_clients(scenario: Scenario, num_classes: int, split: Split) -> None:
    group_L = majority_groups(scenario.dataset, num_classes, split.first_group)
    least = 1 + max(group_L.index(group) for group in range(MAJORITY_GROUPS))
    if scenario.num_clients < least:
        raise ConfigError(
            f"clients = {scenario.num_clients}: with overlap majority the classes of clients 0 to "
            f"{scenario.num_clients - 1} are all of one hidden group; take at least {least}",
            ("clients",),
        )


def _default(option: str) -> object:
    return Split.model_fields[option].get_default()

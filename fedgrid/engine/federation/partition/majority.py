"""Majority classes: most images of client k are of class k mod L.

Each client holds the same number of images. A share m of them is of the client's own class; the others are
spread evenly over the other classes. m = 1 gives each client one class, m = 1 / L gives all clients the same
mix. No image is held by two clients, so these splits never leak. The whole pool is dealt out if the classes
are equally large and the number of clients is a multiple of L; otherwise as much as leaves each client its
share of each class.

The two hidden groups are groups of classes: those of the source for CIFAR-10, ours for other data sets.

Source: Bettinelli, Benoit, Grandjean 2024 (ten clients of CIFAR-10 with 5,000 images each).

Shapes: K clients, L classes.
"""

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.names import compose_accents
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.errors import ConfigError, suggest_name
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator

NUM_GROUPS = 2

FIRST_GROUP: dict[str, tuple[int, ...]] = {
    "cifar10": (0, 1, 8, 9),  # Vehicles; the others are animals.
    "fmnist": (5, 7, 8, 9),  # Shoes and bags; the others are clothes.
    "bloodmnist": (0, 1, 3, 6),  # Granulocytes.
    "digits": (0, 6, 8, 9),  # Written with a loop, which need not make them alike.
    "mnist": (0, 6, 8, 9),
}
"""Classes of the first hidden group; for other data sets it is the first half of the classes."""
YAML_WORDS = {True: ("yes", "true", "on", "y"), False: ("no", "false", "off", "n")}
"""Words that YAML 1.1 reads as true and false; a class may have such a name."""


class MajoritySplit(SplitKind):
    """A kind in which most images of client k are of class k mod L."""

    OPTIONS = ("majority", "first_group", "num_clusters", "draws")
    DEFAULTS = MappingProxyType({"num_clusters": NUM_GROUPS})
    BY_CLASS = True

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that the number of groups and the number of clients are possible."""
        if split.num_clusters != NUM_GROUPS:
            raise ConfigError(
                f"split.num_clusters = {split.num_clusters}: split majority has {NUM_GROUPS} hidden groups; "
                "leave it out, and name the classes of one group with split.first_group",
                ("split", "num_clusters"),
            )
        group_L = group_classes(scenario.dataset, facts.num_classes, split.first_group)
        # Client k has class k mod L: the first class of each group must be some client's.
        min_clients = 1 + max(group_L.index(group) for group in range(NUM_GROUPS))
        if scenario.num_clients < min_clients:
            raise ConfigError(
                f"clients = {scenario.num_clients}: with split majority the classes of clients 0 to "
                f"{scenario.num_clients - 1} are all in one hidden group; take at least {min_clients}",
                ("clients",),
            )

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Cut each class, in a seeded order, among the clients."""
        positions_L = pool.positions_L
        num_clients, num_classes = scenario.num_clients, len(positions_L)
        images = count_images_per_client([len(positions) for positions in positions_L], num_clients, split)
        # Clients take slices of each class one after the other, so that no image is dealt twice.
        stops_KL = count_by_class(images, num_clients, num_classes, split.majority).cumsum(axis=0)
        parts_LK = [
            np.split(
                make_generator(seed, f"class {label} of {scenario.seed_text}").permutation(positions), stops
            )[:-1]
            for label, (positions, stops) in enumerate(zip(positions_L, stops_KL.T, strict=True))
        ]
        held_K = [np.sort(np.concatenate(parts)) for parts in zip(*parts_LK, strict=True)]
        group_L = group_classes(scenario.dataset, num_classes, split.first_group)
        return Partition([group_L[client % num_classes] for client in range(num_clients)], held_K)

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Estimate the number of images of all clients.

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set.
            split: the settings.
            seed: the run's seed; it has no effect here.
        """
        counts_L = [facts.pool_size // facts.num_classes] * facts.num_classes
        return float(scenario.num_clients * count_images_per_client(counts_L, scenario.num_clients, split))


def group_classes(dataset: str, num_classes: int, first_group: Sequence[int] | None) -> tuple[int, ...]:
    """Group the classes: the hidden group of each class, 0 or 1, shape (L,).

    Args:
        dataset: name of the data set, for the default.
        num_classes: L.
        first_group: the classes of group 0; None takes those of `FIRST_GROUP`.

    Raises:
        ConfigError: a group without classes, or a label that is no class.
    """
    first = first_group if first_group is not None else FIRST_GROUP.get(dataset, range(num_classes // 2))
    if not 0 < len(set(first)) < num_classes or max(first) >= num_classes:
        raise ConfigError(
            f"split.first_group = {list(first)}: expected some of the classes 0 to {num_classes - 1}, "
            "but not all",
            ("split", "first_group"),
        )
    return tuple(int(label not in first) for label in range(num_classes))


def count_by_class(images: int, num_clients: int, num_classes: int, majority: float) -> NDArray[np.int64]:
    """Count how many of a client's images are of each class, shape (K, L).

    Images that the other classes cannot share evenly go to the classes after the client's own, round the ring
    of classes. So each class gets as many of them as any other from every L clients.

    Args:
        images: number of images of each client.
        num_clients: K.
        num_classes: L.
        majority: share of the images that are of the client's own class.
    """
    # In decimals, as in `holdouts.round_share`, so that a half is rounded as one.
    own = round(Fraction(repr(majority)) * images)
    share, over = divmod(images - own, num_classes - 1)
    # Steps from a client's own class to each class, round the ring; the first `over` of them get one image
    # more.
    steps_KL = (np.arange(num_classes) - np.arange(num_clients)[:, None]) % num_classes
    return np.where(steps_KL == 0, own, share + (steps_KL <= over))


def count_images_per_client(available_L: Sequence[int], num_clients: int, split: Split) -> int:
    """Count the images of each client: `split.draws`, or else the most that need no image twice.

    Raises:
        ConfigError: a class has too few images.
    """

    def runs_out(images: int) -> bool:
        """Check whether a class has fewer images than this number for each client needs."""
        needed_L = count_by_class(images, num_clients, len(available_L), split.majority).sum(axis=0)
        return bool((needed_L > available_L).any())

    # More images for each client never need fewer of a class, so the first number that runs out can be
    # searched by halves.
    max_images = bisect_left(range(1, sum(available_L) // num_clients + 1), True, key=runs_out)
    if max_images == 0:
        raise ConfigError(
            f"clients = {num_clients}: with split majority their classes have too few images; take fewer",
            ("clients",),
        )
    if split.draws is not None and split.draws > max_images:
        raise ConfigError(
            f"split.draws = {split.draws}: with split majority no image is dealt out twice, so "
            f"{num_clients} clients hold at most {max_images} each; leave it out to get that many",
            ("split", "draws"),
        )
    return split.draws or max_images


def _resolve_class(name: Any, names: Sequence[str]) -> Any:
    """Resolve a class to its name; YAML reads a name without quotes, such as `yes`, as true.

    Raises:
        ConfigError: several classes can be meant, or none.
    """
    if isinstance(name, str):
        [name] = compose_accents([name])
    if not isinstance(name, bool):
        return name
    matches = [one for one in names if one.lower() in YAML_WORDS[name]]
    if len(matches) != 1:
        raise ConfigError(
            f"split.first_group has {str(name).lower()}, as YAML reads {', '.join(YAML_WORDS[name])}; write "
            "the name of a class in quotes",
            ("split", "first_group"),
        )
    return matches[0]


def number_classes(split: dict[str, Any], dataset: str, names: Sequence[str]) -> dict[str, Any]:
    """Replace names of classes in a section `split` by their numbers, as in `first_group: [cat, dog]`.

    Args:
        split: the section, as the user wrote it.
        dataset: what messages call the data set.
        names: names of its classes, in their order; empty if they have numbers only. If all names are
            numbers, such as folders 1 to 10, numbers in the section are these names.

    Raises:
        ConfigError: the data set has no class of that name.
    """
    first = split.get("first_group")
    if not isinstance(first, list | tuple):
        return split
    if names and all(name.isdecimal() for name in names):
        first = [str(name) for name in first]
    first = [_resolve_class(name, names) for name in first]
    for name in first:
        if isinstance(name, str) and name not in names:
            classes = (
                f"its classes: {', '.join(names)}" if names else "its classes have numbers only, as in [0, 1]"
            )
            raise ConfigError(
                f"split.first_group: {dataset} has no class '{name}'; {suggest_name(name, names)}{classes}",
                ("split", "first_group"),
            )
    numbers = [names.index(name) if isinstance(name, str) else name for name in first]
    return {**split, "first_group": numbers}

"""Hidden groups (clusters) of the OCFL scenarios: how many clients and which classes each group has.

Source: class sets and cluster sizes of the OCFL papers' forty scenarios, which have three clusters and 8, 9
or 10 classes. The papers print them as lists. The rules below give the same lists, and extend them to any
number of clusters, classes and clients.

Shapes: K clients, C clusters, L classes.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from fedgrid.engine.federation.errors import ConfigError

Balance = Literal["balanced", "imbalanced"]

IMBALANCED_WEIGHTS = (22, 47, 31)
"""Relative sizes of imbalanced clusters, repeated if there are more than three. Gives 3/7/5 of 15 clients
and 7/14/9 of 30."""


def class_sets(num_classes: int, num_clusters: int, overlap: str) -> tuple[tuple[int, ...], ...]:
    """Return the classes of each cluster, ascending: C different sets.

    Non-overlapping sets partition the classes. Overlapping sets are arcs on the ring of classes 0..L-1; a
    class is in 1.5 to 1.8 sets on average.

    Raises:
        ConfigError: too few classes for C different sets.
    """
    if num_clusters > num_classes:
        raise ConfigError(
            f"{num_clusters} clusters need at least {num_clusters} classes, the data set has {num_classes}; "
            "take fewer clusters"
        )
    if overlap == "nonoverlapping":
        return _tiles(num_classes, num_clusters)
    if num_clusters == 2 and num_classes == 2:
        raise ConfigError("2 clusters cannot overlap on 2 classes; take nonoverlapping or 1 cluster")
    return _arcs(num_classes, num_clusters)


def cluster_sizes(num_clients: int, num_clusters: int, balance: Balance) -> tuple[int, ...]:
    """Return the number of clients of each cluster: C numbers, each at least one, with sum K.

    Raises:
        ConfigError: more clusters than clients.
    """
    if num_clusters > num_clients:
        raise ConfigError(
            f"{num_clusters} clusters need at least {num_clusters} clients, not {num_clients}; "
            "take fewer clusters or more clients"
        )
    if balance == "balanced":
        return _even_parts(num_clients, num_clusters)
    weights = [IMBALANCED_WEIGHTS[cluster % len(IMBALANCED_WEIGHTS)] for cluster in range(num_clusters)]
    return _largest_remainder(num_clients, weights)


def group_of_each(sizes: Sequence[int]) -> list[int]:
    """Return the group of each client where groups have these sizes, in the order of clients, shape (K,)."""
    return [group for group, size in enumerate(sizes) for _ in range(size)]


def check_sizes(sizes: Sequence[int], num_clusters: int, num_clients: int) -> None:
    """Check that sizes typed by a user are those of all groups and all clients.

    Raises:
        ConfigError: otherwise.
    """
    if len(sizes) != num_clusters:
        raise ConfigError(
            f"split.sizes = {list(sizes)} has {len(sizes)} groups, but split.num_clusters = {num_clusters}; "
            "leave the latter out",
            ("split", "sizes"),
        )
    if sum(sizes) != num_clients:
        raise ConfigError(
            f"split.sizes = {list(sizes)} has {sum(sizes)} clients, but clients = {num_clients}; "
            f"take clients: {sum(sizes)}, or other sizes",
            ("split", "sizes"),
        )


def _even_parts(total: int, parts: int) -> tuple[int, ...]:
    """Return `parts` whole numbers with sum `total` that differ by at most one, larger ones first."""
    quotient, remainder = divmod(total, parts)
    return tuple(quotient + (part < remainder) for part in range(parts))


def _tiles(num_classes: int, num_clusters: int) -> tuple[tuple[int, ...], ...]:
    """Return runs of classes of nearly equal size; the run whose size differs is first (4/3/3, 2/3/3)."""
    sizes = _even_parts(num_classes, num_clusters)
    if 2 * (num_classes % num_clusters) > num_clusters:
        sizes = sizes[::-1]
    stops = tuple(accumulate(sizes))
    return tuple(tuple(range(stop - size, stop)) for size, stop in zip(sizes, stops, strict=True))


def _arcs(num_classes: int, num_clusters: int) -> tuple[tuple[int, ...], ...]:
    """Return arcs on the ring of classes 0..L-1; each extends by half its step into the next one.

    The arcs go once round the ring. With more than two classes per cluster they go a little further, so that
    the last and the first arc share more classes than other neighbours. As in the papers, clusters are
    numbered backwards: the arc of the last one starts at class 0.
    """
    per_cluster = -(-num_classes // num_clusters)
    further = per_cluster // 2 if per_cluster > 2 else 0
    steps = _even_parts(num_classes + further, num_clusters)
    starts = (0, *accumulate(steps))
    longest = num_classes if num_clusters == 1 else num_classes - 1
    arcs = []
    for start, step in zip(starts, steps, strict=False):
        length = min(step + -(-step // 2), longest)
        arcs.append(tuple(sorted(position % num_classes for position in range(start, start + length))))
    return tuple(reversed(arcs))


def _largest_remainder(total: int, weights: list[int]) -> tuple[int, ...]:
    """Return whole numbers, each at least one, with sum `total` and in proportion to `weights`."""
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [int(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda part: (parts[part] - exact[part], part))
    for part in by_remainder[: total - sum(parts)]:
        parts[part] += 1
    while 0 in parts:
        parts[parts.index(max(parts))] -= 1
        parts[parts.index(0)] += 1
    return tuple(parts)

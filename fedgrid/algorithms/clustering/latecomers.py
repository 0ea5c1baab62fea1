"""Latecomers: clients that are absent when their cluster is split, and join one of its parts later.

At a split the absent members form a waiting cluster that keeps the parent's model. A member that returns
trains that model, and joins the part with the least mean cosine distance between the members' updates at the
split and its own: all these updates started from the same model. If that part has been split since, the
client waits for that split next, and so walks down the tree of splits. Its first update started from a model
that its new cluster has left behind, so it enters no mean.

Source: Sattler et al. 2021, arXiv:1910.01991 (down the tree from the model before the split). Zuziak et al.
2025, arXiv:2509.01587, section 6.2, proposes as future work to attribute later clients to clusters, and to
cluster in a few shots; the measure (the least mean cosine distance) and the rules of `regroup_clients` are
ours.

Shapes: K clients of the federation, D new clusters of a split, P entries of a state vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.aggregator import MEAN, Aggregator
from fedgrid.algorithms.contract.base import Labels, State
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.updates.products import compute_mean, list_shares
from fedgrid.algorithms.updates.source import Vector
from fedgrid.algorithms.updates.updates import Updates

SPLIT_PREFIX = "split_"
"""Beginning of the names of the state's arrays about splits."""


@dataclass(frozen=True)
class PastSplit:
    """A split at which clients were absent."""

    number: int
    """Number of the split, from 0."""
    parent: int
    """The cluster that was split; its first part has its number."""
    waiting: int
    """The cluster of the absent members."""
    parts_D: Labels
    """Numbers of the new clusters."""
    directions_DP: Sequence[Vector]
    """Mean direction of the updates of each part, at the split."""


def split_present(state: State, cluster: int, groups: Sequence[Sequence[int]], updates: Updates) -> State:
    """Split a cluster into groups of client ids, as `algorithms.contract.split.split`; absent members wait.

    Args:
        state: the state before the split.
        cluster: the number of the cluster to split.
        groups: client ids of each group; with a single one there is nothing to wait for.
        updates: the updates of this round, with that of every client in `groups`.
    """
    absent = sorted(updates.absent & set(state.members(cluster)))
    still_to_come = updates.absent or any(state.members(node.waiting) for node in read_past_splits(state))
    if not still_to_come or sum(len(group) > 0 for group in groups) == 1:
        return split(state, cluster, groups)
    # In no cluster, until they are given one.
    nowhere_K = state.labels_K.copy()
    nowhere_K[absent] = -1
    present = split(replace(state, labels_K=nowhere_K), cluster, groups)
    parts = sorted({int(present.labels_K[group[0]]) for group in groups if len(group)})
    waiting = len(present.models)
    labels_K = present.labels_K.copy()
    labels_K[absent] = waiting
    number = sum(1 for _ in read_past_splits(state))
    # A mean direction stands for all updates behind it: the mean of their cosine distances to a later update
    # follows from it, so no update has to be stored.
    directions = [updates.select(np.flatnonzero(labels_K == part)).mean_direction() for part in parts]
    # After the split the first part has the parent's number, and all parts the parent's model: the row of
    # `cluster` is the model before the split.
    return present.with_rows([*range(waiting), cluster], labels_K).keep(
        **{
            f"{SPLIT_PREFIX}{number:04d}_clusters": np.array([cluster, waiting, *parts]),
            f"{SPLIT_PREFIX}{number:04d}_directions": np.stack(directions),
        }
    )


def split_seen_clients(state: State, groups: Sequence[Sequence[int]], updates: Updates) -> State:
    """Split the only cluster into groups of the clients seen so far; all others wait for their first round.

    `can_place_later` says whether the updates of this round are enough.
    """
    seen = {client for group in groups for client in group}
    view = updates.select(updates.clients, absent=set(range(len(state.labels_K))) - seen)
    return split_present(state, 0, groups, view)


def can_place_later(state: State, groups: Sequence[Sequence[int]], senders: Sequence[int]) -> bool:
    """Check whether clients in no group can be placed later: each group has a sender to compare them with.

    Also true if all clients are in groups.
    """
    return sum(map(len, groups)) == len(state.labels_K) or all(set(group) & set(senders) for group in groups)


def place_latecomers(state: State, updates: Updates) -> tuple[State, Updates, Mapping[int, str]]:
    """Put returning latecomers into clusters.

    A zero update has no direction: its sender goes on waiting. A split in the same round treats all
    latecomers as absent, because their updates started from another model than their new cluster's.

    Returns:
        The new state, the updates of the other clients, and the reason for each latecomer's cluster.
    """
    waiting = {node.waiting: node for node in read_past_splits(state)}
    late = [client for client in updates.clients if int(state.labels_K[client]) in waiting]
    if not late:
        return state, updates, {}
    labels_K = state.labels_K.copy()
    reasons = {}
    # A client that sent zeros stays in `late`, so it enters no mean, but goes on waiting.
    norms = dict(zip(updates.clients, updates.norms_K.tolist(), strict=True))
    for client in (client for client in late if norms[client] > 0):
        node = waiting[int(labels_K[client])]
        distances_D = updates.select([client]).mean_distances(node.directions_DP)[0]
        nearest = int(node.parts_D[distances_D.argmin()])
        # If that part has been split since, the client waits there.
        later = (
            other
            for other in read_past_splits(state)
            if other.number > node.number and other.parent == nearest
        )
        labels_K[client] = next((other.waiting for other in later), nearest)
        reason = ", ".join(
            f"{part}: {distance:.3f}" for part, distance in zip(node.parts_D, distances_D, strict=True)
        )
        reasons[client] = f"mean cosine distances {reason}"
    # Latecomers without a direction are left out of the means too.
    others = (client for client in updates.clients if client not in late)
    rest = updates.select(others, absent=updates.absent | set(late))
    return replace(state, labels_K=labels_K), rest, reasons


def read_past_splits(state: State) -> Iterator[PastSplit]:
    """Yield the splits at which clients were absent, in their order."""
    # Numbers have four digits, so the order of names is that of the splits.
    for name in sorted(state.arrays):
        if name.startswith(SPLIT_PREFIX) and name.endswith("_clusters"):
            number = int(name.removeprefix(SPLIT_PREFIX).removesuffix("_clusters"))
            parent, waiting, *parts = state.arrays[name].tolist()
            directions_DP = list(state.arrays[f"{SPLIT_PREFIX}{number:04d}_directions"])
            yield PastSplit(number, parent, waiting, np.array(parts), directions_DP)


def regroup_clients(
    state: State,
    groups: Sequence[Sequence[int]],
    weights: Mapping[int, float] | None = None,
    aggregate: Aggregator = MEAN,
) -> State:
    """Put clients into new clusters, whatever their old ones are.

    A group starts from the `aggregate` of its members' models, and the mean of their moments. A client in no
    group follows the majority of its cluster; if all of its cluster are in none, it joins the largest group;
    ties go to the first. Waiting clients go on waiting.

    Args:
        state: the state so far.
        groups: client ids of each new cluster; empty ones are ignored.
        weights: client id -> positive weight in the means; None: equal ones.
        aggregate: the aggregator of the members' models.
    """
    ordered = sorted((sorted(group) for group in groups if len(group)), key=lambda group: group[0])
    waiting = [node.waiting for node in read_past_splits(state)]
    sources = [state.labels_K[group] for group in ordered]
    successors = [_find_successor(cluster, sources) for cluster in range(len(state.models))]
    # Waiting clusters come after the groups, with their own models.
    for place, cluster in enumerate(waiting, start=len(ordered)):
        successors[cluster] = place
    labels_K = np.array([successors[label] for label in state.labels_K])
    for index, group in enumerate(ordered):
        labels_K[group] = index
    rows = [*sources, *(np.array([cluster]) for cluster in waiting)]
    shares = [*(list_shares(group, weights) for group in ordered), *[None] * len(waiting)]

    def means(array: NDArray[Any]) -> list[NDArray[Any]]:
        pairs = zip(rows, shares, strict=True)
        taken = [([array[label] for label in labels], weighting) for labels, weighting in pairs]
        return [compute_mean(parts, weighting).astype(array.dtype) for parts, weighting in taken]

    arrays = {}
    for name, array in state.arrays.items():
        if name.startswith("cluster_"):
            array = np.stack(means(array))
        # Past splits name clusters, which have other numbers now. Their directions stay: latecomers are
        # compared with updates of that time.
        elif name.startswith(SPLIT_PREFIX) and name.endswith("_clusters"):
            array = np.array([successors[cluster] for cluster in array])
        arrays[name] = array
    models = (
        aggregate.combine([state.models[label] for label in labels], weighting)
        for labels, weighting in zip(rows, shares, strict=True)
    )
    return State(tuple(models), labels_K, arrays)


def _find_successor(cluster: int, sources: Sequence[Labels]) -> int:
    """Find the group that has most of a cluster's members, or else the largest group."""
    members = [int((labels == cluster).sum()) for labels in sources]
    counts = members if any(members) else [len(labels) for labels in sources]
    return counts.index(max(counts))

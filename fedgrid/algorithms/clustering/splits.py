"""Splits of a cluster as a clusterer returns them: by positions in the updates, or by labels."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedgrid.algorithms.clustering.clusterers import labels_to_groups
from fedgrid.algorithms.clustering.latecomers import split_among
from fedgrid.algorithms.contract.base import Labels, State
from fedgrid.algorithms.contract.split import require_groups
from fedgrid.algorithms.updates.updates import Updates


def split_positions(state: State, cluster: int, members: Updates, groups: Sequence[Sequence[int]]) -> State:
    """Split `cluster` into groups of positions in `members`, which a clusterer returns instead of ids.

    As `split`: clients of the cluster in none of the groups join the largest. Absent members wait (see
    `algorithms.clustering.latecomers`).

    Raises:
        ValueError: as `split`, or there is no such position.
    """
    require_groups(groups)
    for position in (position for group in groups for position in group):
        if isinstance(position, bool | np.bool_) or not 0 <= position < len(members.clients):
            raise ValueError(
                f"position {position} in groups: expected 0 to {len(members.clients) - 1}, positions in "
                "updates.clients; of a mask: np.flatnonzero(mask)"
            )
    ids = [[members.clients[position] for position in group] for group in groups]
    return split_among(state, cluster, ids, members)


def split_by_labels(
    state: State, updates: Updates, labels: Labels, noise: Literal["nearest", "residual"] = "nearest"
) -> State:
    """Split the cluster of `updates.clients` by a clusterer's labels, one a client, in their order.

    Clients with label -1, the noise of DBSCAN and HDBSCAN, join the `nearest` cluster (the one with the least
    mean cosine distance to its members), or are one `residual` cluster. Clients without an update join the
    largest cluster; absent ones wait, as with `split_positions`.

    Raises:
        ValueError: not one label a client, or the clients are in several clusters: take one cluster at a
            time, `updates.select(state.members(cluster))`.
    """
    labels = np.asarray(labels)
    clusters = sorted(updates.groups(state.labels_K))
    if labels.shape != (len(updates.clients),) or len(clusters) != 1:
        raise ValueError(
            f"labels of shape {labels.shape} for {len(updates.clients)} updates of the clusters {clusters}; "
            "expected one label an update, of one cluster: updates.select(state.members(cluster))"
        )
    groups = labels_to_groups(labels, updates.cosine_distances_KK, noise)
    return split_positions(state, clusters[0], updates, groups)

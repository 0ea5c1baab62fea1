"""Splits of a cluster as a clusterer returns them: by positions in the updates, or by labels."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedgrid.algorithms.clustering.clusterers import group_by_labels
from fedgrid.algorithms.clustering.latecomers import split_present
from fedgrid.algorithms.contract.base import Labels, State
from fedgrid.algorithms.contract.split import check_groups
from fedgrid.algorithms.updates.updates import Updates


def split_positions(state: State, cluster: int, members: Updates, groups: Sequence[Sequence[int]]) -> State:
    """Split a cluster into groups of positions in `members.clients`, which clusterers return instead of ids.

    Called by algorithms, mostly in `recluster`. As with `split`, clients of the cluster that are in none of
    the groups join the largest. Absent members of the cluster wait with the model before the split, and join
    the nearest part when they are back (see `algorithms.clustering.latecomers`).

    Args:
        state: the state before the split; it is not changed.
        cluster: the number of the cluster to split.
        members: the updates of its members that are there, for example
            `updates.select(state.members(cluster))`.
        groups: positions in `members.clients` of each group.

    Returns:
        The state with the new clusters.

    Raises:
        ValueError: as `split`, or there is no such position.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> state = fedgrid.State((np.zeros(2, np.float32),), np.zeros(4, np.int64))
        >>> vectors = {client: np.ones(2, np.float32) for client in (1, 2, 3)}
        >>> updates = fedgrid.Updates(vectors, fedgrid.Layout(("weight",), ((2,),), 2))
        >>> fedgrid.split_positions(state, 0, updates, [[0, 1], [2]]).labels_K.tolist()
        [0, 0, 0, 1]
    """
    check_groups(groups)
    # A mask would pass for positions 0 and 1.
    for position in (position for group in groups for position in group):
        if isinstance(position, bool | np.bool_) or not 0 <= position < len(members.clients):
            raise ValueError(
                f"position {position} in groups: expected 0 to {len(members.clients) - 1}, positions in "
                "updates.clients; of a mask: np.flatnonzero(mask)"
            )
    ids = [[members.clients[position] for position in group] for group in groups]
    return split_present(state, cluster, ids, members)


def split_by_labels(
    state: State, updates: Updates, labels: Labels, noise: Literal["nearest", "residual"] = "nearest"
) -> State:
    """Split the cluster of `updates.clients` by a clusterer's labels, one for each client, in their order.

    Called by algorithms, mostly in `recluster`. Clients without an update join the largest cluster; absent
    ones wait, as with `split_positions`.

    Args:
        state: the state before the split; it is not changed.
        updates: the updates of one cluster, for example `updates.select(state.members(cluster))`.
        labels: a label for each of `updates.clients`; -1 is noise, as in DBSCAN and HDBSCAN.
        noise: where clients with label -1 go: to the `nearest` cluster (the one with the least mean cosine
            distance to its members), or into one `residual` cluster.

    Returns:
        The state with the new clusters.

    Raises:
        ValueError: there is not one label for each client, or the clients are in several clusters: take one
            cluster at a time, `updates.select(state.members(cluster))`.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> state = fedgrid.State((np.zeros(2, np.float32),), np.zeros(3, np.int64))
        >>> vectors = {0: [1, 0], 1: [0, 1], 2: [1, 0.1]}
        >>> vectors = {client: np.array(vector, np.float32) for client, vector in vectors.items()}
        >>> updates = fedgrid.Updates(vectors, fedgrid.Layout(("weight",), ((2,),), 2))
        >>> fedgrid.split_by_labels(state, updates, np.array([5, 3, -1])).labels_K.tolist()
        [0, 1, 0]
    """
    labels = np.asarray(labels)
    clusters = sorted(updates.groups(state.labels_K))
    if labels.shape != (len(updates.clients),) or len(clusters) != 1:
        raise ValueError(
            f"labels of shape {labels.shape} for {len(updates.clients)} updates of the clusters {clusters}; "
            "expected one label an update, of one cluster: updates.select(state.members(cluster))"
        )
    groups = group_by_labels(labels, updates.cosine_distances_KK, noise)
    return split_positions(state, clusters[0], updates, groups)

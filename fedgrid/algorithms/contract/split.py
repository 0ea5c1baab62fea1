"""The split of a cluster into groups of its clients."""

from collections import Counter
from collections.abc import Sequence, Sized

from fedgrid.algorithms.contract.base import State


def check_groups(groups: Sequence[Sequence[int]]) -> None:
    """Check that there is at least one group with a member.

    Raises:
        ValueError: there is none, for example because a clusterer's labels were passed.
    """
    if not any(isinstance(group, Sized) and len(group) for group in groups):
        raise ValueError(
            f"groups = {str(groups):.60}: expected a list for each group, as in [[0, 2], [1, 3]]; for "
            "the labels of a clusterer use split_by_labels(state, updates, labels)"
        )


def split(state: State, cluster: int, groups: Sequence[Sequence[int]]) -> State:
    """Split a cluster into groups of client ids; each new cluster starts from the parent's model.

    Called by algorithms, mostly in `recluster`. Groups are ordered by their smallest id: the first keeps the
    parent's number, the others get the next free ones, so that a partition does not depend on the order in
    which a clusterer numbers its labels. Clients of the cluster that are in no group (because they sent no
    usable update) join the largest group; of equally large ones, the first in that order.
    For positions in `updates.clients` use `split_positions`, for a clusterer's labels `split_by_labels`.

    Args:
        state: the state before the split; it is not changed.
        cluster: the number of the cluster to split.
        groups: client ids of each group, all of them members of `cluster`; empty groups are ignored.

    Returns:
        The state with the new clusters; in arrays named `cluster_...` each new cluster has the parent's row.

    Raises:
        ValueError: there is no group, or a client is in two of them or not in this cluster.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> state = fedgrid.State((np.zeros(2, np.float32),), np.zeros(5, np.int64))
        >>> parted = fedgrid.split(state, 0, [[3, 4], [0, 2]])
        >>> parted.labels_K.tolist()
        [0, 0, 0, 1, 1]
        >>> len(parted.models)
        2
    """
    check_groups(groups)
    group_counts = Counter(int(client) for group in groups for client in group)
    wrong = [
        client for client, count in group_counts.items() if count > 1 or state.labels_K[client] != cluster
    ]
    if wrong:
        raise ValueError(
            f"client {wrong[0]} is in {group_counts[wrong[0]]} of the groups into which cluster {cluster} is "
            f"split, and in cluster {state.labels_K[wrong[0]]}; each group may have members of the cluster "
            "that are in no other group"
        )
    ordered = sorted((sorted(group) for group in groups if len(group)), key=lambda group: group[0])
    labels_K = state.labels_K.copy()
    num_clusters = len(state.models)
    numbers = [cluster, *range(num_clusters, num_clusters + len(ordered) - 1)]
    largest = max(range(len(ordered)), key=lambda index: (len(ordered[index]), -index))
    # Everybody goes to the largest group first; then the members of each group to their own.
    labels_K[labels_K == cluster] = numbers[largest]
    for number, group in zip(numbers, ordered, strict=True):
        labels_K[list(group)] = number
    return state.with_rows([*range(num_clusters), *[cluster] * (len(ordered) - 1)], labels_K)

"""The split of a cluster into groups of its clients."""

from collections import Counter
from collections.abc import Sequence, Sized

from fedgrid.algorithms.contract.base import State


def require_groups(groups: Sequence[Sequence[int]]) -> None:
    """Check that there is at least one group with a member.

    Raises:
        ValueError: there is none, as in a clusterer's labels.
    """
    if not any(isinstance(group, Sized) and len(group) for group in groups):
        raise ValueError(
            f"groups = {str(groups):.60}: expected a list for each group, as in [[0, 2], [1, 3]]; of a "
            "clusterer's labels: split_by_labels(state, updates, labels)"
        )


def split(state: State, cluster: int, groups: Sequence[Sequence[int]]) -> State:
    """Split `cluster` into `groups` of client ids; each new cluster starts from the parent's model.

    Groups are ordered by their first member: the first keeps the parent's number, the others get the
    next free ones, so that a partition does not depend on the order in which a clusterer names its
    labels. Members of the cluster in no group (no usable update this round) join the largest group; ties go
    to the first.

    Raises:
        ValueError: there is no group, a client is in two, or in none of this cluster's places.
    """
    require_groups(groups)
    times = Counter(int(client) for group in groups for client in group)
    wrong = [client for client, count in times.items() if count > 1 or state.labels_K[client] != cluster]
    if wrong:
        raise ValueError(
            f"client {wrong[0]} is in {times[wrong[0]]} of the groups into which cluster {cluster} is split, "
            f"and in cluster {state.labels_K[wrong[0]]}; each group may have members of the cluster that are "
            "in no other group"
        )
    ordered = sorted((sorted(group) for group in groups if len(group)), key=lambda group: group[0])
    labels_K = state.labels_K.copy()
    num_clusters = len(state.models)
    names = [cluster, *range(num_clusters, num_clusters + len(ordered) - 1)]
    largest = max(range(len(ordered)), key=lambda index: (len(ordered[index]), -index))
    labels_K[labels_K == cluster] = names[largest]
    for name, group in zip(names, ordered, strict=True):
        labels_K[list(group)] = name
    return state.with_rows([*range(num_clusters), *[cluster] * (len(ordered) - 1)], labels_K)

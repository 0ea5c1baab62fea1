"""New clusters for everybody, of clients that were in several: what few-shot clustering needs.

Shapes: K clients of the federation, P entries of a state vector.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.base import Labels, State
from algorithms.placing import PREFIX, splits


def regroup(state: State, groups: Sequence[Sequence[int]]) -> State:
    """Put clients into new clusters; a group starts from the mean of its members' models.

    A client in no group goes where most of its cluster goes; if all of its cluster are in none, to the
    largest group. Of equals it is the first group. Who waits for a place waits on.
    """
    ordered = sorted((sorted(group) for group in groups if len(group)), key=lambda group: group[0])
    waiting = [node.waiting for node in splits(state)]
    sources = [state.labels_K[group] for group in ordered]
    successors = [_successor(cluster, sources) for cluster in range(len(state.models))]
    for place, cluster in enumerate(waiting, start=len(ordered)):
        successors[cluster] = place
    labels_K = np.array([successors[label] for label in state.labels_K])
    for index, group in enumerate(ordered):
        labels_K[group] = index
    rows = [*sources, *(np.array([cluster]) for cluster in waiting)]
    models = tuple(_mean([state.models[label] for label in labels]) for labels in rows)
    memory = {}
    for name, array in state.memory.items():
        if name.startswith("cluster_"):
            array = np.stack([_mean(list(array[labels])) for labels in rows])
        elif name.startswith(PREFIX) and name.endswith("_clusters"):
            array = np.array([successors[cluster] for cluster in array])
        memory[name] = array
    return State(models, labels_K, memory)


def _mean(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.mean(rows, axis=0, dtype=np.float64).astype(rows[0].dtype)


def _successor(cluster: int, sources: Sequence[Labels]) -> int:
    """Return the group that has most of a cluster's members, else the largest."""
    members = [int((labels == cluster).sum()) for labels in sources]
    counts = members if any(members) else [len(labels) for labels in sources]
    return counts.index(max(counts))

"""What every algorithm is: settings, `init`, `step`; an explicit state in, an explicit state out.

Shapes: K clients of the federation, C cluster models, P entries of a state vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.contract.updates import Updates, Vector

Labels = NDArray[np.int64]


class Settings(Section):
    """What every algorithm can be told; each algorithm's own settings derive from it."""

    similarity_over: Literal["parameters", "state"] = "parameters"
    """Which entries cosines and norms see: the parameters, or the BatchNorm buffers too (as published)."""


@dataclass(frozen=True)
class State:
    """All that a server knows between two rounds; it alone is what a checkpoint stores."""

    models: tuple[Vector, ...]
    """C cluster models, each a float32 vector of shape (P,)."""
    labels_K: Labels
    """The cluster, 0..C-1, of each client."""
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays that the algorithm keeps for itself, by name; any dtype. Those named `cluster_...` have
    shape (C, ...), one row a cluster model."""

    def members(self, cluster: int) -> tuple[int, ...]:
        """Return the ids of the clients in `cluster`, ascending."""
        return tuple(int(client) for client in np.flatnonzero(self.labels_K == cluster))

    def remember(self, **arrays: NDArray[Any]) -> "State":
        """Return the state with these arrays added to its memory."""
        return replace(self, memory={**self.memory, **arrays})


@dataclass(frozen=True)
class Diagnostics:
    """What one step has to say about itself, for the records."""

    clustered: bool = False
    """Whether a partition was decided in this round, even one that changes nothing."""
    mean_norm: float | None = None
    """Largest norm of a cluster's mean update, where the algorithm looks at it (Sattler)."""
    max_norm: float | None = None
    """Largest norm of a client's update, where the algorithm looks at it (Sattler)."""
    silhouette: float | None = None
    """Mean silhouette of this round's clustering, where the algorithm looks at it and there is one
    (communities)."""
    warnings: tuple[str, ...] = ()
    placed: Mapping[int, str] = field(default_factory=dict)
    """Clients that came too late for a clustering and found their cluster in this round, and why that one."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other numbers of the round, by the names that `engine.round_metrics` declares."""


class Algorithm(ABC):
    """A federated algorithm: pure functions over `State`, configured by frozen settings.

    Nothing may be kept on `self` but the settings: a run is resumed from its `State` alone.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def init(self, model: Vector, num_clients: int) -> State:
        """Return the state before the first round; `model` is the common initial model, shape (P,)."""

    @abstractmethod
    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Cluster and aggregate one round.

        `round_index` counts from 0. `updates` holds the usable updates of this round, at least one;
        clients that are missing from it keep their place unless their cluster is split. `rng` is
        seeded by (run, round): all randomness of a step comes from it.
        """

    def start_order_key(self) -> tuple[float, ...]:
        """Return by what runs are sorted so that who leaves plain averaging sooner starts sooner.

        First roughly the round from which on it can, counted from 1; then whatever makes it later. Whoever
        starts in the right order finds what came before done, and leaves it done for those who follow.
        """
        return (1.0,)

    def candidates(self, state: State) -> tuple[tuple[int, ...], ...]:
        """Return, for each of the K clients, the models it is sent.

        A client that is sent several trains the one with the least loss on its training data (ties:
        the first) and its choice is in `Updates.chosen` (IFCA, FLIS).
        """
        return tuple((int(label),) for label in state.labels_K)


def split(state: State, cluster: int, groups: Sequence[Sequence[int]]) -> State:
    """Split `cluster` into `groups` of client ids; each new cluster starts from the parent's model.

    Groups are ordered by their first member: the first keeps the parent's number, the others get the
    next free ones, so that a partition does not depend on the order in which a clusterer names its
    labels. Members of the cluster in no group (no usable update this round) join the largest group,
    the first of equals.
    """
    ordered = sorted((sorted(group) for group in groups if len(group)), key=lambda group: group[0])
    labels_K = state.labels_K.copy()
    num_clusters = len(state.models)
    names = [cluster, *range(num_clusters, num_clusters + len(ordered) - 1)]
    largest = max(range(len(ordered)), key=lambda index: (len(ordered[index]), -index))
    labels_K[labels_K == cluster] = names[largest]
    for name, group in zip(names, ordered, strict=True):
        labels_K[list(group)] = name
    parents = [*range(num_clusters), *[cluster] * (len(ordered) - 1)]
    memory = {
        name: array[parents] if name.startswith("cluster_") else array for name, array in state.memory.items()
    }
    return State(tuple(state.models[parent] for parent in parents), labels_K, memory)

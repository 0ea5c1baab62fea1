"""What every algorithm is: settings, `init`, `orders`, `step`; an explicit state in, an explicit state out.

Shapes: K clients of the federation, C cluster models, P entries of a state vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.orders import (
    BYTES_PER_ENTRY,
    Message,
    Order,
    Payload,
    Presence,
    Served,
    Traffic,
)
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.source import Layout, Matrix, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Facts about an algorithm with its settings; the engine has no other way to tell algorithms apart."""

    sends_updates: bool = True
    """Whether clients send anything. False: every client trains for itself, no uplink transform touches its
    update, and there is no traffic."""
    averages_updates: bool = False
    """Whether all that models learn of clients are means of updates (`Updates.means`). Only then does noise
    that the server adds to these means cover its models."""
    trains_plainly: bool = True
    """Whether every order is known to have the plain local rule; only then are clients stacked."""
    by_class: bool = False
    """Whether it needs classes, as where models are compared by predictions; others may predict numbers."""
    columns: frozenset[str] = frozenset()
    """Columns that records of other algorithms lack: those of `counts` and `members` of `Diagnostics` that it
    fills, and `message`."""
    packages: tuple[str, ...] = ()
    """Distributions that its numbers depend on beside those of every run, as `igraph`."""


Labels = NDArray[np.int64]
Fresh = Callable[[int], Vector]
"""Number -> an initial model, float32, shape (P,)."""


class Settings(Section):
    """The settings of every algorithm; each algorithm's own derive from it."""

    similarity_over: Literal["parameters", "state"] = "parameters"
    """Which entries cosines and norms see: the parameters, or the BatchNorm buffers too (as published)."""


@dataclass(frozen=True)
class State:
    """What an algorithm knows between two rounds; checkpoints store it."""

    models: tuple[Vector, ...]
    """C cluster models, each a float32 vector of shape (P,)."""
    labels_K: Labels
    """The cluster, 0..C-1, of each client."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What else the algorithm keeps, by name; any dtype. Arrays named `cluster_...` have shape (C, ...), one
    row a cluster model."""

    def members(self, cluster: int) -> tuple[int, ...]:
        """Return the ids of the clients in `cluster`, ascending."""
        return tuple(int(client) for client in np.flatnonzero(self.labels_K == cluster))

    def without(self, *names: str) -> "State":
        """Return the state without these arrays."""
        return replace(self, arrays={name: self.arrays[name] for name in self.arrays if name not in names})

    def with_rows(self, rows: Sequence[int], labels_K: Labels) -> "State":
        """Return the state with the models at these positions, their rows of `cluster_...`, and labels."""
        arrays = {
            name: array[list(rows)] if name.startswith("cluster_") else array
            for name, array in self.arrays.items()
        }
        return State(tuple(self.models[row] for row in rows), labels_K, arrays)

    def keep(self, **arrays: NDArray[Any]) -> "State":
        """Return the state with these arrays added or replaced."""
        return replace(self, arrays={**self.arrays, **arrays})


@dataclass(frozen=True)
class Diagnostics:
    """What one step reports for the records."""

    clustered: bool = False
    """Whether the algorithm chose a partition in this round, even one that changes nothing."""
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
    counts: tuple[int, ...] | None = None
    """How many clients chose each model, for algorithms whose clients choose among a fixed number of them."""
    members: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Client -> the clients whose models its cluster averages, where clusters may overlap."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other numbers of the round, by the names that the algorithm's entry declares."""


Step = tuple[State, Diagnostics]
"""What a round leaves."""


class Algorithm(ABC):
    """A federated algorithm: pure functions over `State`, configured by frozen settings.

    Nothing may be kept on `self` but the settings: a run is resumed from its `State` alone.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __setattr__(self, name: str, value: object) -> None:
        if name != "settings":
            raise AttributeError(
                f"{type(self).__name__}.{name} is set, but an algorithm keeps its settings alone: a run is "
                f"resumed from its state, which keeps arrays by state.keep({name}=array)"
            )
        super().__setattr__(name, value)

    @property
    def traits(self) -> Traits:
        """What the engine has to know of the algorithm before a round."""
        return Traits()

    def problem(self, conditions: Conditions) -> str | None:
        """Return in one line why the settings do not fit the run, and what to set; None if they do."""
        return None

    @abstractmethod
    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Return the state before the first round.

        Args:
            layout: what the entries of a model are.
            num_clients: K.
            fresh: draws initial models, each float32, shape (P,). `fresh(0)` is the one that every algorithm
                of a scenario and seed starts from; other numbers give independent ones (IFCA needs several).
            rng: seeded by the run.
        """

    def reveal(self, state: State, groups_K: Labels, before_K: Labels | None = None) -> State:
        """Return the state that knows the hidden groups, shape (K,). Called once after `init`, and again,
        with the groups before, in each round in which clients move to others (`RunConfig.drift`).

        Only a simulation can say this, so only a reference that no server could run may use it.
        """
        return state

    def meet(self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: Rng) -> State:
        """Return the state that knows what newcomers say about their data, before their first round.

        `messages` maps client -> what `message` describes of it. Called in round 1 for the clients that are
        there from the start, later for those that join; never if `message` is None.
        """
        return state

    def meets_again(self, round_index: int) -> bool:
        """Return whether all present clients send their messages again before a round, from 0.

        For clients whose data change (`RunConfig.drift`); by default never.
        """
        return False

    def meet_again(self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: Rng) -> State:
        """Return the state that has heard all present clients again, newcomers among them; as `meet`."""
        return self.meet(state, messages, layout, rng)

    def message(self) -> Message | None:
        """Return what each client is to say about its data before its first round; None: nothing."""
        return None

    def orders(self, state: State, round_index: int, present: Presence, rng: Rng) -> Sequence[Order]:
        """Return what the clients are to do in a round, at most one order a client.

        By default each sampled client trains its cluster's model by plain local training.
        """
        return [Order(client, (int(state.labels_K[client]),)) for client in present.sampled]

    @abstractmethod
    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> Step:
        """Cluster and aggregate one round.

        `round_index` counts from 0. `updates` holds the usable updates of this round, at least one;
        clients that are missing from it keep their place unless their cluster is split. `rng` is
        seeded by (run, round): all randomness of a step comes from it.
        """

    def place(self, state: State, updates: Updates) -> State:
        """Return the state in which a client that was held out of the federation is served.

        `updates` has what that client alone has sent, after the last round; it may enter no mean. Of the
        state that is returned only this client's part counts. By default it is served as a client that has
        never taken part.
        """
        return state

    def served(self, state: State) -> Served:
        """Return which model each client is tested with; by default its cluster's."""
        clusters, model_K = np.unique(state.labels_K, return_inverse=True)
        return Served(tuple(state.models[cluster] for cluster in clusters), model_K)

    def global_model(self, state: State) -> Vector | None:
        """Return the one model for all, float32, shape (P,); by default there is none.

        Only `evaluation.global_model` asks for it, which tests it beside the served ones.
        """
        return None

    def distances(self, updates: Updates) -> Matrix:
        """Return the distances between updates that this algorithm clusters by, float64, shape (K, K).

        The silhouette of a round is of these; by default they are cosine distances.
        """
        return updates.cosine_distances_KK

    def traffic(self, order: Order, layout: Layout) -> Traffic:
        """Return the bytes of an order: by default its models and the payload down, what is measured up.

        Personal entries of the rule do not travel.
        """
        if not self.traits.sends_updates:
            return Traffic(down=0, up=0)
        payload = sum(array.nbytes for array in order.payload.values())
        entries = layout.size - sum(stop - first for first, stop in order.rule.personal)
        return Traffic(down=BYTES_PER_ENTRY * entries * len(order.candidates) + payload)

    def start_order_key(self) -> tuple[float, ...]:
        """Return the sort key of runs that share their first rounds; the smallest starts first.

        First the earliest round, counted from 1, in which this algorithm can deviate from FedAvg; then
        whatever delays it. The run that deviates first caches the mean that the later ones need.
        """
        return (1.0,)

"""The base class of every algorithm, its settings, its state, and what it reports of a round.

An algorithm is pure functions over an explicit state: state in, state out. Where this contract meets the
network: `orders.py` has what travels, `local_rule.py` what clients do.

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
    """Facts about an algorithm with its settings, by which the engine tells algorithms apart.

    Returned by `Algorithm.traits`. The engine asks no other question about an algorithm: neither its name nor
    its class changes how a round is run.

    Args:
        sends_updates: whether clients send anything.
        averages_updates: whether everything that models learn from clients comes from means of updates
            (`Updates.means`).
        trains_plainly: whether every order has the plain local rule and the run's number of steps.
        by_class: whether the algorithm needs classes, for example because it compares models by predicted
            classes.
        columns: columns that records of other algorithms lack: `counts` and `members` if the algorithm fills
            these fields of `Diagnostics`, and `message` if it has one.
        packages: distributions that its numbers depend on in addition to those of every run, such as
            `igraph`.

    Example:
        >>> import fedgrid
        >>> fedgrid.FedOpt(fedgrid.FedOptSettings()).traits.averages_updates
        True
        >>> fedgrid.Traits(trains_plainly=False).sends_updates
        True
    """

    sends_updates: bool = True
    """Whether clients send anything. False: every client trains for itself, no uplink step touches its
    update, and there is no traffic."""
    averages_updates: bool = False
    """Whether everything that models learn from clients comes from means of updates (`Updates.means`). Only
    then does noise that the server adds to these means cover its models."""
    trains_plainly: bool = True
    """Whether every order has the plain local rule and the run's number of steps. Only then can clients be
    trained stacked, several in one pass (`training.stacked`)."""
    by_class: bool = False
    """Whether the algorithm needs classes, for example because it compares models by predicted classes.
    Others can also train on data sets with numbers to predict."""
    columns: frozenset[str] = frozenset()
    """Columns that records of other algorithms lack: `counts` and `members` if the algorithm fills these
    fields of `Diagnostics`, and `message` if it has one."""
    packages: tuple[str, ...] = ()
    """Distributions that its numbers depend on in addition to those of every run, such as `igraph`. Their
    versions are stored with the run."""


Labels = NDArray[np.int64]
"""One cluster label for each client, int64, shape (K,).

Example:
    >>> import fedgrid
    >>> import numpy as np
    >>> labels_K: fedgrid.Labels = np.array([0, 0, 1])
"""
Fresh = Callable[[int], Vector]
"""A function from a number to an initial model, float32, shape (P,).

Number 0 is the model that every algorithm of a scenario and seed starts from; other numbers give independent
ones. Each call with the same number returns the same model.

Example:
    >>> import fedgrid
    >>> import numpy as np
    >>> fresh: fedgrid.Fresh = lambda number: np.full(3, number, np.float32)
    >>> fresh(1).tolist()
    [1.0, 1.0, 1.0]
"""


class Settings(Section):
    """The settings that every algorithm has; each algorithm's own settings derive from it.

    A settings class is a frozen pydantic model. Its fields are the keys that a configuration may set under
    `algorithm`, and enter the run's id. An unknown key, an impossible value, and a boolean in place of a
    number are refused. A field that names a round is marked with `FirstRound`.

    Args:
        similarity_over: entries that cosines, norms and distances of updates see: the parameters, or the
            BatchNorm buffers too (as published).

    Raises:
        ValueError: a key is unknown, or a value is impossible.
        TypeError: a value is given without its key.

    Example:
        >>> from typing import Annotated
        >>> import fedgrid
        >>> from pydantic import Field
        >>> class EarlySettings(fedgrid.Settings):
        ...     threshold: Annotated[float, Field(ge=0)] = 0.4
        >>> EarlySettings(threshold=0.1)
        EarlySettings(similarity_over='parameters', threshold=0.1)
    """

    similarity_over: Literal["parameters", "state"] = "parameters"
    """Entries that cosines, norms and distances of updates see: the parameters, or the BatchNorm buffers too
    (as published). Means are always over the whole state."""


@dataclass(frozen=True)
class State:
    """Everything that an algorithm remembers between two rounds; a checkpoint stores it.

    A run is resumed from its `State` alone. The arrays of a state that an algorithm receives are read-only:
    build a new state with `keep`, `without`, `with_rows` or `dataclasses.replace`.

    Args:
        models: C cluster models, each a float32 vector of shape (P,).
        labels_K: cluster of each client, 0..C-1, int64, shape (K,).
        arrays: further arrays of the algorithm by name, of any dtype.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> model_P = np.zeros(3, np.float32)
        >>> state = fedgrid.State((model_P, model_P), np.array([0, 1, 0]))
        >>> state.members(0)
        (0, 2)
        >>> state.keep(rounds=np.array([1])).arrays["rounds"].tolist()
        [1]
    """

    models: tuple[Vector, ...]
    """C cluster models, each a float32 vector of shape (P,)."""
    labels_K: Labels
    """Cluster of each client, 0..C-1, int64, shape (K,). Records score this partition against the hidden
    groups, whichever models are served (`Algorithm.served`)."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further arrays of the algorithm by name, of any dtype. Those named `cluster_...` have shape (C, ...),
    one row for each cluster model."""

    def members(self, cluster: int) -> tuple[int, ...]:
        """List the ids of the clients in a cluster, ascending."""
        return tuple(int(client) for client in np.flatnonzero(self.labels_K == cluster))

    def without(self, *names: str) -> "State":
        """Copy the state without the arrays of these names; names that it lacks are ignored."""
        return replace(self, arrays={name: self.arrays[name] for name in self.arrays if name not in names})

    def with_rows(self, rows: Sequence[int], labels_K: Labels) -> "State":
        """Copy the state with other models: those at the given positions, with new labels.

        Args:
            rows: positions in `models`. A position may occur several times, so that clusters start from the
                same model. The rows of arrays named `cluster_...` are taken with their models.
            labels_K: the cluster of each client among the new models, int64, shape (K,).

        Returns:
            The new state; all other arrays are as before.
        """
        arrays = {
            name: array[list(rows)] if name.startswith("cluster_") else array
            for name, array in self.arrays.items()
        }
        # By reference: models are read-only, so that clusters may share one.
        return State(tuple(self.models[row] for row in rows), labels_K, arrays)

    def keep(self, **arrays: NDArray[Any]) -> "State":
        """Copy the state with these arrays added or replaced, by name."""
        return replace(self, arrays={**self.arrays, **arrays})


@dataclass(frozen=True)
class Diagnostics:
    """The report of one step for the records; every field is optional.

    An algorithm returns it beside its new state. Most fields are columns of `rounds.parquet` or
    `clients.parquet`.

    Args:
        clustered: whether the algorithm chose a partition in this round, even one that changes nothing.
        mean_norm: largest norm of a cluster's mean update, if the algorithm uses it (Sattler).
        max_norm: largest norm of a client's update, if the algorithm uses it (Sattler).
        silhouette: mean silhouette of this round's clustering, if the algorithm computes it itself.
        warnings: warnings, one line each, for the run's log; their number is a column of the records.
        placed: clients that were absent from a clustering and joined a cluster in this round -> the reason
            for that cluster.
        counts: number of clients that chose each model, for algorithms whose clients choose among a fixed
            number of models; the entry's `Traits.columns` names `counts` then.
        members: client -> the clients whose models its cluster averages, where clusters may overlap;
            `Traits.columns` names `members` then.
        metrics: other numbers of the round, by the names that the algorithm's entry declares
            (`AlgorithmEntry.numbers`).

    Example:
        >>> import fedgrid
        >>> fedgrid.Diagnostics(clustered=True, metrics={"spread": 0.3}).metrics["spread"]
        0.3
    """

    clustered: bool = False
    """Whether the algorithm chose a partition in this round, even one that changes nothing."""
    mean_norm: float | None = None
    """Largest norm of a cluster's mean update, if the algorithm uses it (Sattler)."""
    max_norm: float | None = None
    """Largest norm of a client's update, if the algorithm uses it (Sattler)."""
    silhouette: float | None = None
    """Mean silhouette of this round's clustering, if the algorithm computes it itself. None: the server
    computes that of the partition on `Algorithm.distances`."""
    warnings: tuple[str, ...] = ()
    """Warnings, one line each, for the run's log; their number is a column of the records."""
    placed: Mapping[int, str] = field(default_factory=dict)
    """Clients that were absent from a clustering and joined a cluster in this round -> the reason for that
    cluster."""
    counts: tuple[int, ...] | None = None
    """Number of clients that chose each model, for algorithms whose clients choose among a fixed number of
    models; the entry's `Traits.columns` names `counts` then."""
    members: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Client -> the clients whose models its cluster averages, where clusters may overlap; `Traits.columns`
    names `members` then."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other numbers of the round, by the names that the algorithm's entry declares
    (`AlgorithmEntry.numbers`). A value that is not finite is null in the records."""


StepResult = tuple[State, Diagnostics]
"""The result of a round: the new state and its report."""


class Algorithm(ABC):
    """A federated algorithm: pure functions over `State`, configured by frozen settings.

    Most algorithms derive from `FedOpt`, which has all of these hooks, and override `FedOpt.recluster` only.
    Derive from this class to choose everything yourself; then `init` and `step` must be there.

    In each run the server calls the hooks in this order. Before the first round: `init`, then `reveal`. In
    each round: `message` and, for clients that are new, `meet`; then `orders`; the clients train; then
    `step`, which clusters and aggregates; then `served`, in rounds whose models are tested. After the last
    round: `place`, for clients that were held out. `traits`, `problem` and `start_order_key` are read before
    a run starts.

    To do something else than the default, override the hook for it:

    - Choose the partition: `FedOpt.recluster`, which sees the updates before they are averaged.
    - Average in another way: `FedOpt.aggregate`, or an `Aggregator`, which any averaging algorithm takes.
    - Start with several models, or keep arrays of your own: `init`.
    - Train clients by a rule of your own: `FedOpt.rule`.
    - Send orders to other clients, or several models to each: `orders`.
    - Test clients with other models than their cluster's: `served`; for steps before the test
      `FedOpt.fine_tuning`.
    - Place a client that was held out of the federation by what it sends: `place`.
    - Learn about clients' data before round 1: `message` and `meet`; later once more: `meets_again`.
    - Refuse settings that do not fit the run: `problem`.
    - Be started early among runs that share rounds: `start_order_key`.
    - Count other bytes: `traffic`.
    - Use the hidden groups, as a reference: `reveal`.

    All hooks are pure, so that a run can be resumed and its rounds shared with other runs. Randomness comes
    from the argument `rng`, nothing but the settings may be stored on the object (setting another attribute
    raises AttributeError), and arrays that come in are read-only. The generators of the whole process
    (torch's, `np.random` and `random`, so scikit-learn without `random_state` too) are seeded by the run for
    each call of a plugin's hook, and restored after it.

    What hooks return is checked. A mistake fails the run in one line that names the class, the hook, what was
    returned and what is expected. See `init`, `orders`, `step` and `served` for the conditions.

    Args:
        settings: the frozen settings, of the class that the algorithm's entry has.

    Raises:
        AttributeError: a hook sets an attribute of the algorithm.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> class Frozen(fedgrid.Algorithm):
        ...     '''Never trains: a lower bound.'''
        ...     def init(self, layout, num_clients, fresh, rng):
        ...         return fedgrid.State((fresh(0),), np.zeros(num_clients, np.int64))
        ...     def step(self, state, round_index, updates, rng):
        ...         return state, fedgrid.Diagnostics()
        >>> algorithm = Frozen(fedgrid.Settings())
        >>> layout = fedgrid.Layout(("weight",), ((2,),), 2)
        >>> rng = np.random.default_rng(0)
        >>> state = algorithm.init(layout, 3, lambda number: np.zeros(2, np.float32), rng)
        >>> present = fedgrid.Presence(joined=(0, 1, 2), sampled=(0, 2))
        >>> [order.client for order in algorithm.orders(state, 0, present, layout, rng)]
        [0, 2]
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __setattr__(self, name: str, value: object) -> None:
        # An attribute would be lost when a run is resumed, and its numbers would silently differ.
        if name != "settings":
            raise AttributeError(
                f"{type(self).__name__}.{name} is set, but an algorithm keeps its settings alone: a run is "
                f"resumed from its state, which keeps arrays by state.keep({name}=array)"
            )
        super().__setattr__(name, value)

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm with its settings.

        The engine reads them before a run and in each round; by default all of `Traits` are at their
        defaults.
        """
        return Traits()

    def problem(self, conditions: Conditions) -> str | None:
        """Explain why the settings do not fit the run.

        Called when a configuration is checked, before anything starts. An algorithm that derives from another
        one returns `super().problem(conditions)` where it has no objection itself; one that needs a model
        with a head returns `conditions.lacks_head()` first.

        Args:
            conditions: the rest of the run's configuration; its `layout`, `input_kind` and `input_shape` are
                the model's.

        Returns:
            One line with the reason and what to set instead, which the user sees after the algorithm's name;
            None if the settings fit.
        """
        return None

    @abstractmethod
    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state before the first round.

        Called by the server once a run, before the first round. What is returned is checked: it has to be a
        `State` whose models are float32 vectors of P finite entries, whose labels are integers 0..C-1 of
        shape (K,), and whose arrays named `cluster_...` have a row for each model.

        Args:
            layout: names and shapes of the tensors in a state vector of P entries.
            num_clients: K, with clients that join later and those that are held out.
            fresh: draws initial models, each float32, shape (P,). `fresh(0)` is the one that every algorithm
                of a scenario and seed starts from; other numbers give independent ones (IFCA needs several).
            rng: seeded by the run; all randomness comes from it.

        Returns:
            The state of round 0.
        """

    def reveal(self, state: State, groups_K: Labels, before_K: Labels | None = None) -> State:
        """Add the hidden groups to the state.

        Called by the server once after `init`, and again, before the messages of a round, in each round in
        which clients move to other groups (`RunConfig.drift`). Only a simulation has these groups, so only a
        reference that no real server could run may use them; by default the state stays as it is. The state
        is checked as that of `init`.

        Args:
            state: the state so far.
            groups_K: the hidden group of each client in this round, int64, shape (K,).
            before_K: those of the round before; None before the first round.

        Returns:
            The state with what the algorithm takes from the groups.
        """
        return state

    def meet(self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: Rng) -> State:
        """Learn from the messages of newcomers, before their first round.

        Called by the server at the beginning of a round, before `orders`: in round 1 for the clients that are
        there from the start, later for those that have joined. Never called if `message` returns None. The
        state is checked as that of `init`.

        Args:
            state: the state so far.
            messages: client -> the arrays that `Message.describe` made of its data.
            layout: names and shapes of the tensors in a state vector.
            rng: seeded by the run and the round.

        Returns:
            The state with what the algorithm learned, for example clusters; by default the state as it is.
        """
        return state

    def meets_again(self, round_index: int) -> bool:
        """Check whether all present clients send their messages again before a round, which counts from 0.

        Called by the server at the beginning of every round, for algorithms that handle data that change
        (`RunConfig.drift`). By default never. Messages cost bytes, and privacy where that is counted; clients
        without budget send none.
        """
        return False

    def meet_again(self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: Rng) -> State:
        """Learn from the messages of all present clients, newcomers among them.

        Called by the server in place of `meet` in rounds for which `meets_again` returns True; by default it
        is `meet`.

        Args:
            state: the state so far.
            messages: client -> its arrays, as in `meet`.
            layout: names and shapes of the tensors in a state vector.
            rng: seeded by the run and the round.

        Returns:
            The state with what the algorithm learned.
        """
        return self.meet(state, messages, layout, rng)

    def message(self) -> Message | None:
        """Build the message that each client sends about its data before its first round.

        Called by the server whenever it needs the message's settings, so it returns an equal one each time.
        None, the default: clients send nothing.
        """
        return None

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Decide what each client does in a round.

        Called by the server once a round, after `meet`. By default each sampled client trains its cluster's
        model by plain local training. What is returned is checked: a list of `Order`, at most one for a
        client, only for clients that have joined, with at least one candidate, all of them positions of
        models. A client that drops out after its order was sent costs its download.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            present: the clients that have joined and those that were sampled. Orders usually go to
                `present.sampled`, but may go to any of `present.joined`.
            layout: names and shapes of the tensors in a state vector, by which a rule finds its entries.
            rng: seeded by the run and the round.

        Returns:
            At most one order for each client.
        """
        return [Order(client, (int(state.labels_K[client]),)) for client in present.sampled]

    @abstractmethod
    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Cluster and aggregate: turn the replies of a round into the next state.

        Called by the server once a round, after the uplink, with what was sent. It is not called, and nothing
        changes, in a round without a usable update (every client dropped out) or in which no client has
        privacy budget left. What is returned is checked as in `init`, and has to be a pair of `State` and
        `Diagnostics`.

        Args:
            state: the state that the round began with.
            round_index: the round, from 0.
            updates: the usable updates of this round, at least one. An update with NaN or infinities is not
                in it. Clients that are missing keep their place unless their cluster is split.
            rng: seeded by the run and the round; all randomness of a step comes from it.

        Returns:
            The next state, and the report for the records.
        """

    def place(self, state: State, updates: Updates) -> State:
        """Place a client that was held out of the federation, by what it sends.

        Called by the server after the last round, for each held-out client by itself, and once more for each
        level of splits that the client descends. It may change no model that others are served: of the
        returned state only this client's part counts. By default the client is served as one that has never
        taken part.

        Args:
            state: the state after the last round.
            updates: the update of that client alone; it may enter no mean.

        Returns:
            The state in which the client has its place.
        """
        return state

    def served(self, state: State, layout: Layout) -> Served:
        """Choose the model that each client is tested with; by default its cluster's.

        Called by the server after each round whose models are tested (`evaluation.every`), and for each
        client that was held out. What is returned is checked: a `Served` with float32 models of P finite
        entries, and one of them for each of K clients. It does not change the partition: `State.labels_K` is
        scored against the hidden groups.

        Args:
            state: the state after the round.
            layout: names and shapes of the tensors in a state vector, by which a rule finds its entries.
        """
        # Models without a member are not served, so that they cost no test.
        clusters, model_K = np.unique(state.labels_K, return_inverse=True)
        return Served(tuple(state.models[cluster] for cluster in clusters), model_K)

    def global_model(self, state: State) -> Vector | None:
        """Return the one model for all, float32, shape (P,); None, the default, if there is none.

        Called by the server after each tested round if `evaluation.global_model` is set, which tests it in
        addition to the served models. It is checked as they are.
        """
        return None

    def distances(self, updates: Updates) -> Matrix:
        """Compute the distances between updates that this algorithm clusters by, float64, shape (K, K).

        Called by the server after `step`, if that reported no silhouette and left more than one cluster: the
        silhouette of the round is on these distances. By default they are cosine distances.
        """
        return updates.cosine_distances_KK

    def traffic(self, order: Order, layout: Layout) -> Traffic:
        """Count the bytes of an order.

        Called by the server once for each order of a round. By default the models and the payload are sent
        down, without the rule's personal entries, which do not travel, and what the uplink measures comes up.

        Args:
            order: an order of this round.
            layout: names and shapes of the tensors in a state vector.

        Returns:
            The bytes down and up.
        """
        if not self.traits.sends_updates:
            return Traffic(down=0, up=0)
        payload = sum(array.nbytes for array in order.payload.values())
        entries = layout.size - sum(stop - first for first, stop in order.rule.personal)
        # Several candidates are sent one by one: the server does not know which entries they share.
        return Traffic(down=BYTES_PER_ENTRY * entries * len(order.candidates) + payload)

    def start_order_key(self) -> tuple[float, ...]:
        """Build the sort key by which runs that share their first rounds are started, smallest first.

        Called when a grid or a search is planned. The first number is the earliest round, counted from 1, in
        which this algorithm can deviate from FedAvg; further ones say what delays it. The run that deviates
        first computes and caches the rounds of plain averaging that the later ones need. The order affects
        the time of a grid, never its numbers.
        """
        return (1.0,)

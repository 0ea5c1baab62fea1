"""Small federations for the tests of the algorithms.

Every array that is handed to an algorithm is read-only: writing to an input raises.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgrid.algorithms.clustering.latecomers import read_past_splits
from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, State
from fedgrid.algorithms.contract.orders import PREDICTIONS, Order, Presence
from fedgrid.algorithms.updates.source import InMemorySource, Layout
from fedgrid.algorithms.updates.updates import Updates

Vectors = Mapping[int, ArrayLike]


def frozen(values: ArrayLike, dtype: Any = np.float32) -> NDArray[Any]:
    """Make a read-only copy."""
    array = np.array(values, dtype)
    array.setflags(write=False)
    return array


def freeze(state: State) -> State:
    """Make a copy of `state` whose arrays are read-only."""
    return State(
        tuple(frozen(model, model.dtype) for model in state.models),
        frozen(state.labels_K, state.labels_K.dtype),
        {name: frozen(array, array.dtype) for name, array in state.arrays.items()},
    )


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def build_layout(num_parameters: int, num_buffers: int = 0) -> Layout:
    shapes = ((num_parameters,), (num_buffers,)) if num_buffers else ((num_parameters,),)
    return Layout(("weight", "counter")[: len(shapes)], shapes, num_parameters)


def build_updates(vectors: Vectors, num_buffers: int = 0, **options: Any) -> Updates:
    """Build the view of these updates; the last `num_buffers` entries are buffers."""
    arrays = {client: frozen(vector) for client, vector in vectors.items()}
    size = len(next(iter(arrays.values())))
    return Updates(arrays, build_layout(size - num_buffers, num_buffers), **options)


def clients(*vectors: ArrayLike, first: int = 0) -> dict[int, ArrayLike]:
    """Number updates as the clients `first`, `first` + 1, ..."""
    return dict(enumerate(vectors, first))


def start(
    algorithm: Algorithm, num_clients: int, model: ArrayLike = (0.0, 0.0), num_buffers: int = 0
) -> State:
    """Build the state before the first round; initial models but the first are `model` and noise.

    Args:
        algorithm: whose state.
        num_clients: number of clients.
        model: vector of the first model; two zeros by default.
        num_buffers: entries at its end that are buffers.
    """
    initial = frozen(model)
    layout = build_layout(len(initial) - num_buffers, num_buffers)

    def fresh(number: int) -> NDArray[np.float32]:
        noise = np.zeros(len(initial))
        noise[: layout.num_parameters] = rng(number).standard_normal(layout.num_parameters)
        return frozen(initial + noise) if number else initial

    return freeze(algorithm.init(layout, num_clients, fresh, rng()))


def build_orders(
    algorithm: Algorithm, state: State, sampled: Iterable[int], round_index: int = 0
) -> dict[int, Order]:
    """Build the order of each client in a round in which `sampled` are drawn of all.

    Args:
        algorithm: which gives the orders.
        state: before the round.
        sampled: clients of the round.
        round_index: from 0.
    """
    joined = tuple(range(len(state.labels_K)))
    presence = Presence(joined, tuple(sorted(sampled)))
    layout = build_layout(state.models[0].size)
    orders = algorithm.orders(state, round_index, presence, layout, rng(round_index))
    return {order.client: order for order in orders}


def step(
    algorithm: Algorithm,
    state: State,
    round_index: int,
    vectors: Vectors,
    num_buffers: int = 0,
    absent: Iterable[int] = (),
    chosen: Mapping[int, int] | None = None,
) -> tuple[State, Diagnostics]:
    """Take one step with the generator of that round, from a read-only state.

    Args:
        algorithm: which takes it.
        state: before the round.
        round_index: from 0.
        vectors: client -> update.
        num_buffers: entries at the end of an update that are buffers.
        absent: clients that are not there.
        chosen: client -> the model that it chose; the first of its candidates by default.
    """
    view = build_replies(algorithm, state, round_index, vectors, num_buffers, absent, chosen)
    return algorithm.step(freeze(state), round_index, view, rng(round_index))


def build_replies(
    algorithm: Algorithm,
    state: State,
    round_index: int,
    vectors: Vectors,
    num_buffers: int = 0,
    absent: Iterable[int] = (),
    chosen: Mapping[int, int] | None = None,
) -> Updates:
    """Build the view of these updates as replies to the algorithm's orders.

    Every output that a rule names is a client's update of the parameters with the sign reversed, but for
    FedNova's `normaliser`, one step for a short update, up to five for a long one, and FedProto's, which is
    of a class for each parameter and one feature.

    Args:
        algorithm: which gives the orders.
        state: before the round.
        round_index: from 0.
        vectors: client -> update.
        num_buffers: entries at the end of an update that are buffers.
        absent: clients that are not there.
        chosen: client -> the model that it chose; the first of its candidates by default.
    """
    arrays = {client: frozen(vector) for client, vector in vectors.items()}
    width = len(next(iter(arrays.values()))) - num_buffers
    orders = build_orders(algorithm, state, arrays, round_index)
    outputs: dict[str, dict[int, NDArray[np.float32]]] = {}
    chosen = {client: (chosen or {}).get(client, orders[client].candidates[0]) for client in arrays}
    for client in arrays:
        update = arrays[client][:width]
        steps = [1 + min(4, float(np.linalg.norm(update)) // 4)]
        special: dict[str, ArrayLike] = {"normaliser": steps, "prototypes": -update[:, None]}
        for name in orders[client].rule.outputs:
            outputs.setdefault(name, {})[client] = frozen(special.get(name, -update))
        if orders[client].infer:
            local = (state.models[chosen[client]] + arrays[client])[:width]
            outputs.setdefault(PREDICTIONS, {})[client] = predict_images(local)
    return Updates(
        InMemorySource(arrays, outputs),
        build_layout(width, num_buffers),
        similarity_over=algorithm.settings.similarity_over,
        absent=absent,
        clients=arrays,
        chosen=chosen,
    )


def predict_images(model: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the class probabilities, of two, of 40 random images by a linear model, shape (40, 2)."""
    images = rng(40).standard_normal((40, len(model)))
    scores = np.clip(images @ model.astype(np.float64), -30, 30)
    return frozen(np.stack([1 / (1 + np.exp(-scores)), 1 / (1 + np.exp(scores))], axis=1))


def play(
    algorithm: Algorithm, rounds: Sequence[Vectors], num_clients: int
) -> list[tuple[State, Diagnostics]]:
    """Run an algorithm on updates from a model of zeros: (state, diagnostics) after each round."""
    size = np.asarray(next(iter(rounds[0].values()))).size
    state, history = start(algorithm, num_clients, np.zeros(size)), []
    for round_index, vectors in enumerate(rounds):
        state, diagnostics = step(algorithm, state, round_index, vectors)
        history.append((state, diagnostics))
    return history


def rounds_clustered(history: Iterable[tuple[State, Diagnostics]]) -> list[int]:
    """List the rounds, from 0, that are reported as clustered."""
    return [index for index, (_, diagnostics) in enumerate(history) if diagnostics.clustered]


def group_labels(labels: Iterable[int]) -> set[frozenset[int]]:
    """Find the partition that these labels describe, whatever the labels are called."""
    labels = [int(label) for label in labels]
    return {frozenset(index for index, other in enumerate(labels) if other == label) for label in set(labels)}


def partition(state: State) -> set[frozenset[int]]:
    return group_labels(state.labels_K)


def sets(*groups: Iterable[int]) -> set[frozenset[int]]:
    return {frozenset(group) for group in groups}


def read_model(state: State, client: int) -> list[float]:
    """Read the cluster model of `client`."""
    return [float(entry) for entry in state.models[state.labels_K[client]]]


def check_valid(state: State, num_clients: int) -> None:
    """Assert what holds for every state of every algorithm.

    Every model is a client's, or one to start from or to choose, or stored for clients that were absent at a
    split.
    """
    assert state.labels_K.dtype == np.int64
    assert state.labels_K.shape == (num_clients,)
    labels = set(state.labels_K.tolist())
    waiting = {node.waiting for node in read_past_splits(state)}
    starts = set(state.arrays.get("start_K", state.labels_K).tolist())
    chosen = {"choice_K", "model_K"} & set(state.arrays)
    assert waiting or chosen or labels == set(range(len(labels)))
    assert chosen or labels | starts | waiting == set(range(len(state.models)))
    for model in state.models:
        assert model.dtype == np.float32
        assert np.isfinite(model).all()
    for name, array in state.arrays.items():
        assert isinstance(array, np.ndarray)
        assert not name.startswith("cluster_") or len(array) == len(state.models)


def copy_state(state: State) -> State:
    """Copy `state` by way of bytes, as a checkpoint does."""

    def copy_array(array: NDArray[Any]) -> NDArray[Any]:
        return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape).copy()

    return State(
        tuple(copy_array(model) for model in state.models),
        copy_array(state.labels_K),
        {name: copy_array(array) for name, array in state.arrays.items()},
    )


def has_same_bits(one: State, other: State) -> bool:
    return (
        [model.tobytes() for model in one.models] == [model.tobytes() for model in other.models]
        and one.labels_K.tobytes() == other.labels_K.tobytes()
        and {name: (array.dtype, array.shape, array.tobytes()) for name, array in one.arrays.items()}
        == {name: (array.dtype, array.shape, array.tobytes()) for name, array in other.arrays.items()}
    )


def make_block_distances(
    sizes: Sequence[int], *, inside: float = 0.1, jitter: float = 0.01, seed: int = 0
) -> tuple[NDArray[np.float64], list[int]]:
    """Make distances of three groups, 1, 0.8 and 0.6 apart, and the true labels.

    Args:
        sizes: of the groups.
        inside: distance within a group.
        jitter: deviation of all distances.
        seed: of the jitter.
    """
    truth_K = np.repeat(np.arange(3), sizes)
    between = np.array([[inside, 1.0, 0.8], [1.0, inside, 0.6], [0.8, 0.6, inside]])
    noise_KK = jitter * rng(seed).standard_normal((len(truth_K), len(truth_K)))
    distances_KK = between[np.ix_(truth_K, truth_K)] + (noise_KK + noise_KK.T) / 2
    np.fill_diagonal(distances_KK, 0.0)
    return frozen(distances_KK, np.float64), truth_K.tolist()


@dataclass(frozen=True)
class Federation:
    """Twelve clients in three hidden groups, client k in group k mod 3, with a quadratic loss each.

    Client k minimises |model - target of its group|^2 / 2 and steps half the way, plus noise. All
    targets share a large common part, so that the groups stand out once the model has learnt it; the
    noise is large in rounds 0 and 1, so that the temperature falls first. Sixteen parameters and four
    buffers, which every client raises by the same constant.
    """

    num_clients: int = 12
    num_parameters: int = 16
    num_buffers: int = 4
    order: tuple[int, ...] | None = None
    """Client i of this federation is client `order[i]` of the usual one."""
    participation: float = 1.0
    """Share of the clients that are there; they are drawn for each round."""

    @property
    def model(self) -> NDArray[np.float32]:
        return frozen(np.zeros(self.num_parameters + self.num_buffers))

    def start(self, algorithm: Algorithm) -> State:
        """Build the state before the first round."""
        return start(algorithm, self.num_clients, self.model, self.num_buffers)

    def targets(self) -> NDArray[np.float64]:
        """Make one target a group: 16 along the first axis, then a triangle with unequal sides."""
        targets = np.zeros((3, self.num_parameters))
        targets[:, 0] = 16.0
        targets[:, 1:3] = [[2.0, 0.0], [-2.0, 0.6], [-0.5, -2.0]]
        return targets

    def absent(self, round_index: int) -> frozenset[int]:
        """Draw the clients that are not there in a round."""
        away = round(self.num_clients * (1 - self.participation))
        usual = np.random.default_rng((round_index, 7)).permutation(self.num_clients)[:away].tolist()
        return frozenset(self.order.index(client) if self.order else client for client in usual)

    def chosen(self, round_index: int, state: State, algorithm: Algorithm) -> dict[int, int]:
        """Find the candidate of least loss for every client that is present; ties go to the first."""
        present, targets = set(range(self.num_clients)) - self.absent(round_index), self.targets()

        def loss(client: int, candidate: int) -> float:
            target = targets[(self.order[client] if self.order else client) % 3]
            return float(((state.models[candidate][: self.num_parameters] - target) ** 2).sum())

        orders = build_orders(algorithm, state, present, round_index)
        return {
            client: min(orders[client].candidates, key=lambda candidate: loss(client, candidate))
            for client in sorted(present)
        }

    def vectors(self, round_index: int, state: State, algorithm: Algorithm) -> dict[int, NDArray[np.float32]]:
        """Compute the update of every client that is present, from the model that it chooses."""
        present = set(range(self.num_clients)) - self.absent(round_index)
        targets, chosen = self.targets(), self.chosen(round_index, state, algorithm)
        size = (16.0, 3.0, 0.2)[min(round_index, 2)] / np.sqrt(self.num_parameters)
        vectors = {}
        for client in sorted(present):
            usual = self.order[client] if self.order else client
            model = state.models[chosen[client]][: self.num_parameters].astype(np.float64)
            noise = size * np.random.default_rng((round_index, usual)).standard_normal(self.num_parameters)
            update = (targets[usual % 3] - model) / 2 + noise
            vectors[client] = frozen(np.concatenate([update, np.full(self.num_buffers, 0.25)]))
        return vectors

    def play(
        self, algorithm: Algorithm, rounds: Iterable[int] = range(6), state: State | None = None
    ) -> list[tuple[State, Diagnostics]]:
        """Run `rounds` from `state`: (state, diagnostics) after each."""
        state = state or self.start(algorithm)
        history = []
        for round_index in rounds:
            vectors = self.vectors(round_index, state, algorithm)
            inputs = vectors, self.num_buffers, self.absent(round_index)
            chosen = self.chosen(round_index, state, algorithm)
            state, diagnostics = step(algorithm, state, round_index, *inputs, chosen)
            history.append((state, diagnostics))
        return history

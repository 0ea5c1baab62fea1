"""Checks and freezes what an algorithm returns, so that a mistake in a plugin is named where it happens.

Shapes: K clients of the federation, C cluster models, P entries of a state vector.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, Labels, State, Step
from fedgrid.algorithms.contract.orders import Order, Presence, Served
from fedgrid.algorithms.updates.source import Vector, read_only

Broken = Callable[[str], "BrokenContract"]
"""Makes the error of a method from what it returned."""


class BrokenContract(ValueError):
    """An algorithm, or a part of it, returned what none may return."""

    def __init__(self, item: object, method: str, what: str) -> None:
        super().__init__(f"{type(item).__name__}.{method} returned {what}")
        self.of, self.method = type(item), method
        """The class of the algorithm, or of a part of it, and the name of its method."""


def freeze(state: State) -> State:
    """Return the state, whose arrays cannot be written to any more."""
    read_only([*state.models, state.labels_K, *state.arrays.values()])
    return state


def check_step(algorithm: Algorithm, method: str, returned: object, num_clients: int) -> Step:
    """Return the state and the diagnostics that a method returned; each of K clients has one of the models.

    Raises:
        BrokenContract: it returned something else, or the labels are no integers 0..C-1, one a client.
    """
    match returned:
        case (State() as state, Diagnostics() as diagnostics):
            _check_partition(partial(BrokenContract, algorithm, method), state, num_clients)
            return state, diagnostics
    raise BrokenContract(algorithm, method, f"{_describe(returned)}; write `return state, Diagnostics()`")


def _check_partition(broken: Broken, state: State, num_clients: int) -> None:
    if not isinstance(state, State):
        raise broken(f"{_describe(state)}; expected a State")
    _check_places(broken, "labels_K", state.labels_K, num_clients, len(state.models))


def check_state(algorithm: Algorithm, method: str, state: State, size: int, num_clients: int) -> State:
    """Return the state that a method returned, with arrays that cannot be written to; `size` is P.

    Raises:
        BrokenContract: a model is no float32 vector of P finite entries; the labels are no integers 0..C-1,
            one a client; an array `cluster_...` has no row for each model.
    """
    broken = partial(BrokenContract, algorithm, method)
    _check_partition(broken, state, num_clients)
    _check_models(broken, state.models, size)
    for name, array in state.arrays.items():
        got = f"arrays['{name}'] = {_describe(array)}"
        if not isinstance(array, np.ndarray):
            raise broken(f"{got}; expected a NumPy array")
        if name.startswith("cluster_") and array.shape[:1] != (len(state.models),):
            raise broken(f"{got}; expected a row for each of the {len(state.models)} models")
    return freeze(state)


def check_orders(
    algorithm: Algorithm, orders: Sequence[Order], num_models: int, presence: Presence
) -> list[Order]:
    """Return the orders, by client.

    Raises:
        BrokenContract: no list of orders, several for a client, one for a client that has not joined, or one
            without models that there are.
    """
    broken = partial(BrokenContract, algorithm, "orders")
    if not isinstance(orders, Sequence) or not all(isinstance(order, Order) for order in orders):
        raise broken(f"{_describe(orders)}; expected a list of Order, one a client that is to train")
    counts = Counter(order.client for order in orders)
    for order in orders:
        if counts[order.client] > 1 or order.client not in presence.joined:
            raise broken(
                f"{counts[order.client]} orders for client {order.client}; expected at most one, and only "
                "for clients that have joined"
            )
        if not order.candidates or not all(0 <= place < num_models for place in order.candidates):
            raise broken(
                f"candidates {order.candidates} for client {order.client}; expected positions of the "
                f"{num_models} models"
            )
    return sorted(orders, key=lambda order: order.client)


def payload_problem(payload: object) -> str | None:
    """Return what a message returned in place of named arrays; None if it returned these."""
    if isinstance(payload, Mapping) and all(isinstance(array, np.ndarray) for array in payload.values()):
        return None
    return f"{_describe(payload)}; expected a dict of names and NumPy arrays"


def check_labels(item: object, method: str, labels: object, number: int) -> Labels:
    """Return the labels that a clusterer returned, one for each of a number of clients.

    Raises:
        BrokenContract: there are not as many integers.
    """
    values = np.array(labels, dtype=object)  # Of lists of different lengths, too.
    if values.shape != (number,) or not all(isinstance(value, int | np.integer) for value in values):
        expected = f"expected an integer a client, shape ({number},)"
        raise BrokenContract(item, method, f"{_describe(labels)}; {expected}")
    return values.astype(np.int64)


def check_served(algorithm: Algorithm, state: State, size: int) -> Served:
    """Return which models are tested, each of `size` entries.

    Raises:
        BrokenContract: a model is no float32 vector of P finite entries, or a client has none of them.
    """
    broken, served = partial(BrokenContract, algorithm, "served"), algorithm.served(state)
    if not isinstance(served, Served):
        raise broken(f"{_describe(served)}; expected a Served")
    _check_models(broken, served.models, size)
    _check_places(broken, "model_K", served.model_K, len(state.labels_K), len(served.models))
    return served


def check_global_model(algorithm: Algorithm, state: State, size: int) -> Vector | None:
    """Return the one model for all, of `size` entries; None if there is none.

    Raises:
        BrokenContract: it is no float32 vector of P finite entries.
    """
    model = algorithm.global_model(state)
    _check_models(partial(BrokenContract, algorithm, "global_model"), () if model is None else (model,), size)
    return model


def _check_models(broken: Broken, models: Sequence[object], size: int) -> None:
    for place, model in enumerate(models):
        if not isinstance(model, np.ndarray) or model.dtype != np.float32 or model.shape != (size,):
            raise broken(f"model {place} = {_describe(model)}; expected float32, shape ({size},)")
        if wrong := size - np.count_nonzero(np.isfinite(model)):
            raise broken(
                f"model {place} with {wrong} of {size} entries NaN or infinite; if the training diverges, "
                "lower training.learning_rate or algorithm.server_learning_rate"
            )


def _check_places(broken: Broken, name: str, places: object, num_clients: int, num_models: int) -> None:
    """Check that each client has one of the models."""
    if (
        not isinstance(places, np.ndarray)
        or not np.issubdtype(places.dtype, np.integer)
        or places.shape != (num_clients,)
    ):
        raise broken(f"{name} = {_describe(places)}; expected integers, shape ({num_clients},)")
    wrong = np.flatnonzero((places < 0) | (places >= num_models))
    if wrong.size:
        raise broken(
            f"{name} with client {wrong[0]} in {places[wrong[0]]}; there are {num_models} models, from 0"
        )


def _describe(value: object) -> str:
    """Return what a value is: an array by its dtype and shape, a tuple by its parts, another by its type."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}, shape {value.shape}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_describe, value))})"
    return f"a {type(value).__name__}"

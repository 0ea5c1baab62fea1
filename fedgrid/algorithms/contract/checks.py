"""Checks of what an algorithm returns, so that a mistake in a plugin is named where it happens.

The server calls them after each hook. What passes is frozen, so that a later hook cannot change it.

Shapes: K clients of the federation, C cluster models, P entries of a state vector.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, Labels, State, StepResult
from fedgrid.algorithms.contract.orders import Order, Presence, Served
from fedgrid.algorithms.updates.source import Layout, Vector, make_read_only

ErrorFactory = Callable[[str], "BrokenContract"]
"""Function from a description of what was returned to the error about it."""


class BrokenContract(ValueError):
    """An algorithm, or a part of it, returned something that the contract does not allow."""

    def __init__(self, item: object, method: str, what: str) -> None:
        """Build the message.

        Args:
            item: the algorithm, or the part of it, such as a clusterer.
            method: name of the hook.
            what: what it returned, and what is expected.
        """
        super().__init__(f"{type(item).__name__}.{method} returned {what}")
        self.item_type = type(item)
        self.method = method
        """The class of the algorithm, or of a part of it, and the name of its method."""


def freeze_state(state: State) -> State:
    """Make all arrays of a state read-only; return the same state."""
    make_read_only([*state.models, state.labels_K, *state.arrays.values()])
    return state


def check_step(algorithm: Algorithm, method: str, returned: object, num_clients: int) -> StepResult:
    """Check the pair of state and diagnostics that a hook returned.

    Args:
        algorithm: the algorithm whose hook it is.
        method: name of the hook, for messages.
        returned: what it returned.
        num_clients: K.

    Returns:
        State and diagnostics; each of K clients has one of the models.

    Raises:
        BrokenContract: it returned something else, or the labels are not K integers 0..C-1.
    """
    match returned:
        case (State() as state, Diagnostics() as diagnostics):
            _check_partition(partial(BrokenContract, algorithm, method), state, num_clients)
            return state, diagnostics
    raise BrokenContract(
        algorithm, method, f"{describe_value(returned)}; write `return state, Diagnostics()`"
    )


def _check_partition(broken: ErrorFactory, state: State, num_clients: int) -> None:
    """Check that it is a state whose labels are positions of its models."""
    # A plugin may forget to return: None would fail far from its cause.
    if not isinstance(state, State):
        raise broken(f"{describe_value(state)}; expected a State")
    _check_places(broken, "labels_K", state.labels_K, num_clients, len(state.models))


def check_state(algorithm: Algorithm, method: str, state: State, size: int, num_clients: int) -> State:
    """Check the state that a hook returned, and make its arrays read-only.

    Args:
        algorithm: the algorithm whose hook it is.
        method: name of the hook, for messages.
        state: what it returned.
        size: P.
        num_clients: K.

    Raises:
        BrokenContract: a model is no float32 vector of P finite entries; the labels are not K integers
            0..C-1; an array `cluster_...` has no row for each model.
    """
    broken = partial(BrokenContract, algorithm, method)
    _check_partition(broken, state, num_clients)
    _check_models(broken, state.models, size)
    for name, array in state.arrays.items():
        got = f"arrays['{name}'] = {describe_value(array)}"
        if not isinstance(array, np.ndarray):
            raise broken(f"{got}; expected a NumPy array")
        if name.startswith("cluster_") and array.shape[:1] != (len(state.models),):
            raise broken(f"{got}; expected a row for each of the {len(state.models)} models")
    return freeze_state(state)


def check_orders(
    algorithm: Algorithm, orders: Sequence[Order], num_models: int, presence: Presence
) -> list[Order]:
    """Check the orders of a round, and sort them by client.

    Args:
        algorithm: the algorithm that returned them.
        orders: what it returned.
        num_models: number of models in the state.
        presence: the clients that have joined.

    Raises:
        BrokenContract: it is no list of orders, there are several for a client or one for a client that has
            not joined, or an order has no candidates or some that do not exist.
    """
    broken = partial(BrokenContract, algorithm, "orders")
    if not isinstance(orders, Sequence) or not all(isinstance(order, Order) for order in orders):
        raise broken(f"{describe_value(orders)}; expected a list of Order, one a client that is to train")
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
    # Sorted, so that seeds, records and the round cache do not depend on an algorithm's order.
    return sorted(orders, key=lambda order: order.client)


def find_payload_problem(payload: object) -> str | None:
    """Describe what a message returned in place of named arrays; None if it returned these."""
    if isinstance(payload, Mapping) and all(isinstance(array, np.ndarray) for array in payload.values()):
        return None
    return f"{describe_value(payload)}; expected a dict of names and NumPy arrays"


def check_labels(item: object, method: str, labels: object, number: int) -> Labels:
    """Check the labels that a clusterer returned.

    Args:
        item: the clusterer, for messages.
        method: name of its method, for messages.
        labels: what it returned.
        number: number of clients that were clustered.

    Returns:
        The labels, int64, shape (`number`,).

    Raises:
        BrokenContract: there are not as many integers.
    """
    # As objects, so that lists of different lengths and floats are seen as they are, and not converted.
    values = np.array(labels, dtype=object)  # Of lists of different lengths, too.
    if values.shape != (number,) or not all(isinstance(value, int | np.integer) for value in values):
        expected = f"expected an integer a client, shape ({number},)"
        raise BrokenContract(item, method, f"{describe_value(labels)}; {expected}")
    return values.astype(np.int64)


def check_served(algorithm: Algorithm, state: State, layout: Layout) -> Served:
    """Call `served` and check which models are tested.

    Raises:
        BrokenContract: a model is no float32 vector of P finite entries, or a client has none of them.
    """
    broken = partial(BrokenContract, algorithm, "served")
    served = algorithm.served(state, layout)
    if not isinstance(served, Served):
        raise broken(f"{describe_value(served)}; expected a Served")
    _check_models(broken, served.models, layout.size)
    _check_places(broken, "model_K", served.model_K, len(state.labels_K), len(served.models))
    return served


def check_global_model(algorithm: Algorithm, state: State, size: int) -> Vector | None:
    """Call `global_model` and check the one model for all, of `size` entries; None if there is none.

    Raises:
        BrokenContract: it is no float32 vector of P finite entries.
    """
    model = algorithm.global_model(state)
    _check_models(partial(BrokenContract, algorithm, "global_model"), () if model is None else (model,), size)
    return model


def _check_models(broken: ErrorFactory, models: Sequence[object], size: int) -> None:
    """Check that each model is a float32 vector of `size` finite entries."""
    for place, model in enumerate(models):
        if not isinstance(model, np.ndarray) or model.dtype != np.float32 or model.shape != (size,):
            raise broken(f"model {place} = {describe_value(model)}; expected float32, shape ({size},)")
        # Diverged training is the usual cause, so the message names the settings that help.
        if wrong := size - np.count_nonzero(np.isfinite(model)):
            raise broken(
                f"model {place} with {wrong} of {size} entries NaN or infinite; if the training diverges, "
                "lower training.learning_rate or algorithm.server_learning_rate"
            )


def _check_places(broken: ErrorFactory, name: str, places: object, num_clients: int, num_models: int) -> None:
    """Check that each client has one of the models."""
    if (
        not isinstance(places, np.ndarray)
        or not np.issubdtype(places.dtype, np.integer)
        or places.shape != (num_clients,)
    ):
        raise broken(f"{name} = {describe_value(places)}; expected integers, shape ({num_clients},)")
    wrong = np.flatnonzero((places < 0) | (places >= num_models))
    if wrong.size:
        raise broken(
            f"{name} with client {wrong[0]} in {places[wrong[0]]}; there are {num_models} models, from 0"
        )


def describe_value(value: object) -> str:
    """Describe a value: an array or a tensor by dtype and shape, a tuple by its parts, others by type."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype}, shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(describe_value, value))})"
    return f"a {type(value).__name__}"

"""The released code's FLIS-HC: no clusters, but a list of neighbours for each client.

Two clients are neighbours if their models, trained once from the initial one, agree on 96 % of the reference
images. In every round a client trains the mean of the latest models of its neighbours, whether they have
taken part or not; one that has not holds the initial model still, so that means stay near it for many rounds.

Source: the code of Morafah et al. 2022, arXiv:2208.09754, whose threshold for hierarchical clustering is set
to 5 and never acts. Deviations: means have the weights of the run; what a client trains in round 1 is its
first local model if it is sampled; a newcomer trains the initial model, then has neighbours as the others.

Shapes: K clients of the federation, N with predictions, P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedgrid.algorithms.clustered.flis import inference
from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.contract.base import Diagnostics, Labels, State, StepResult
from fedgrid.algorithms.updates.source import Vector
from fedgrid.algorithms.updates.updates import Updates

AGREEMENT = 0.96
"""Share of reference images on which the models of neighbours agree, as in the released code."""
INITIAL_MODEL, STARTS = "initial_P", "start_K"
"""Names of arrays of the state: the initial model, and the position of the model that each client trains
next."""


def read_starts(state: State) -> Labels:
    """Read the position of the model that each client trains next, shape (K,)."""
    return state.arrays.get(STARTS, state.labels_K)


def average_neighbours(state: State, updates: Updates, aggregate: Aggregator) -> StepResult:
    """Store the latest models, find the neighbours of clients seen for the first time, and average.

    Memory: `client_model_<id>` (float32, shape (P,)) of each client that has taken part, and `weights_K`
    (float64) if clients have weights; `initial_P`; `classes_KM`; `start_K`. Connected components are scored;
    a client that has not been seen is labelled with the largest.
    """
    is_first = inference.CLASSES not in state.arrays
    # 1. Compare the clients that are here for the first time.
    new = [
        client
        for client in updates.clients
        if is_first or state.arrays[inference.CLASSES][client, 0] == inference.UNKNOWN
    ]
    if is_first:
        state = state.keep(**{INITIAL_MODEL: state.models[0]})
    if new:
        _, classes_NM = inference.infer_similarities(updates.select(new), "hard", "agreement")
        state = state.keep(**{inference.CLASSES: inference.replace_classes(state, new, classes_NM)})
    # 2. Store their models. In round 1 all clients trained, but only those sampled count as having taken
    # part.
    state = _store_models(state, updates, updates.sampled if is_first else updates.clients)
    seen = np.flatnonzero(state.arrays[inference.CLASSES][:, 0] != inference.UNKNOWN).tolist()
    classes_NM = state.arrays[inference.CLASSES][seen]
    # 3. Average over neighbours, and score the connected components.
    joined_NN = inference.find_neighbours(inference.compute_agreements(classes_NM, classes_NM), AGREEMENT)
    groups, owner_N = inference.find_distinct_groups(joined_NN, seen)
    labels_N = inference.find_components(joined_NN)
    labels_K = np.full(len(state.labels_K), np.bincount(labels_N).argmax(), np.int64)
    labels_K[seen] = labels_N
    # Position after the groups: the initial model, appended below for clients that have not been seen.
    start_K = np.full(len(labels_K), len(groups), np.int64)
    start_K[seen] = owner_N
    models = [_aggregate_models(state, group, aggregate) for group in groups]
    if len(seen) < len(labels_K):
        models.append(state.arrays[INITIAL_MODEL])
    members = {client: tuple(groups[owner]) for client, owner in zip(seen, owner_N, strict=True)}
    state = replace(state, models=tuple(models), labels_K=labels_K).keep(**{STARTS: start_K})
    return state, Diagnostics(clustered=bool(new), members=members)


def _store_models(state: State, updates: Updates, clients: Sequence[int] | frozenset[int]) -> State:
    """Store the latest models of those of `clients` that have an update, and the weights."""
    models = {
        _model_name(client): state.models[updates.chosen[client]] + update_P
        for client, update_P in zip(updates.clients, updates.vectors(), strict=True)
        if client in clients
    }
    # The weights of clients that are away are needed for later means.
    if updates.weights is not None:
        weights_K = state.arrays.get("weights_K", np.ones(len(state.labels_K))).copy()
        weights_K[list(updates.clients)] = [updates.weights[client] for client in updates.clients]
        state = state.keep(weights_K=weights_K)
    return state.keep(**models)


def _aggregate_models(state: State, group: Sequence[int], aggregate: Aggregator) -> Vector:
    """Aggregate the latest models of a group; members that have not trained count with the initial model."""
    weights_K = state.arrays.get("weights_K", np.ones(len(state.labels_K)))
    trained = [client for client in group if _model_name(client) in state.arrays]
    # One row for all of them: they have the same model, which may be gigabytes.
    untrained = float(sum(weights_K[client] for client in group if client not in trained))
    rows = [state.arrays[_model_name(client)] for client in trained]
    shares = [float(weights_K[client]) for client in trained]
    if untrained:
        rows = [*rows, state.arrays[INITIAL_MODEL]]
        shares = [*shares, untrained]
    return rows[0] if len(rows) == 1 else aggregate.combine(rows, shares)


def _model_name(client: int) -> str:
    """Name the state's array with a client's latest model."""
    return f"client_model_{client}"

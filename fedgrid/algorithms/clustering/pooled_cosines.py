"""Cosines of updates: pooled over rounds, without their mean, of standardised entries.

Early in training all updates share a large common direction, which hides the groups, and one round shows them
with much noise. Both remedies need the cosines alone: for unit vectors with Gram matrix C, the differences
from their mean have the Gram matrix H C H with H = I - 11'/K. And the entries in which clients differ most
drown the others: divided by their standard deviation all count alike (docs/evidence/standardised-updates.md).

Shapes: K clients of the federation, M of them in a view.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.algorithms.updates.updates import Updates

POOLED, NUM_SHARED_ROUNDS = "pooled_cosines_KK", "rounds_met_KK"
"""Arrays of a state: sums of cosines over the rounds in which both clients of a pair sent updates (float64),
and the number of those rounds (int64), both of shape (K, K)."""
ROUNDING = 1e-9
"""Squared length below which a difference between a unit vector and the mean is zero."""


class CosineSettings(Section):
    """Settings of the cosines that a clusterer sees; by default those of one round, as published."""

    centre: bool = False
    """Whether the mean of the clients' directions is subtracted first."""
    pool_rounds: bool = False
    """Whether cosines are averaged over all rounds so far in which a pair of clients sent updates."""

    standardise: bool = False
    """Whether each entry of the updates is divided by its standard deviation over the clients first."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("centre", "pool_rounds", "standardise")


def compute_clustering_distances(state: State, members: Updates, settings: CosineSettings) -> Matrix:
    """Compute 1 - the cosines that the settings choose, shape (M, M).

    Members of which some pair never sent updates in the same round are compared by this round alone.

    Args:
        state: the state, whose sums already hold this round (`pool_cosines`).
        members: the updates of the clients to compare.
        settings: which cosines.
    """
    distances_MM = _select_distances(members, settings.standardise)
    if settings.pool_rounds and have_shared_round(state, members.clients):
        distances_MM = 1.0 - average_over_rounds(state, members.clients)
    if settings.centre:
        distances_MM = 1.0 - centre_cosines(1.0 - distances_MM)
    return distances_MM


def centre_cosines(cosines_MM: Matrix) -> Matrix:
    """Compute the cosines between unit vectors after their mean is subtracted; 0 with a vector equal to it.

    `cosines_MM` are the vectors' cosines. Equal vectors stay equal: their cosine is 1, as is the diagonal.
    """
    means_M = cosines_MM.mean(axis=0)
    deviations_MM = cosines_MM - means_M[:, None] - means_M[None, :] + means_M.mean()
    lengths_M = np.sqrt(np.maximum(np.diagonal(deviations_MM), 0.0))
    products_MM = lengths_M[:, None] * lengths_M[None, :]
    zeros_MM = np.zeros_like(products_MM)
    centred_MM = np.divide(deviations_MM, products_MM, out=zeros_MM, where=products_MM > ROUNDING)
    # Rounding must not part vectors that are equal.
    centred_MM[cosines_MM == 1] = 1.0
    np.fill_diagonal(centred_MM, 1.0)
    return np.asarray(np.clip(centred_MM, -1.0, 1.0))


def pool_cosines(state: State, moving: Updates, *, standardise: bool = False) -> State:
    """Add this round's cosines to the sums in the state; `moving` has no zero update."""
    return add_to_sums(state, moving.clients, {POOLED: 1.0 - _select_distances(moving, standardise)})


def add_to_sums(state: State, clients: Sequence[int], values_MM: Mapping[str, Matrix]) -> State:
    """Add measures of the pairs of clients in this round to the sums in the state.

    Args:
        state: the state; sums that it lacks start at 0.
        clients: M clients that sent an update that is not zero.
        values_MM: name of the sum -> the measure of each pair, shape (M, M).
    """
    num_clients = len(state.labels_K)
    zeros_KK = np.zeros((num_clients, num_clients))
    pairs = np.ix_(clients, clients)
    arrays = {}
    for name, each_MM in {
        **values_MM,
        NUM_SHARED_ROUNDS: np.ones((len(clients), len(clients)), np.int64),
    }.items():
        arrays[name] = state.arrays.get(name, zeros_KK.astype(each_MM.dtype)).copy()
        arrays[name][pairs] += each_MM
    return state.keep(**arrays)


def find_seen_clients(state: State) -> tuple[int, ...]:
    """Find the clients that have sent an update so far, ascending."""
    return tuple(np.flatnonzero(np.diagonal(state.arrays[NUM_SHARED_ROUNDS])).tolist())


def have_shared_round(state: State, clients: Sequence[int]) -> bool:
    """Check whether every two of these clients have sent updates in the same round."""
    return not (state.arrays[NUM_SHARED_ROUNDS][np.ix_(clients, clients)] == 0).any()


def average_over_rounds(state: State, clients: Sequence[int], name: str = POOLED) -> Matrix:
    """Average a measure of pairs of clients over rounds, shape (M, M); `have_shared_round` has to hold."""
    pairs = np.ix_(clients, clients)
    return np.asarray(state.arrays[name][pairs] / state.arrays[NUM_SHARED_ROUNDS][pairs])


def can_compare(state: State, clients: Sequence[int]) -> bool:
    """Check whether every two of these clients shared a round with each other or with a common third."""
    # The product counts for each pair the third clients that shared a round with both; a client shares one
    # with itself.
    met_MM = (state.arrays[NUM_SHARED_ROUNDS][np.ix_(clients, clients)] > 0).astype(np.float32)
    return bool((met_MM @ met_MM > 0).all())


def estimate_distances(state: State, clients: Sequence[int], name: str) -> Matrix:
    """Average the distances of pairs of clients over rounds; estimate those of pairs that shared none.

    Two clients without a common round are as far apart as the best third client says, which shared a round
    with both: the longer of its distances to them. Among groups whose members are equally far from each other
    that is their distance. `can_compare` has to hold.

    Args:
        state: the state with the sums.
        clients: M clients.
        name: name of the sum of distances.

    Returns:
        Distances, float64, shape (M, M).
    """
    pairs = np.ix_(clients, clients)
    met_MM = state.arrays[NUM_SHARED_ROUNDS][pairs]
    means_MM = np.divide(
        state.arrays[name][pairs], met_MM, out=np.full(met_MM.shape, np.inf), where=met_MM > 0
    )
    distances_MM = means_MM.copy()
    for client in np.flatnonzero((met_MM == 0).any(axis=1)):
        by_third_M = np.maximum(means_MM[client], means_MM).min(axis=1)
        distances_MM[client] = np.where(met_MM[client] > 0, means_MM[client], by_third_M)
    return np.asarray(distances_MM)


def _select_distances(updates: Updates, standardise: bool) -> Matrix:
    """Select the cosine distances of standardised updates, or of updates as they are."""
    return updates.standardised_distances_KK if standardise else updates.cosine_distances_KK

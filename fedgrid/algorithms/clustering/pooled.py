"""Cosines of updates: pooled over rounds, without their mean, of standardised entries.

Early in training all updates share a large common direction, which hides the groups; one round is also a
noisy look at them. Both remedies need the cosines alone: for unit vectors with Gram matrix C, the differences
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

POOLED, MET = "pooled_cosines_KK", "rounds_met_KK"
"""Arrays of a state: sums of cosines over the rounds in which a pair sent updates (float64), and the number
of those rounds (int64)."""
ROUNDING = 1e-9
"""Squared lengths below this, of differences between unit vectors and their mean, are zero."""


class CosineSettings(Section):
    """Which cosines a clusterer sees; by default those of one round, as published."""

    centre: bool = False
    """Whether the mean of the clients' directions is subtracted first."""
    pool_rounds: bool = False
    """Whether cosines are averaged over all rounds so far in which a pair of clients sent updates."""

    standardise: bool = False
    """Whether each entry of the updates is divided by its standard deviation over the clients first."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("centre", "pool_rounds", "standardise")


def clustering_distances(state: State, members: Updates, settings: CosineSettings) -> Matrix:
    """Return 1 - the cosines that the settings ask for, shape (M, M), for a state that has this round's.

    Members that never met by an update that has a direction are compared by this round alone.
    """
    distances_MM = _distances(members, settings.standardise)
    if settings.pool_rounds and have_met(state, members.clients):
        distances_MM = 1.0 - mean_over_rounds(state, members.clients)
    if settings.centre:
        distances_MM = 1.0 - centred_cosines(1.0 - distances_MM)
    return distances_MM


def centred_cosines(cosines_MM: Matrix) -> Matrix:
    """Return the cosines between unit vectors after their mean is subtracted; 0 with a vector that is it.

    `cosines_MM` are the vectors' cosines. Equal vectors stay so: their cosine is 1, as is the diagonal.
    """
    means_M = cosines_MM.mean(axis=0)
    deviations_MM = cosines_MM - means_M[:, None] - means_M[None, :] + means_M.mean()
    lengths_M = np.sqrt(np.maximum(np.diagonal(deviations_MM), 0.0))
    products_MM = lengths_M[:, None] * lengths_M[None, :]
    zeros_MM = np.zeros_like(products_MM)
    centred_MM = np.divide(deviations_MM, products_MM, out=zeros_MM, where=products_MM > ROUNDING)
    centred_MM[cosines_MM == 1] = 1.0
    np.fill_diagonal(centred_MM, 1.0)
    return np.asarray(np.clip(centred_MM, -1.0, 1.0))


def pool(state: State, moving: Updates, *, standardise: bool = False) -> State:
    """Return the state whose sums hold this round's cosines too; `moving` has no zero update."""
    return add(state, moving.clients, {POOLED: 1.0 - _distances(moving, standardise)})


def add(state: State, clients: Sequence[int], values_MM: Mapping[str, Matrix]) -> State:
    """Return the state whose sums hold what this round says about pairs of clients too, by name."""
    num_clients = len(state.labels_K)
    zeros_KK = np.zeros((num_clients, num_clients))
    pairs = np.ix_(clients, clients)
    arrays = {}
    for name, each_MM in {**values_MM, MET: np.ones((len(clients), len(clients)), np.int64)}.items():
        arrays[name] = state.arrays.get(name, zeros_KK.astype(each_MM.dtype)).copy()
        arrays[name][pairs] += each_MM
    return state.keep(**arrays)


def clients_seen(state: State) -> tuple[int, ...]:
    """Return the clients that have sent an update so far, ascending."""
    return tuple(np.flatnonzero(np.diagonal(state.arrays[MET])).tolist())


def have_met(state: State, clients: Sequence[int]) -> bool:
    """Return whether every two of these clients have sent updates in one round."""
    return not (state.arrays[MET][np.ix_(clients, clients)] == 0).any()


def mean_over_rounds(state: State, clients: Sequence[int], name: str = POOLED) -> Matrix:
    """Return what rounds say about pairs of these clients, on average, shape (M, M). All must have met."""
    pairs = np.ix_(clients, clients)
    return np.asarray(state.arrays[name][pairs] / state.arrays[MET][pairs])


def can_compare(state: State, clients: Sequence[int]) -> bool:
    """Return whether every two of these clients have met in a round, or have both met the same third."""
    met_MM = (state.arrays[MET][np.ix_(clients, clients)] > 0).astype(np.float32)
    return bool((met_MM @ met_MM > 0).all())


def distances_over_rounds(state: State, clients: Sequence[int], name: str) -> Matrix:
    """Return the distances that rounds say of pairs of these clients, on average, shape (M, M).

    Two that never met are as far apart as the best third client says, which met both: as the longer of its
    distances to them. Among groups whose members are equally far from each other that is their distance.
    `can_compare` has to hold.
    """
    pairs = np.ix_(clients, clients)
    met_MM = state.arrays[MET][pairs]
    known_MM = np.divide(
        state.arrays[name][pairs], met_MM, out=np.full(met_MM.shape, np.inf), where=met_MM > 0
    )
    distances_MM = known_MM.copy()
    for client in np.flatnonzero((met_MM == 0).any(axis=1)):
        by_third_M = np.maximum(known_MM[client], known_MM).min(axis=1)
        distances_MM[client] = np.where(met_MM[client] > 0, known_MM[client], by_third_M)
    return np.asarray(distances_MM)


def _distances(updates: Updates, standardise: bool) -> Matrix:
    return updates.standardised_distances_KK if standardise else updates.cosine_distances_KK

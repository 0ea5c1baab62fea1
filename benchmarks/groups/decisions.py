"""Replay what an algorithm decides about groups, on stored rounds.

Vectors with the same inner products stand for the updates. Products of standardised updates cannot be made
from these; the stored ones are taken from where the round cache of a run has them.

Shapes: K clients of the federation, M of them in a round.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.groups.stored import Round, SharedPrefix
from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.products import Products
from fedgrid.algorithms.updates.source import (
    Arrays,
    ComputeStatistics,
    InMemorySource,
    Layout,
    Matrix,
    build_statistic_name,
)
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.seeds import make_generator

STANDARDISED = "standardised-parameters"


class StoredRound(InMemorySource):
    """Stand-ins of a round's updates, with the stored products of standardised ones."""

    def __init__(self, stored: Round, size: int) -> None:
        super().__init__(dict(zip(stored.clients, make_stand_ins(stored.gram_MM, size), strict=True)))
        products = Products(1.0 - stored.standardised_MM, np.zeros(len(stored.clients)), 0.0)
        self._statistics = {build_statistic_name(STANDARDISED, stored.clients): products.to_arrays()}

    def cached(self, names: Mapping[str, Sequence[int]], compute: ComputeStatistics) -> list[Arrays]:
        """Read what is stored, and compute the rest.

        Raises:
            KeyError: standardised products of other clients than all of the round.
        """
        return [
            self._statistics[name] if name.startswith(STANDARDISED) else compute([name])[0] for name in names
        ]


def replay_decisions(
    shared_prefix: SharedPrefix, name: str, settings: Mapping[str, Any]
) -> Iterator[tuple[int, Labels]]:
    """Yield (round, each client's cluster) of each round, up to that in which the algorithm clusters."""
    algorithm = create_algorithm(name, settings)
    num_clients = len(shared_prefix.truth_K)
    layout = Layout(("stand-in",), ((num_clients,),), num_clients)
    zeros = np.zeros(num_clients, np.float32)
    state = algorithm.init(layout, num_clients, lambda _: zeros, make_generator(shared_prefix.seed, "init"))
    for index, each in enumerate(shared_prefix.rounds):
        absent = set(range(num_clients)) - set(each.clients)
        updates = Updates(StoredRound(each, num_clients), layout, clients=each.clients, absent=absent)
        rng = make_generator(shared_prefix.seed, "algorithm", round_index=index)
        state, diagnostics = algorithm.step(state, index, updates, rng)
        yield index + 1, state.labels_K
        # From here on the clusters train apart, and the stored rounds are no longer the algorithm's.
        if diagnostics.clustered:
            return


def make_stand_ins(gram_MM: Matrix, size: int) -> np.ndarray:
    """Make vectors with these inner products, float32, shape (M, size)."""
    values_M, vectors_MM = np.linalg.eigh(gram_MM)
    rows = np.zeros((len(gram_MM), size), np.float32)
    # Rounding leaves eigenvalues slightly below zero, which have no root.
    rows[:, : len(gram_MM)] = vectors_MM * np.sqrt(np.maximum(values_M, 0.0))
    return rows


def is_same_partition(labels_K: np.ndarray, truth_K: np.ndarray) -> bool:
    """Check whether two partitions are the same but for the numbers of their clusters."""
    pairs = set(zip(labels_K.tolist(), truth_K.tolist(), strict=True))
    return len(pairs) == len(set(labels_K.tolist())) == len(set(truth_K.tolist()))

"""From distances between clients to communities of clients: a weighted graph and two libraries.

Sources: Bettinelli, Benoit, Grandjean 2024, eq. 3 (similarities); Blondel et al. 2008, arXiv:0803.0476
(Louvain); Traag, Waltman, van Eck 2019, arXiv:1810.08473 (Leiden, which guarantees connected communities).
Both maximise modularity, in which the resolution multiplies the links that chance would give: the higher it
is, the more and the smaller the communities. igraph and leidenalg take a second to import: that happens in
the functions.

Shapes: K clients that are clustered.
"""

import random
from typing import Any, Literal

import numpy as np

from fedgrid.algorithms.updates.source import Matrix

Groups = list[list[int]]
Library = Literal["louvain", "leiden"]

ROUNDING = 1e-6
"""Distances that differ by a smaller share are equal: they come from float32 models."""


def similarities(distances_KK: Matrix, exponent: float) -> Matrix:
    """Return ((max - d) / (max - min))^exponent, over the pairs of clients; 0 on the diagonal.

    The farthest pair has similarity 0. If all distances are equal, as with two clients, all similarities are
    1.
    """
    pairs_KK = ~np.eye(len(distances_KK), dtype=bool)
    farthest = distances_KK.max()
    spread = farthest - distances_KK.min(where=pairs_KK, initial=farthest)
    if spread <= ROUNDING * farthest:
        return pairs_KK.astype(np.float64)
    return np.asarray(np.where(pairs_KK, (farthest - distances_KK) / spread, 0.0) ** exponent)


def communities(
    similarities_KK: Matrix, library: Library, resolution: float, rng: np.random.Generator
) -> Groups:
    """Return the communities of the graph with these weights, by their first member; each ascending.

    A similarity of 0 is no edge, and no community reaches across the parts of a graph that is not
    connected. Clients with equal similarities form one community at any resolution, though above 1 modularity
    would leave each on its own. Leiden runs until nothing improves any more.
    """
    import igraph

    rows, columns = np.triu_indices(len(similarities_KK), 1)
    weights = similarities_KK[rows, columns]
    if (weights == 1).all():
        return [list(range(len(similarities_KK)))]
    edges = weights > 0
    graph = igraph.Graph(
        n=len(similarities_KK),
        edges=np.column_stack([rows[edges], columns[edges]]).tolist(),
        edge_attrs={"weight": weights[edges].tolist()},
    )
    find = _louvain if library == "louvain" else _leiden
    return sorted(sorted(community) for community in find(graph, resolution, int(rng.integers(2**31))))


def _louvain(graph: Any, resolution: float, seed: int) -> Groups:
    import igraph

    # igraph draws from one generator a process: Python's `random`, unless told otherwise for a while.
    igraph.set_random_number_generator(random.Random(seed))
    try:
        return list(graph.community_multilevel(weights="weight", resolution=resolution))
    finally:
        igraph.set_random_number_generator(random)


def _leiden(graph: Any, resolution: float, seed: int) -> Groups:
    import leidenalg  # type: ignore[import-untyped]

    return list(
        leidenalg.find_partition(
            graph,
            leidenalg.RBConfigurationVertexPartition,
            weights="weight",
            resolution_parameter=resolution,
            n_iterations=-1,
            seed=seed,
        )
    )

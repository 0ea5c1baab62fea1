"""From clients' models to communities of clients: trusted distances, a weighted graph and two libraries.

Sources: Bettinelli, Benoit, Grandjean 2024 (distances; eq. 3, similarities); Blondel et al. 2008,
arXiv:0803.0476 (Louvain); Traag, Waltman, van Eck 2019, arXiv:1810.08473 (Leiden, which guarantees connected
communities). Both maximise modularity, in which the resolution multiplies the links that chance would give:
the higher it is, the more and the smaller the communities. igraph and leidenalg take a second to import, so
they are imported in the functions.

Shapes: K clients that are clustered, or their models; P entries of a state vector.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

import numpy as np

from fedgrid.algorithms.updates.products import MODEL_PRECISION
from fedgrid.algorithms.updates.source import Layout, Matrix, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates

FLOOR = 0.1
"""Least share of the other model's norm that a layer's norm counts as: a layer more than ten times shorter
than in the other model counts as ten times shorter."""
LARGEST_LOG = 700.0
"""Largest logarithm: beyond it the exponential is infinite. It takes 280 layers that have nothing in
common."""


def find_layers(layout: Layout) -> Iterator[slice]:
    """Yield the entries of each layer: the parameters of one module, buffers left out."""
    parameters = ((name, where) for name, where, _ in layout.slices() if where.stop <= layout.num_parameters)
    for _, tensors in groupby(parameters, key=lambda tensor: tensor[0].rpartition(".")[0]):
        places = [where for _, where in tensors]
        yield slice(places[0].start, places[-1].stop)


def compute_trusted_distances(models: Sequence[Vector], layout: Layout) -> Matrix:
    """Compute T(a, b), row a relative to a's own norms: finite, not symmetric, shape (K, K).

    T(a, b) = prod_l (1 + |a_l - b_l| / |a_l|) - 1, after the bound of deep relative trust (Bernstein et al.
    2020, arXiv:2002.03432). The authors' code calls every tensor a layer, BatchNorm statistics too, so that a
    bias of nearly zero multiplies T by 1e5. Deviations: a layer is a module, for an affine map is the matrix
    [W b] on (x, 1), so that a bias belongs to its kernel and BatchNorm's shift to its scale, and buffers are
    no layers; |a_l| counts as at least `FLOOR` |b_l|, so that no layer multiplies by more than 2 + 1 / FLOOR;
    the product is a sum of logarithms.
    """
    return np.expm1(_compute_log_trust(models, layout))


def compute_symmetric_distances(models: Sequence[Vector], layout: Layout) -> Matrix:
    """Compute sqrt((1 + T(a, b)) (1 + T(b, a))) - 1, which does not depend on the order of the clients.

    The authors' code takes T(a, b) for whichever of the two came first. The geometric mean rather than the
    arithmetic one: T is a product, and the direction that divides by the smaller norm must not drown the
    other.
    """
    logs_KK = _compute_log_trust(models, layout)
    return np.expm1((logs_KK + logs_KK.T) / 2)


def _compute_log_trust(models: Sequence[Vector], layout: Layout) -> Matrix:
    """Compute log(1 + T), a layer at a time and each layer in blocks of columns."""
    logs_KK = np.zeros((len(models), len(models)))
    for where in find_layers(layout):
        width = where.stop - where.start
        # As a view of updates, for its passes in blocks and its treatment of rounding.
        layer = Updates(
            {index: model[where] for index, model in enumerate(models)},
            Layout(("layer",), ((width,),), width),
            least=MODEL_PRECISION,
        )
        norms_K = layer.norms_K
        distances_KK = layer.euclidean_distances_KK
        sizes_KK = np.maximum(norms_K[:, None], FLOOR * norms_K[None, :])
        logs_KK += np.log1p(
            np.divide(distances_KK, sizes_KK, out=np.zeros_like(distances_KK), where=sizes_KK > 0)
        )
    # Infinite distances would make similarities undefined.
    return np.minimum(logs_KK, LARGEST_LOG)


Groups = list[list[int]]
Library = Literal["louvain", "leiden"]

ROUNDING = 1e-6
"""Share below which distances do not differ: they come from float32 models."""


def compute_similarities(distances_KK: Matrix, exponent: float) -> Matrix:
    """Compute ((max - d) / (max - min))^exponent over the pairs of clients; 0 on the diagonal.

    The farthest pair has similarity 0. If all distances are equal, as with two clients, all similarities are
    1.
    """
    pairs_KK = ~np.eye(len(distances_KK), dtype=bool)
    # The maximum is over all entries, as the diagonal is 0; the minimum must leave the diagonal out.
    farthest = distances_KK.max()
    spread = farthest - distances_KK.min(where=pairs_KK, initial=farthest)
    if spread <= ROUNDING * farthest:
        return pairs_KK.astype(np.float64)
    return np.asarray(np.where(pairs_KK, (farthest - distances_KK) / spread, 0.0) ** exponent)


def find_communities(similarities_KK: Matrix, library: Library, resolution: float, rng: Rng) -> Groups:
    """Find the communities of the graph with these weights, by their first member; each ascending.

    A similarity of 0 is no edge, and no community reaches across the parts of a graph that is not connected.
    Clients with equal similarities form one community at any resolution, though above 1 modularity would
    leave each on its own. Leiden runs until nothing improves any more.

    Args:
        similarities_KK: weights in [0, 1], symmetric, 0 on the diagonal.
        library: `louvain` (igraph) or `leiden` (leidenalg).
        resolution: factor of the links that chance would give; above 0.
        rng: seeds the order in which clients are moved.
    """
    import igraph

    rows, columns = np.triu_indices(len(similarities_KK), 1)
    weights = similarities_KK[rows, columns]
    # Above resolution 1 modularity would leave each client of a complete graph on its own.
    if (weights == 1).all():
        return [list(range(len(similarities_KK)))]
    # No edge at similarity 0, so that no community reaches across parts that are not connected.
    edges = weights > 0
    graph = igraph.Graph(
        n=len(similarities_KK),
        edges=np.column_stack([rows[edges], columns[edges]]).tolist(),
        edge_attrs={"weight": weights[edges].tolist()},
    )
    find = _run_louvain if library == "louvain" else _run_leiden
    return sorted(sorted(community) for community in find(graph, resolution, int(rng.integers(2**31))))


def _run_louvain(graph: Any, resolution: float, seed: int) -> Groups:
    """Run igraph's Louvain method."""
    import igraph

    # igraph draws from one generator a process: Python's `random`, unless another one is set for a while.
    igraph.set_random_number_generator(random.Random(seed))
    try:
        return list(graph.community_multilevel(weights="weight", resolution=resolution))
    finally:
        igraph.set_random_number_generator(random)


def _run_leiden(graph: Any, resolution: float, seed: int) -> Groups:
    """Run leidenalg's Leiden method until nothing improves."""
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

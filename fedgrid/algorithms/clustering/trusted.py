"""Trusted distance: how far apart two models are, layer by layer and relative to the layers' sizes.

Source: Bettinelli, Benoit, Grandjean 2024, after the bound of deep relative trust (Bernstein et al. 2020,
arXiv:2002.03432): T(a, b) = prod_l (1 + |a_l - b_l| / |a_l|) - 1. The authors' code calls every tensor a
layer, BatchNorm statistics too, so that a bias of nearly zero multiplies T by 1e5. Deviations:
- A layer is a module. An affine map is the matrix [W b] on (x, 1): a bias belongs to its kernel, and
  BatchNorm's shift to its scale. Buffers are no layers.
- |a_l| counts as at least `FLOOR` |b_l|, so that no layer multiplies by more than 2 + 1 / FLOOR.
- The product is a sum of logarithms.

Shapes: K models, P entries of a state vector.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from fedgrid.algorithms.updates.source import Layout, Matrix, Vector
from fedgrid.algorithms.updates.updates import Updates

FLOOR = 0.1
"""A layer more than ten times shorter in one model than in the other counts as ten times shorter."""
LARGEST_LOG = 700.0
"""Beyond it the exponential is infinite; takes 280 layers that have nothing in common."""


def layers(layout: Layout) -> Iterator[slice]:
    """Yield where each layer is: the parameters of one module, names being alike up to the last dot."""
    parameters = ((name, where) for name, where, _ in layout.slices() if where.stop <= layout.num_parameters)
    for _, tensors in groupby(parameters, key=lambda tensor: tensor[0].rpartition(".")[0]):
        places = [where for _, where in tensors]
        yield slice(places[0].start, places[-1].stop)


def trusted_distances(models: Sequence[Vector], layout: Layout) -> Matrix:
    """Return T(a, b), row a relative to a's own norms: finite, not symmetric, shape (K, K)."""
    return np.expm1(_logs(models, layout))


def symmetric_trusted_distances(models: Sequence[Vector], layout: Layout) -> Matrix:
    """Return sqrt((1 + T(a, b)) (1 + T(b, a))) - 1, which knows no order of the clients.

    The authors' code takes T(a, b) for whichever of the two came first. The geometric mean rather than
    the arithmetic one: T is a product, and the direction that divides by the smaller norm must not drown
    the other.
    """
    logs_KK = _logs(models, layout)
    return np.expm1((logs_KK + logs_KK.T) / 2)


def _logs(models: Sequence[Vector], layout: Layout) -> Matrix:
    """Return log(1 + T), a layer at a time and each of them in blocks of columns."""
    logs_KK = np.zeros((len(models), len(models)))
    for where in layers(layout):
        width = where.stop - where.start
        layer = Updates(
            {index: model[where] for index, model in enumerate(models)},
            Layout(("layer",), ((width,),), width),
        )
        norms_K, distances_KK = layer.norms_K, layer.euclidean_distances_KK
        sizes_KK = np.maximum(norms_K[:, None], FLOOR * norms_K[None, :])
        logs_KK += np.log1p(
            np.divide(distances_KK, sizes_KK, out=np.zeros_like(distances_KK), where=sizes_KK > 0)
        )
    return np.minimum(logs_KK, LARGEST_LOG)

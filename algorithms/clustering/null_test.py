"""Are there groups at all? A test of a partition against clients that differ by chance only.

Clusterers always find something. In homogeneous clients, what is left of the updates when their mean is
taken out is noise, and the noise of M clients in D dimensions has cosines of about 1 / sqrt(D). Clusters of
such noise have a silhouette too: the fewer clients and dimensions, the higher. A partition counts if its
silhouette is above all but a share `level` of 200 draws of noise; of further draws more than that pass.

D is estimated from what is left *within* the clusters, so that true groups do not count as noise: with the
cosines R of the residuals from the clusters' means, of k = M - clusters degrees of freedom, Gaussian noise
has tr(R R) / tr(R)^2 = (k + D + 1) / (k D + 2) in expectation. It is not believed above `MOST_DIMENSIONS`:
the clusterer has chosen the partition that leaves least, and few clients say little about many dimensions.

Shapes: M clients that are clustered.
"""

from functools import lru_cache

import numpy as np

from fedgrid.algorithms.clustering import ward
from fedgrid.algorithms.clustering.graph import Groups, silhouette
from fedgrid.algorithms.clustering.pooled import centred_cosines
from fedgrid.algorithms.contract.updates import Matrix

LEAST_DIMENSIONS, MOST_DIMENSIONS = 2, 20
DRAWS = 200
"""Federations of noise that are clustered for a threshold."""
MOST_CLIENTS = 100
"""Larger federations take the threshold of this many: it falls with the number of clients."""


def score(cosines_MM: Matrix, groups: Groups) -> float | None:
    """Return the mean silhouette on 1 - cosine; None for one group, and if every client is alone."""
    return silhouette(1.0 - cosines_MM, groups)


def threshold(cosines_MM: Matrix, groups: Groups, level: float) -> float:
    """Return the silhouette that groups of these centred cosines must exceed."""
    dimensions = round(np.clip(residual_dimensions(cosines_MM, groups), LEAST_DIMENSIONS, MOST_DIMENSIONS))
    return float(np.quantile(_of_noise(min(len(cosines_MM), MOST_CLIENTS), dimensions), 1.0 - level))


def residual_dimensions(cosines_MM: Matrix, groups: Groups) -> float:
    """Return the effective number of dimensions of what is left within groups; infinite if it looks so."""
    degrees = len(cosines_MM) - len(groups)
    if degrees < 2:
        return float(LEAST_DIMENSIONS)
    residuals_MM = np.eye(len(cosines_MM))
    for group in groups:
        residuals_MM[np.ix_(group, group)] -= 1.0 / len(group)
    left_MM = residuals_MM @ cosines_MM @ residuals_MM
    total = np.trace(left_MM)
    if total <= 0:
        return float(LEAST_DIMENSIONS)
    ratio = float((left_MM**2).sum() / total**2)
    excess = ratio * degrees - 1.0
    return (degrees + 1.0 - 2.0 * ratio) / excess if excess > 0 else np.inf


@lru_cache(maxsize=256)
def _of_noise(num_clients: int, dimensions: int) -> tuple[float, ...]:
    """Return silhouettes of groups among Gaussian vectors; -1 where there is no silhouette.

    The same in every run: part of the method, like a table of quantiles. k-means is left out: it would take
    seconds, and moves few clients.
    """
    rng = np.random.default_rng((num_clients, dimensions))
    scores = []
    for _ in range(DRAWS):
        vectors = rng.standard_normal((num_clients, dimensions))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines_MM = centred_cosines(vectors @ vectors.T)
        found = score(cosines_MM, ward.groups_of(cosines_MM, 0, rng))
        scores.append(-1.0 if found is None else found)
    return tuple(scores)

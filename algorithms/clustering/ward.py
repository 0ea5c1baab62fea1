"""Groups of clients without being told how many: Ward's tree, the number where it says most, k-means.

With W(k) the squares within the k clusters at which Ward's tree is cut, the k-th cluster is worth

    F(k) = (W(k-1) - W(k)) / (W(k) / (M - k)),

what it takes away over what is left by degree of freedom (Hartigan 1975). While the clusters are groups that
differ, F is large; from then on it parts noise. So the number of groups is the k whose F(k) / F(k+1) is
largest. A tree never takes back a join, so k-means then moves single clients.

Shapes: M clients that are clustered.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.contract.updates import Matrix

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Squares below this share of all are zero."""
MOST_CLIENTS = 2000
"""Larger federations keep Ward's clusters: of 3,550 clients k-means takes 15 s a round, of 1,500 one."""


def groups_of(cosines_MM: Matrix, restarts: int, rng: np.random.Generator) -> Groups:
    """Return the groups by first member, each ascending; one if there are fewer than four clients.

    Args:
        cosines_MM: cosines of the clients' deviations from their mean, 1 on the diagonal.
        restarts: random starts of k-means, besides Ward's clusters; with 0 these are the result.
    """
    labels_M = cut(cosines_MM)
    if restarts and labels_M.any() and len(labels_M) <= MOST_CLIENTS:
        labels_M = _moved(_vectors(cosines_MM), labels_M, restarts, rng)
    return sorted(np.flatnonzero(labels_M == label).tolist() for label in set(labels_M.tolist()))


def cut(cosines_MM: Matrix) -> NDArray[np.int64]:
    """Return the labels, from 0, of Ward's clusters at the number that `number_of_groups` says."""
    from scipy.cluster.hierarchy import fcluster, linkage

    num_clients = len(cosines_MM)
    if num_clients < 2:
        return np.zeros(num_clients, np.int64)
    upper = np.triu_indices(num_clients, 1)
    tree = linkage(np.sqrt(2.0 * np.maximum(1.0 - cosines_MM[upper], 0.0)), "ward")
    number = number_of_groups(tree[::-1, 2] ** 2 / 2.0)
    return np.asarray(fcluster(tree, number, "maxclust") - 1, np.int64)


def number_of_groups(gains: Floats) -> int:
    """Return the k >= 2 with the largest F(k) / F(k+1), at most half as many as clients; else 1.

    Args:
        gains: W(k-1) - W(k) for k = 2 to M, shape (M-1,).
    """
    num_clients, total = len(gains) + 1, gains.sum()
    most = min(max(num_clients // 2, 3), num_clients - 2)
    if most < 2 or total <= 0:
        return 1
    left = np.append(np.cumsum(gains[::-1])[::-1][1:], 0.0)
    least = ROUNDING * total
    degrees = num_clients - np.arange(2, num_clients + 1)
    worth = np.maximum(gains, least) * degrees / np.maximum(left, least)
    return 2 + int(np.argmax(worth[: most - 1] / worth[1:most]))


def _vectors(cosines_MM: Matrix) -> Floats:
    """Return vectors with these inner products, a row a client."""
    squares, axes = np.linalg.eigh(cosines_MM)
    kept = squares > ROUNDING * squares[-1]
    return np.asarray(axes[:, kept] * np.sqrt(squares[kept]))


def _moved(
    vectors: Floats, labels_M: NDArray[np.int64], restarts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the clusters with the least squares of k-means from Ward's means and from random starts."""
    from sklearn.cluster import KMeans

    number = int(labels_M.max()) + 1
    means = np.array([vectors[labels_M == label].mean(axis=0) for label in range(number)])
    seed = int(rng.integers(2**31))
    fits = [
        KMeans(number, init=init, n_init=times, random_state=seed).fit(vectors)
        for init, times in ((means, 1), ("k-means++", restarts))
    ]
    return np.asarray(min(fits, key=lambda fit: fit.inertia_).labels_, np.int64)

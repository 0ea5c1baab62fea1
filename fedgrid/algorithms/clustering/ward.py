"""Groups of clients whose number is not known: Ward's tree, the number of groups that fits best, k-means.

The number of groups is the one at which the tree's clusters have the largest silhouette. That is too small
where some groups are nearer to each other than others, so a larger number is taken if the tree has it and
the silhouette there is not much less. With W(k) the squares within k clusters, the k-th cluster is worth

    F(k) = (W(k-1) - W(k)) / (W(k) / (M - k)),

what it takes away over what is left by degree of freedom (Hartigan 1975). While clusters separate groups
that differ, F is large; from then on they split noise. So the tree's number is the k whose F(k) / F(k+1) is
largest. A tree never takes back a join, so k-means then moves single clients.

Only the clients' distances are looked at. A direction that all clients share does not change them, so nothing
is centred, and groups may be of any sizes.

Shapes: M clients that are clustered.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.clustering.graph import Groups, silhouette
from fedgrid.algorithms.updates.source import Matrix

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

ROUNDING = 1e-9
"""Squares below this share of all are zero."""
NEAR = 0.75
"""The tree's larger number is taken if the silhouette there is at least this share of the largest."""
MOST_GROUPS = 50
"""No larger number is tried by its silhouette."""
MOST_CLIENTS = 2000
"""Larger federations keep Ward's clusters: of 3,550 clients k-means takes 15 s a round, of 1,500 one."""


def groups_of(squares_MM: Matrix, restarts: int, rng: np.random.Generator) -> Groups:
    """Return the groups by first member, each ascending; one if there are fewer than four clients.

    Args:
        squares_MM: squared Euclidean distances between clients.
        restarts: random starts of k-means, besides Ward's clusters; with 0 these are the result.
    """
    labels_M = cut(squares_MM)
    if restarts and labels_M.any() and len(labels_M) <= MOST_CLIENTS:
        labels_M = _moved(_vectors(squares_MM), labels_M, restarts, rng)
    return _groups(labels_M)


def cut(squares_MM: Matrix) -> Labels:
    """Return the labels, from 0, of Ward's clusters at the number that says most."""
    from scipy.cluster.hierarchy import fcluster, linkage

    num_clients = len(squares_MM)
    if num_clients < 4 or not squares_MM.any():
        return np.zeros(num_clients, np.int64)
    tree = linkage(np.sqrt(squares_MM[np.triu_indices(num_clients, 1)]), "ward")
    cuts, scores = {}, {}
    for number in range(2, min(num_clients // 2, MOST_GROUPS) + 1):
        cuts[number] = np.asarray(fcluster(tree, number, "maxclust") - 1, np.int64)
        scores[number] = silhouette(squares_MM, _groups(cuts[number])) or 0.0
    best = max(scores, key=lambda number: scores[number])
    larger = number_of_groups(tree[::-1, 2] ** 2 / 2.0)
    is_near = larger > best and scores.get(larger, 0.0) > NEAR * scores[best]
    return cuts[larger if is_near else best]


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


def _groups(labels_M: Labels) -> Groups:
    return sorted(np.flatnonzero(labels_M == label).tolist() for label in set(labels_M.tolist()))


def _vectors(squares_MM: Matrix) -> Floats:
    """Return vectors with these squared distances and mean 0, a row a client."""
    means_M = squares_MM.mean(axis=0)
    products_MM = (means_M[:, None] + means_M[None, :] - squares_MM - means_M.mean()) / 2.0
    values, axes = np.linalg.eigh(products_MM)
    kept = values > ROUNDING * values[-1]
    return np.asarray(axes[:, kept] * np.sqrt(values[kept]))


def _moved(vectors: Floats, labels_M: Labels, restarts: int, rng: np.random.Generator) -> Labels:
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

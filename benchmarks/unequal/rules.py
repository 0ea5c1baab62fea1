"""Rules of grouping: from the cosines of updates, pooled over rounds, to each client's group.

Ward's tree and k-means work on vectors with these cosines, whose squared distances are 2 (1 - cosine). They
see differences alone, so that no common direction has to be taken out first.

Shapes: R rounds, K clients, G groups.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans

from fedgrid.algorithms.clustering import ward
from fedgrid.algorithms.clustering.pooled import centred_cosines

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Rule = Callable[[Matrix], Labels]
"""From cosines, shape (K, K), to groups from 0, shape (K,)."""
ROUNDING = 1e-9
RESTARTS = 10
"""Random starts of k-means, besides Ward's groups."""
NEAR = 0.9
"""Another number of groups counts if its silhouette is at least this share of the largest."""


def pooled(gram_RKK: Matrix, rounds: int) -> Matrix:
    """Return the clients' cosines, mean over the first rounds, shape (K, K)."""
    lengths_RK = np.sqrt(np.diagonal(gram_RKK, axis1=1, axis2=2))[:rounds]
    cosines_RKK = gram_RKK[:rounds] / (lengths_RK[:, :, None] * lengths_RK[:, None, :])
    return np.asarray(cosines_RKK.mean(axis=0))


def tree_of(cosines_KK: Matrix, method: str = "ward") -> Matrix:
    """Return scipy's tree of the clients: `ward`, or `average` on 1 - cosine."""
    upper = np.triu_indices(len(cosines_KK), 1)
    distances = np.maximum(1.0 - cosines_KK[upper], 0.0)
    return np.asarray(linkage(np.sqrt(2.0 * distances) if method == "ward" else distances, method))


def tree_of_squares(squares_KK: Matrix) -> Matrix:
    """Return Ward's tree of clients with these squared distances."""
    upper = np.triu_indices(len(squares_KK), 1)
    return np.asarray(linkage(np.sqrt(squares_KK[upper]), "ward"))


def cut(tree: Matrix, groups: int) -> Labels:
    """Return the groups of the tree at this number of them."""
    return np.asarray(fcluster(tree, groups, "maxclust") - 1, np.int64)


def most_groups(num_clients: int) -> int:
    """Return the largest number of groups that is tried: two clients a group on average."""
    return max(num_clients // 2, 2)


def cuts(tree: Matrix) -> Iterator[Labels]:
    """Yield the groups of the tree from two up."""
    for groups in range(2, most_groups(len(tree) + 1) + 1):
        yield cut(tree, groups)


def silhouettes(cosines_KK: Matrix, labels_K: Labels) -> NDArray[np.float64]:
    """Return each client's silhouette on 1 - cosine, shape (K,); 0 for a client that is alone."""
    distances_KK = 1.0 - cosines_KK
    np.fill_diagonal(distances_KK, 0.0)
    member_KG = np.eye(int(labels_K.max()) + 1)[labels_K]
    counts_G = member_KG.sum(axis=0)
    sums_KG = distances_KK @ member_KG
    own_K = sums_KG[np.arange(len(labels_K)), labels_K] / np.maximum(counts_G[labels_K] - 1.0, 1.0)
    others_KG = np.where(member_KG > 0, np.inf, sums_KG / counts_G)
    nearest_K = others_KG.min(axis=1)
    larger_K = np.maximum(np.maximum(own_K, nearest_K), ROUNDING)
    return np.asarray(np.where(counts_G[labels_K] > 1, (nearest_K - own_K) / larger_K, 0.0))


def silhouette(cosines_KK: Matrix, labels_K: Labels) -> float:
    """Return the mean silhouette on 1 - cosine; -1 for one group, or if every client is alone."""
    groups = int(labels_K.max()) + 1
    return float(silhouettes(cosines_KK, labels_K).mean()) if 1 < groups < len(labels_K) else -1.0


def by_silhouette(cosines_KK: Matrix, method: str = "ward") -> Labels:
    """Return the groups of the tree at the number with the largest silhouette."""
    return max(cuts(tree_of(cosines_KK, method)), key=lambda labels_K: silhouette(cosines_KK, labels_K))


def by_fall(cosines_KK: Matrix) -> Labels:
    """Return the groups of Ward's tree at the largest fall of what one more group is worth."""
    tree = tree_of(cosines_KK)
    return cut(tree, ward.number_of_groups(tree[::-1, 2] ** 2 / 2.0))


def by_fall_or_silhouette(cosines_KK: Matrix) -> Labels:
    """Return the groups at the largest fall if their silhouette is near the largest, else those of that."""
    fall_K, best_K = by_fall(cosines_KK), by_silhouette(cosines_KK)
    near = silhouette(cosines_KK, fall_K) > NEAR * silhouette(cosines_KK, best_K)
    return fall_K if near else best_K


def vectors_of(cosines_KK: Matrix) -> Matrix:
    """Return vectors with these inner products, a row a client."""
    squares, axes = np.linalg.eigh(cosines_KK)
    kept = squares > ROUNDING
    return np.asarray(axes[:, kept] * np.sqrt(squares[kept]))


def moved(vectors: Matrix, labels_K: Labels) -> Labels:
    """Return the groups after k-means from the means of these ones."""
    groups = int(labels_K.max()) + 1
    means = np.array([vectors[labels_K == group].mean(axis=0) for group in range(groups)])
    return np.asarray(KMeans(groups, init=means, n_init=1).fit(vectors).labels_, np.int64)


def numbered(labels_K: Labels) -> Labels:
    """Return the same groups, numbered without gaps."""
    return np.asarray(np.unique(labels_K, return_inverse=True)[1], np.int64)


def fitted(vectors: Matrix, labels_K: Labels) -> Labels:
    """Return the groups with the least squares of k-means from the means of these ones and random starts."""
    groups = int(labels_K.max()) + 1
    means = np.array([vectors[labels_K == group].mean(axis=0) for group in range(groups)])
    starts = ((means, 1), ("k-means++", RESTARTS))
    fits = [KMeans(groups, init=init, n_init=times, random_state=0).fit(vectors) for init, times in starts]
    return numbered(min(fits, key=lambda fit: float(fit.inertia_)).labels_)


def more_if_near(cosines_KK: Matrix) -> Labels:
    """Return the groups of `fitted` at the number with the largest silhouette, or at a larger number.

    The larger number is that of the largest fall, if the silhouette there is near the largest.
    """
    tree, vectors = tree_of(cosines_KK), vectors_of(cosines_KK)
    found = {int(labels_K.max()) + 1: fitted(vectors, labels_K) for labels_K in cuts(tree)}
    scores = {number: silhouette(cosines_KK, labels_K) for number, labels_K in found.items()}
    best = max(scores, key=lambda number: scores[number])
    fall = ward.number_of_groups(tree[::-1, 2] ** 2 / 2.0)
    more = fall > best and scores.get(fall, -1.0) > NEAR * scores[best]
    return found[fall if more else best]


def k_means_by_silhouette(cosines_KK: Matrix) -> Labels:
    """Return the groups of k-means, from those of Ward's tree, at the number with the largest silhouette."""
    vectors = vectors_of(cosines_KK)
    found = (moved(vectors, labels_K) for labels_K in cuts(tree_of(cosines_KK)))
    return max(found, key=lambda labels_K: silhouette(cosines_KK, labels_K))


RULES: Mapping[str, Rule] = {
    "centred and rescaled, Ward, silhouette": lambda cosines_KK: by_silhouette(centred_cosines(cosines_KK)),
    "Ward, silhouette": by_silhouette,
    "Ward and k-means, silhouette": k_means_by_silhouette,
    "Ward, the largest fall if near": by_fall_or_silhouette,
    "Ward and k-means with random starts, silhouette, more if near": more_if_near,
    "average linkage, silhouette": lambda cosines_KK: by_silhouette(cosines_KK, "average"),
}
"""By the name that the tables print."""

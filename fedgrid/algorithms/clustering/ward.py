"""Groups of clients whose number is not given, and how evident they are: Ward's tree, k-means, rotations.

The number of groups is the one at which the tree's clusters have the largest silhouette. That is too small
where some groups are nearer to each other than others, so a larger number is taken if the tree has it and the
silhouette there is not much less. With W(k) the squares within k clusters, the k-th cluster is worth

    F(k) = (W(k-1) - W(k)) / (W(k) / (M - k)),

what it takes away over what is left by degree of freedom (Hartigan 1975). While clusters separate groups that
differ, F is large; from then on they split noise. So the tree's number is the k whose F(k) / F(k+1) is
largest. A tree never takes back a join, so k-means then moves single clients.

Only the clients' distances are used. A direction that all clients share does not change them, so nothing is
centred, and groups may be of any sizes. One client is no group, though: see `find_outliers`.

Shapes: M clients that are clustered, G groups.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.measures import (
    compute_client_silhouettes,
    compute_silhouette,
    has_silhouette,
    number_groups,
)
from fedgrid.algorithms.updates.source import Matrix, Rng

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

ROUNDING = 1e-9
"""Share of all squares below which squares are zero."""
LARGER_NUMBER_SHARE = 0.75
"""Least share of the largest silhouette that the tree's larger number must have to be taken."""
MOST_GROUPS = 50
"""Largest number of groups that is tried by its silhouette."""
MOST_CLIENTS = 2000
"""Number of clients above which Ward's clusters are the result: of 3,550 clients k-means takes 15 s a round,
of 1,500 one."""
LEAST_GROUP_SHARE = 1 / 3
"""Share of the mean silhouette of all clients that a group's own mean has to reach; clients below are no
group."""
LEAST_GAP = 5.0
"""Least distance between any two groups, in standard deviations. Clients that are spread evenly over a line
and cut in two are 3.5 apart; with few clients, and noise, up to 5."""
NUM_ROTATIONS = 100
"""Number of rotations that a score compares with."""
MOST_COMPARED = 300
"""Number of clients that are compared; of a larger federation they are drawn at random."""


def find_groups(squares_MM: Matrix, restarts: int, rng: Rng) -> Groups:
    """Find groups of clients, by first member, each ascending; one if there are fewer than four clients.

    Args:
        squares_MM: squared Euclidean distances between clients.
        restarts: number of random starts of k-means in addition to Ward's clusters, which are the result with
            0.
        rng: seeds k-means.
    """
    labels_M = cut_best_number(squares_MM)
    if restarts and labels_M.any() and len(labels_M) <= MOST_CLIENTS:
        labels_M = _run_kmeans(_embed_clients(squares_MM), labels_M, restarts, rng)
    return _list_groups(labels_M)


def cut_into_number(squares_MM: Matrix, number: int) -> Groups:
    """Cut Ward's tree into this number of groups; one group if all clients are equally far apart."""
    num_clients = len(squares_MM)
    # Of clients that are equally far apart a tree cuts off any.
    if num_clients < 3 or np.ptp(squares_MM[np.triu_indices(num_clients, 1)]) < ROUNDING:
        return [list(range(num_clients))]
    return _list_groups(_cut_tree(_build_tree(squares_MM), number))


def find_outliers(squares_MM: Matrix, groups: Groups) -> list[int]:
    """Find the clients, ascending, that were cut off but are no group, because they are like no others.

    A client alone has a silhouette of 0. So have, or less, clients that lie far from all others in directions
    of their own: Ward's tree joins a few of these, although they are no nearer to each other.
    """
    if not has_silhouette(groups):
        return []
    # By squared distances, as the tree sees them.
    values_M = compute_client_silhouettes(squares_MM, groups)
    least = LEAST_GROUP_SHARE * values_M.mean()
    return sorted(client for group in groups if values_M[group].mean() < least for client in group)


def join_nearest(squares_MM: Matrix, groups: Groups) -> Groups:
    """Add each client in no group to the group that is nearest to it on average."""
    if not groups:
        return []
    joined = [list(group) for group in groups]
    for client in sorted(set(range(len(squares_MM))).difference(*groups)):
        nearest = np.argmin([squares_MM[client, group].mean() for group in groups])
        joined[int(nearest)].append(client)
    return [sorted(group) for group in joined]


def cut_best_number(squares_MM: Matrix) -> Labels:
    """Label the clients by Ward's clusters, from 0, at the number that says most."""
    num_clients = len(squares_MM)
    if num_clients < 4 or not squares_MM.any():
        return np.zeros(num_clients, np.int64)
    tree = _build_tree(squares_MM)
    cuts = {}
    scores = {}
    # Groups of one are no groups: at most half as many groups as clients.
    for number in range(2, min(num_clients // 2, MOST_GROUPS) + 1):
        cuts[number] = _cut_tree(tree, number)
        scores[number] = compute_silhouette(squares_MM, _list_groups(cuts[number])) or 0.0
    best = max(scores, key=lambda number: scores[number])
    larger = estimate_number(tree[::-1, 2] ** 2 / 2.0)
    # The silhouette alone merges groups that are near each other, the tree's number alone follows noise.
    is_near = larger > best and scores.get(larger, 0.0) > LARGER_NUMBER_SHARE * scores[best]
    return cuts[larger if is_near else best]


def estimate_number(gains: Floats) -> int:
    """Estimate the number of groups: the k >= 2 with the largest F(k) / F(k+1).

    It is at most half the number of clients; 1 if there is no such k.

    `gains` are W(k-1) - W(k) for k = 2 to M, shape (M-1,).
    """
    num_clients = len(gains) + 1
    total = gains.sum()
    # F(k + 1) has to exist, and its degrees of freedom must not be 0.
    most = min(max(num_clients // 2, 3), num_clients - 2)
    if most < 2 or total <= 0:
        return 1
    # Sums from the smallest gain on: differences from the total would lose the small ones.
    left = np.append(np.cumsum(gains[::-1])[::-1][1:], 0.0)
    least = ROUNDING * total
    degrees = num_clients - np.arange(2, num_clients + 1)
    worth = np.maximum(gains, least) * degrees / np.maximum(left, least)
    return 2 + int(np.argmax(worth[: most - 1] / worth[1:most]))


def _build_tree(squares_MM: Matrix) -> Floats:
    """Build Ward's tree, as scipy's linkage matrix."""
    from scipy.cluster.hierarchy import linkage

    return np.asarray(linkage(np.sqrt(squares_MM[np.triu_indices(len(squares_MM), 1)]), "ward"))


def _cut_tree(tree: Floats, number: int) -> Labels:
    """Cut a tree into a number of clusters: labels from 0."""
    from scipy.cluster.hierarchy import fcluster

    return np.asarray(fcluster(tree, number, "maxclust") - 1, np.int64)


def _list_groups(labels_M: Labels) -> Groups:
    """List the clients of each label, by first member."""
    return sorted(np.flatnonzero(labels_M == label).tolist() for label in set(labels_M.tolist()))


def _embed_clients(squares_MM: Matrix) -> Floats:
    """Embed the clients: vectors with these squared distances and mean 0, a row for each client."""
    means_M = squares_MM.mean(axis=0)
    # Classical scaling: doubly centred squares are the inner products of centred vectors.
    products_MM = (means_M[:, None] + means_M[None, :] - squares_MM - means_M.mean()) / 2.0
    values, axes = np.linalg.eigh(products_MM)
    positive = values > ROUNDING * values[-1]
    return np.asarray(axes[:, positive] * np.sqrt(values[positive]))


def _run_kmeans(vectors: Floats, labels_M: Labels, restarts: int, rng: Rng) -> Labels:
    """Move single clients by k-means, from Ward's means and from random starts; take the least squares."""
    from sklearn.cluster import KMeans

    number = int(labels_M.max()) + 1
    means = np.array([vectors[labels_M == label].mean(axis=0) for label in range(number)])
    # Both fits have the same seed: one number is drawn, however many starts there are.
    seed = int(rng.integers(2**31))
    fits = [
        KMeans(number, init=init, n_init=times, random_state=seed).fit(vectors)
        for init, times in ((means, 1), ("k-means++", restarts))
    ]
    return np.asarray(min(fits, key=lambda fit: fit.inertia_).labels_, np.int64)


def score_evidence(squares_MM: Matrix, groups: Sequence[Sequence[int]], rng: Rng) -> float | None:
    """Score how evident groups are; None for one group, if every client is alone, or without a gap.

    Clusterers always find something. If clients were independent draws of one normal distribution, of any
    mean and covariance, then to rotate them among each other, by a rotation that preserves the mean, would
    not change how they are distributed. So the groups are compared with those of rotated clients: the
    spectrum of what clients differ by is preserved, and its axes are drawn at random. What groups have and a
    normal distribution has not is clumps along the leading axes: G groups differ in G - 1 of them. The score
    is by how many standard deviations the groups are tighter there than those that Ward's tree finds in the
    rotated clients, over the square root of G - 1: clients without groups are not quite normal either, a
    little along each axis, and over many axes this adds up faster than chance does.

    Clients that differ by degrees are not normal at all, and groups of them are tight. But there is no gap
    between them: groups whose `compute_gap` is less than `LEAST_GAP` are no evidence.

    It is not a probability: docs/our-algorithm.md counts how often clients without groups pass.

    Args:
        squares_MM: squared Euclidean distances between clients.
        groups: positions of clients, each client in one of them.
        rng: draws the rotations.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    labels_M = number_groups(groups, len(squares_MM))
    # Each rotation needs a tree of its own, whose time and memory grow with the square of the clients.
    sampled = np.sort(rng.permutation(len(labels_M))[:MOST_COMPARED])
    labels_M = labels_M[sampled]
    squares_MM = squares_MM[np.ix_(sampled, sampled)]
    number = len(np.unique(labels_M))
    if not 1 < number < len(labels_M):
        return None
    # 1. Embed the clients along the leading G - 1 axes of their differences.
    # Orthonormal, of the vectors whose entries sum to 0.
    columns = np.column_stack([np.ones(len(labels_M)), np.eye(len(labels_M))[:, 1:]])
    basis = np.linalg.qr(columns)[0][:, 1:]
    spectrum, axes = np.linalg.eigh(basis.T @ squares_MM @ basis / -2.0)
    # Means over rounds in which other pairs met need not be distances of any vectors: the spectrum may have
    # small negative values.
    lengths = np.sqrt(np.maximum(spectrum[::-1][: number - 1], 0.0))
    vectors = basis @ axes[:, ::-1][:, : number - 1] * lengths
    # 2. Groups without a gap are no evidence.
    if compute_gap(vectors, labels_M) < LEAST_GAP:
        return None
    # 3. Compare their tightness with that of rotated clients.
    own = compute_tightness(vectors, labels_M)
    drawn = []
    for _ in range(NUM_ROTATIONS):
        # The first columns of a uniformly random rotation.
        frame, triangle = np.linalg.qr(rng.standard_normal((len(basis) - 1, number - 1)))
        rotated = basis @ (frame * np.sign(np.diag(triangle))) * lengths
        drawn.append(compute_tightness(rotated, fcluster(linkage(rotated, "ward"), number, "maxclust")))
    deviations = (own - float(np.mean(drawn))) / max(float(np.std(drawn)), ROUNDING)
    return deviations / float(np.sqrt(number - 1))


def compute_tightness(vectors: Matrix, labels_M: Labels) -> float:
    """Compute -log of the squares within groups over all squares; `vectors` has a row a client, of mean 0."""
    parts = [vectors[labels_M == label] for label in np.unique(labels_M)]
    within = sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)
    return -float(np.log(max(within / max(float((vectors**2).sum()), ROUNDING), ROUNDING)))


def compute_gap(vectors: Matrix, labels_M: Labels) -> float:
    """Measure how far the two nearest groups are apart; `vectors` has a row for each client.

    That is the distance between their means, in standard deviations of their clients along it.
    """
    parts = [vectors[labels_M == label] for label in np.unique(labels_M)]
    # The nearest pair decides: one arbitrary cut spoils a partition.
    return min(_measure_gap(*pair) for pair in combinations(parts, 2))


def _measure_gap(first: Matrix, second: Matrix) -> float:
    """Measure the distance between two groups' means in standard deviations along it."""
    between = first.mean(axis=0) - second.mean(axis=0)
    length = float(np.linalg.norm(between))
    if length == 0:
        return 0.0
    within = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)]) @ between / length
    # Two means are estimated, which takes two degrees of freedom.
    deviation = float(np.sqrt((within**2).sum() / max(len(within) - 2, 1)))
    return length / max(deviation, ROUNDING * length)

"""Are there groups at all? Groups against those of rotated clients.

Clusterers always find something. If clients were independent draws of one normal distribution, of any mean
and covariance, then to rotate them among each other, by a rotation that keeps the mean, would not change how
they are distributed. So the groups are compared with those of rotated clients: the spectrum of what clients
differ by is kept, and its axes are drawn at random. What groups have and a normal distribution has not is
clumps along the leading axes: G groups differ in G - 1 of them. The score is by how many standard deviations
the groups are tighter there than those that Ward's tree finds in the rotated clients, over the square root of
G - 1: clients without groups are not quite normal either, a little along each axis, and over many axes this
adds up faster than chance does.

Neither dimensions nor noise are estimated. A score is not a probability: docs/our-algorithm.md counts how
often clients without groups pass.

Shapes: M clients that are clustered, G groups.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.updates.source import Matrix

DRAWS = 100
"""Rotations that a score compares with."""
MOST_CLIENTS = 300
"""Of a larger federation this many clients are compared, drawn at random."""
ROUNDING = 1e-9


def score(squares_MM: Matrix, groups: Sequence[Sequence[int]], rng: np.random.Generator) -> float | None:
    """Return how evident groups are; None for one group, and if every client is alone.

    Args:
        squares_MM: squared Euclidean distances between clients.
        groups: positions of clients, each client in one of them.
        rng: draws the rotations.
    """
    labels_M = np.empty(len(squares_MM), np.int64)
    for label, group in enumerate(groups):
        labels_M[list(group)] = label
    sampled = np.sort(rng.permutation(len(labels_M))[:MOST_CLIENTS])
    labels_M, squares_MM = labels_M[sampled], squares_MM[np.ix_(sampled, sampled)]
    number = len(np.unique(labels_M))
    if not 1 < number < len(labels_M):
        return None
    basis = _balanced(len(labels_M))
    spectrum, axes = np.linalg.eigh(basis.T @ squares_MM @ basis / -2.0)
    lengths = np.sqrt(np.maximum(spectrum[::-1][: number - 1], 0.0))
    found = tightness(basis @ axes[:, ::-1][:, : number - 1] * lengths, labels_M)
    drawn = []
    for _ in range(DRAWS):
        rotated = basis @ _frame(len(basis) - 1, number - 1, rng) * lengths
        drawn.append(tightness(rotated, _wards(rotated, number)))
    deviations = (found - float(np.mean(drawn))) / max(float(np.std(drawn)), ROUNDING)
    return deviations / float(np.sqrt(number - 1))


def tightness(vectors: Matrix, labels_M: NDArray[np.int64]) -> float:
    """Return -log of the squares within groups over all squares; `vectors` has a row a client, of mean 0."""
    parts = [vectors[labels_M == label] for label in np.unique(labels_M)]
    within = sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)
    return -float(np.log(max(within / max(float((vectors**2).sum()), ROUNDING), ROUNDING)))


def _balanced(size: int) -> Matrix:
    """Return an orthonormal basis, shape (size, size - 1), of the vectors whose entries sum to 0."""
    columns = np.column_stack([np.ones(size), np.eye(size)[:, 1:]])
    return np.asarray(np.linalg.qr(columns)[0][:, 1:])


def _frame(size: int, columns: int, rng: np.random.Generator) -> Matrix:
    """Return the first columns of a uniformly random rotation."""
    frame, triangle = np.linalg.qr(rng.standard_normal((size, columns)))
    return np.asarray(frame * np.sign(np.diag(triangle)))


def _wards(vectors: Matrix, number: int) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import fcluster, linkage

    return np.asarray(fcluster(linkage(vectors, "ward"), number, "maxclust"), np.int64)

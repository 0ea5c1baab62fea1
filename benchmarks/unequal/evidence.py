"""Are there groups at all? Groups against clients that are drawn from one normal distribution.

If the clients' directions were independent draws from one normal distribution, of any mean and any
covariance, then rotating the clients among each other (by a rotation that keeps the mean) would not change
how they are distributed. So the spectrum of the centred cosines is kept, its eigenvectors are replaced by
random ones, and the clients are grouped again. No number of dimensions has to be estimated. What groups have
and a normal distribution has not is clumps along the leading directions: G groups differ in G - 1 of them.

Directions have length 1 and clients may have different noise, so that real clients without groups are not
quite normal. How often they pass is measured, not derived.

Shapes: K clients, G groups.
"""

import numpy as np
from numpy.typing import NDArray

from benchmarks.unequal.rules import Labels, Matrix, cut, numbered, tree_of_squares

DRAWS = 100
ROUNDING = 1e-9


def score(cosines_KK: Matrix, labels_K: Labels, rng: np.random.Generator, draws: int = DRAWS) -> float:
    """Return by how many standard deviations groups are tighter than those of rotated clients.

    Compared is -log of the share of squares that is left within the groups, in the G - 1 leading directions;
    the groups of rotated clients are Ward's, at the same number.
    """
    groups, basis = int(labels_K.max()) + 1, _balanced(len(labels_K))
    squares, axes = np.linalg.eigh(basis.T @ cosines_KK @ basis)
    lengths = np.sqrt(np.maximum(squares[::-1][: groups - 1], 0.0))
    found = tightness(basis @ axes[:, ::-1][:, : groups - 1] * lengths, labels_K)
    drawn = []
    for _ in range(draws):
        rotated = basis @ _frame(len(labels_K) - 1, groups - 1, rng) * lengths
        drawn.append(tightness(rotated, numbered(cut(tree_of_squares(_squares(rotated)), groups))))
    return (found - float(np.mean(drawn))) / max(float(np.std(drawn)), ROUNDING)


def tightness(vectors: Matrix, labels_K: Labels) -> float:
    """Return -log of the squares within groups over all squares; `vectors` has a row a client."""
    total = ((vectors - vectors.mean(axis=0)) ** 2).sum()
    parts = [vectors[labels_K == group] for group in range(int(labels_K.max()) + 1)]
    within = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
    return -float(np.log(max(within / max(total, ROUNDING), ROUNDING)))


def _balanced(num_clients: int) -> Matrix:
    """Return an orthonormal basis, shape (K, K-1), of the vectors whose entries sum to 0."""
    columns = np.column_stack([np.ones(num_clients), np.eye(num_clients)[:, 1:]])
    return np.asarray(np.linalg.qr(columns)[0][:, 1:])


def _frame(size: int, columns: int, rng: np.random.Generator) -> Matrix:
    """Return the first columns of a uniformly random rotation."""
    frame, triangle = np.linalg.qr(rng.standard_normal((size, columns)))
    return np.asarray(frame * np.sign(np.diag(triangle)))


def _squares(vectors: Matrix) -> NDArray[np.float64]:
    """Return the squared distances of the rows."""
    lengths_K = (vectors**2).sum(axis=1)
    return np.asarray(np.maximum(lengths_K[:, None] + lengths_K[None, :] - 2.0 * vectors @ vectors.T, 0.0))

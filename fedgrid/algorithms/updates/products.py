"""Inner products of long vectors in one streamed pass, the distances that follow from them, and means.

Standardised vectors have inner products too, in a pass of their own.

Shapes: K vectors, D others, P entries each.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedgrid.algorithms.updates.source import Arrays, Matrix, Vector

T = TypeVar("T")

BLOCK = 32768
"""Columns of a block: with 30 clients four megabytes, which stay in a core's cache."""
SAMPLE_ENTRIES = 65536
"""Number of entries from which the length of a vector is estimated."""
ROW_MULTIPLE = 16
"""Rows of a block are padded with zeros to a multiple of this: matrix products are twice as fast."""
LONG_VECTOR = 1 << 20
"""Number of entries from which vectors are multiplied in tiles, and by several threads.

Below, milliseconds are not worth other last bits, and to start threads takes longer than they save.
"""
TILE, BAND_ROWS, BAND_COLUMNS = 1024, 16, 48
"""Columns of a tile, and the rows of its two factors.

Each row meets only K others, so that OpenBLAS takes longer to copy a block into its own order than to
multiply it. With AVX-512 it multiplies small factors as they lie: at most 1,200 products, a million
multiplications. An inner product then has the same bits wherever it stands in a tile. Without these
kernels equal updates would not be at distance zero.
"""
UPDATE_PRECISION = 2.0**-23
"""Share of squared lengths below which a squared distance between updates is zero: float32's precision.

|u - v|^2 = |u|^2 + |v|^2 - 2 <u, v>, and float32 rounds each of these by up to this share. Training rounds
too: clients with the same rows in another order send updates whose cosine distance is 1e-12 (SGD) to 6e-8
(Adam, whose first steps are as long for a gradient of rounding errors as for any other). The least that
matters is 1e-6: of ResNets over the whole state, whose updates have BatchNorm's counters in common.
"""
MODEL_PRECISION = 2.0**-44
"""Share of squared lengths below which a squared distance between models is zero: 2^-22 of their lengths.

Updates are a small part of models, and float32 rounds each entry by up to 2^-24 of it. Groups whose updates
are shorter cannot be distinguished.
"""
PRODUCT_ERROR = 8 * 2.0**-23
"""Error of the product of two differences from the reference, as a share of their squared lengths.

Measured: up to half of that, with 100 to 2,000,000 entries. It is more than the rounding of updates where two
groups point apart, and less than any distance where all updates are nearly parallel.
"""
SMALL_KERNEL_CPUS = {"SkylakeX", "Cooperlake", "SapphireRapids"}
"""Processors for which OpenBLAS has such kernels, by its names."""


@dataclass(frozen=True)
class Products:
    """Inner products of K vectors u_i, split into what they share and what differs.

    With r one of the vectors and c_i = u_i - r, <u_i, u_j> = <c_i, c_j> + <r, c_i> + <r, c_j> + <r, r>. Kept
    apart, the distances of nearly parallel updates (BatchNorm counters make them so: cosine distances of
    1e-6) survive float32 products.
    """

    differences_KK: Matrix
    """<c_i, c_j>."""
    cross_K: Matrix
    """<r, c_i>."""
    common: float
    """<r, r>."""

    def to_arrays(self) -> Arrays:
        """Convert the fields to named arrays, as the round cache stores them."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def find_same_vectors(self, least: float) -> NDArray[np.bool_]:
        """Find the pairs of vectors that cannot be distinguished, bool, shape (K, K).

        Their squared distance is less than its errors: `least` as a share of their squared lengths, and the
        error of the products of their differences from the reference.
        """
        errors_K = self._errors_K(least)
        return np.asarray(self.squared_distances_KK <= errors_K[:, None] + errors_K[None, :])

    def find_same_directions(self, least: float) -> NDArray[np.bool_]:
        """Find the pairs of vectors whose directions cannot be distinguished, bool, shape (K, K).

        A zero vector has no direction.
        """
        squares_K = self._squares_K
        shares_K = np.divide(
            self._errors_K(least), squares_K, out=np.zeros_like(squares_K), where=squares_K > 0
        )
        return np.asarray(self.cosine_distances_KK <= (shares_K[:, None] + shares_K[None, :]) / 2)

    @property
    def _squares_K(self) -> Matrix:
        """Squared lengths of the vectors."""
        return np.maximum(np.diagonal(self.differences_KK) + 2 * self.cross_K + self.common, 0.0)

    def _errors_K(self, least: float) -> Matrix:
        """Bound the error of each vector's squared length."""
        return np.asarray(least * self._squares_K + PRODUCT_ERROR * np.diagonal(self.differences_KK))

    def select_vectors(self, positions: list[int]) -> "Products":
        """Select the products of the vectors at these positions."""
        return Products(
            self.differences_KK[np.ix_(positions, positions)], self.cross_K[positions], self.common
        )

    @property
    def gram_KK(self) -> Matrix:
        """Inner products <u_i, u_j>, shape (K, K)."""
        return self.differences_KK + self.cross_K[:, None] + self.cross_K[None, :] + self.common

    @property
    def squared_distances_KK(self) -> Matrix:
        """Squared Euclidean distances |u_i - u_j|^2, shape (K, K)."""
        squares_K = np.diagonal(self.differences_KK)
        return np.maximum(squares_K[:, None] + squares_K[None, :] - 2 * self.differences_KK, 0.0)

    @property
    def cosine_distances_KK(self) -> Matrix:
        """Cosine distances 1 - cos(u_i, u_j), in [0, 2], shape (K, K).

        A zero vector is at 1 to every other one; the diagonal is 0.

        From |u - v|^2 = (|u| - |v|)^2 + 2 |u| |v| (1 - cos), which cancels nothing when u is close to v.
        """
        norms_K = np.sqrt(self._squares_K)
        # |u|^2 - |r|^2, without the part that all have in common.
        excess_K = np.diagonal(self.differences_KK) + 2 * self.cross_K
        sums_KK = norms_K[:, None] + norms_K[None, :]
        gaps_KK = np.divide(
            excess_K[:, None] - excess_K[None, :], sums_KK, out=np.zeros_like(sums_KK), where=sums_KK > 0
        )
        products_KK = norms_K[:, None] * norms_K[None, :]
        distances_KK = np.divide(
            self.squared_distances_KK - gaps_KK**2,
            2 * products_KK,
            out=np.ones_like(products_KK),
            where=products_KK > 0,
        )
        np.fill_diagonal(distances_KK, 0.0)
        # Symmetric in spite of rounding, which clusterers require.
        return np.asarray(np.clip((distances_KK + distances_KK.T) / 2, 0.0, 2.0))


def compute_inner_products(vectors: Sequence[Vector], width: int, threads: int = 1) -> Products:
    """Compute the inner products of the first `width` entries of K >= 1 vectors, in one pass over them."""
    reference = _find_reference(vectors, width)
    order = [reference, *(index for index in range(len(vectors)) if index != reference)]
    ordered = [vectors[index][:width] for index in order]
    # Without kernels for small factors the bits of a product would depend on where it stands in a tile, so
    # that equal updates would not be at distance zero.
    multiply = _multiply_tiles if width >= LONG_VECTOR and _has_small_kernels() else _multiply_block
    total_KK = np.asarray(sum(map_blocks(lambda columns: multiply(ordered, columns), width, threads)))
    common = float(total_KK[0, 0])
    cross_K = total_KK[0] - np.eye(1, len(order))[0] * common
    # The reference differs from itself by nothing: its row holds <r, c_i>, which `cross_K` has.
    total_KK[0] = 0.0
    total_KK[:, 0] = 0.0
    position = np.argsort(order)
    return Products(total_KK[np.ix_(position, position)], cross_K[position], common)


def compute_standardised_products(
    vectors: Sequence[Vector], lengths_K: Matrix, width: int, threads: int = 1
) -> Products:
    """Compute the inner products of standardised vectors, split at their mean.

    Vectors are scaled to length 1, and each entry is divided by its standard deviation over the vectors;
    entries that are equal everywhere are left out, as they distinguish no two vectors.

    Args:
        vectors: K >= 1 vectors.
        lengths_K: their Euclidean norms over the first `width` entries; a zero vector stays one.
        width: number of entries that count.
        threads: number of blocks at a time.
    """
    scales_K = np.divide(1.0, lengths_K, out=np.zeros_like(lengths_K), where=lengths_K > 0)
    scales_K1 = scales_K.astype(np.float32)[:, None]

    def block_products(columns: slice) -> Matrix:
        rows = np.stack([vector[columns] for vector in vectors]) * scales_K1
        # Summed in float64: of many clients float32 sums lose the bits in which they differ.
        mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        rows -= mean
        deviation = rows.std(axis=0, dtype=np.float64).astype(np.float32)
        both = np.vstack([mean, rows])
        np.divide(both, deviation, out=both, where=deviation > 0)
        # Entries that are equal everywhere distinguish nobody, and would be divided by 0.
        both[:, deviation == 0] = 0.0
        return np.asarray(both @ both.T, np.float64)

    total = np.asarray(sum(map_blocks(block_products, width, threads)))
    return Products(total[1:, 1:], total[0, 1:], float(total[0, 0]))


def merge_duplicates(distances_KK: Matrix, same_KK: NDArray[np.bool_]) -> Matrix:
    """Merge vectors that cannot be distinguished.

    They are at distance 0 from each other, and have the same distances to others.

    Each gets the row and column of the first vector that it is the same as.
    """
    first_K = same_KK.argmax(axis=1)
    return distances_KK[np.ix_(first_K, first_K)]


def compute_manhattan_distances(vectors: Sequence[Vector], width: int, threads: int = 1) -> Matrix:
    """Compute the sums of absolute differences of the first `width` entries, shape (K, K)."""

    def block_sums(columns: slice) -> Matrix:
        block = np.stack([vector[columns] for vector in vectors])
        return np.stack([np.abs(block - row).sum(axis=1, dtype=np.float64) for row in block])

    return np.asarray(sum(map_blocks(block_sums, width, threads)))


def compute_cross_products(
    vectors: Sequence[Vector], others: Sequence[Vector], width: int, threads: int = 1
) -> Matrix:
    """Compute the inner products of K vectors with D others over their first entries, shape (K, D).

    Args:
        vectors: K vectors; they are read in blocks of columns.
        others: D vectors, stacked in memory.
        width: number of entries that count.
        threads: number of blocks at a time.
    """
    # A few directions, which every block needs: stacked once.
    others_DP = np.stack(others)

    def block_products(columns: slice) -> Matrix:
        block = np.stack([vector[columns] for vector in vectors])
        return (block @ others_DP[:, columns].T).astype(np.float64)

    return np.asarray(sum(map_blocks(block_products, width, threads)))


def compute_mean_direction(
    vectors: Sequence[Vector], lengths_K: Matrix, width: int, threads: int = 1
) -> Vector:
    """Compute the mean of the vectors that are not zero, each scaled to length 1, float32, shape (`width`,).

    Args:
        vectors: K vectors.
        lengths_K: their Euclidean norms over the first `width` entries.
        width: number of entries that count.
        threads: number of blocks at a time.
    """
    out = np.empty(width, np.float32)
    # Divided by infinity, zero vectors drop out without a second list.
    divisors_K = np.where(lengths_K > 0, lengths_K, np.inf)
    scales_K = 1 / divisors_K / max(1, int(np.count_nonzero(lengths_K)))

    def block_mean(columns: slice) -> None:
        out[columns] = scales_K @ np.stack([vector[columns] for vector in vectors])

    map_blocks(block_mean, width, threads)
    return out


def compute_mean(rows: Sequence[NDArray[Any]], shares: Sequence[float] | None) -> Matrix:
    """Compute the mean of equally long vectors by `shares`, summed in float64; None: the plain mean.

    Row by row, as NumPy adds them too: the bits of `np.mean` and `np.average`, without a copy of all rows.
    """
    if shares is None:
        total = np.array(rows[0], np.float64)
        for row in rows[1:]:
            total += row
        return np.asarray(total / len(rows))
    total = np.multiply(rows[0], shares[0], dtype=np.float64)
    # One buffer for all products: rows may be hundreds of megabytes.
    part = np.empty_like(total)
    for row, share in zip(rows[1:], shares[1:], strict=True):
        total += np.multiply(row, share, out=part, dtype=np.float64)
    return np.asarray(total / np.sum(shares))


def compute_mean_vector(
    rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
) -> Vector:
    """Compute the mean of vectors by `shares`, float32, a block of columns at a time."""
    out = np.empty(rows[0].size, np.float32)

    def block_mean(columns: slice) -> None:
        out[columns] = compute_mean([row[columns] for row in rows], shares)

    map_blocks(block_mean, out.size, threads)
    return out


def list_shares(group: Sequence[int], weights: Mapping[int, float] | None) -> tuple[float, ...] | None:
    """List the weights of a group's clients; None if they are equal, for the bits of the plain mean."""
    if weights is None:
        return None
    shares = tuple(float(weights[client]) for client in group)
    return None if len(set(shares)) == 1 else shares


def map_blocks(function: Callable[[slice], T], width: int, threads: int = 1) -> list[T]:
    """Call a function for each block of columns, `threads` at a time; return the results in their order."""
    columns = [slice(start, min(start + BLOCK, width)) for start in range(0, width, BLOCK)]
    # One BLAS thread: several would add partial sums in an order that depends on the machine.
    with _find_blas().limit(limits=1, user_api="blas"):
        # Blocks are summed in their order either way, so the bits do not depend on the number of threads.
        if threads == 1 or width < LONG_VECTOR:
            return [function(part) for part in columns]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, columns))


def _find_reference(vectors: Sequence[Vector], width: int) -> int:
    """Find the shortest vector that is not zero, by a sample of entries; return its position.

    Differences from a long vector would cancel the digits that distinguish short ones.
    """
    step = max(1, width // SAMPLE_ENTRIES)
    norms_K = [float(np.linalg.norm(vector[:width:step])) for vector in vectors]
    return min(range(len(norms_K)), key=lambda index: (norms_K[index] == 0, norms_K[index]))


def _multiply_block(vectors: list[Vector], columns: slice) -> Matrix:
    """Compute the Gram matrix of (r, c_1, .., c_K-1) in these columns: the first vector is the reference."""
    num_rows = len(vectors)
    block = np.empty((-(-num_rows // ROW_MULTIPLE) * ROW_MULTIPLE, columns.stop - columns.start), np.float32)
    _fill_block(block, vectors, columns)
    return (block @ block.T)[:num_rows, :num_rows].astype(np.float64)


def _multiply_tiles(vectors: list[Vector], columns: slice) -> Matrix:
    """Compute the same as `_multiply_block`, as a float64 sum over tiles of products.

    Only those above the diagonal are computed.
    """
    num_rows = len(vectors)
    width = columns.stop - columns.start
    num_tiles = -(-width // TILE)
    # A row of zeros at least: of a matrix and its own transpose NumPy asks for `ssyrk`, which copies both.
    # Columns to spare: rows at a distance of a power of two would share a few lines of the cache.
    block = np.empty((4 * (num_rows // 4 + 1), num_tiles * TILE + ROW_MULTIPLE), np.float32)
    _fill_block(block[:, :width], vectors, columns)
    block[:, width:] = 0.0
    tiles = block[:, : num_tiles * TILE].reshape(len(block), num_tiles, TILE).transpose(1, 0, 2)
    products = np.zeros((len(block), len(block)))
    for first in range(0, num_rows, BAND_ROWS):
        rows = slice(first, min(first + BAND_ROWS, len(block) - 1))
        for start in range(first, len(block), BAND_COLUMNS):
            others = slice(start, start + BAND_COLUMNS)
            tile_products = np.matmul(tiles[:, rows], tiles[:, others].transpose(0, 2, 1))
            products[rows, others] = tile_products.sum(axis=0, dtype=np.float64)
    upper = np.triu(products[:num_rows, :num_rows])
    return upper + np.triu(upper, 1).T


def _fill_block(block: Vector, vectors: list[Vector], columns: slice) -> None:
    """Write r, c_1, .., c_K-1 into the rows of `block`, and zeros into the others."""
    block[0] = vectors[0][columns]
    for row, vector in zip(block[1:], vectors[1:], strict=False):
        np.subtract(vector[columns], block[0], out=row)
    block[len(vectors) :] = 0.0


@cache
def _find_blas() -> ThreadpoolController:
    """Find the BLAS libraries of this process, which takes milliseconds.

    Products run on one thread, so that their bits do not depend on the number of cores.
    """
    return ThreadpoolController()


@cache
def _has_small_kernels() -> bool:
    """Check whether OpenBLAS multiplies small factors on this processor without copying them."""
    return any(library.get("architecture") in SMALL_KERNEL_CPUS for library in _find_blas().info())

"""A view of one round's updates that never copies them whole.

The updates may be gigabytes in the object store, so everything here streams over them in blocks of
columns, once, with matrix products. Shapes: K clients in the view, P entries of a state vector.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.source import Arrays, InMemory, Source

Vector = NDArray[np.float32]
Matrix = NDArray[np.float64]
T = TypeVar("T")

BLOCK = 32768
"""Columns a block: with 30 clients four megabytes, which stay in a core's cache."""
SAMPLE = 65536
"""Entries that are enough to tell long vectors from short ones."""
LANES = 16
"""Rows of a block are padded with zeros to a multiple of this: matrix products are twice as fast."""


@dataclass(frozen=True)
class Products:
    """Inner products of K vectors u_i, split into what they share and what differs.

    With r one of the vectors and c_i = u_i - r, <u_i, u_j> = <c_i, c_j> + <r, c_i> + <r, c_j> + <r, r>.
    Kept apart, the distances of nearly parallel updates (BatchNorm counters make them so: cosine
    distances of 1e-6) survive float32 products.
    """

    differences_KK: Matrix
    """<c_i, c_j>."""
    cross_K: Matrix
    """<r, c_i>."""
    common: float
    """<r, r>."""

    def arrays(self) -> Arrays:
        """Return the fields as arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def select(self, positions: list[int]) -> "Products":
        """Return the products of the vectors at `positions`."""
        return Products(
            self.differences_KK[np.ix_(positions, positions)], self.cross_K[positions], self.common
        )

    @property
    def gram_KK(self) -> Matrix:
        """<u_i, u_j>."""
        return self.differences_KK + self.cross_K[:, None] + self.cross_K[None, :] + self.common

    @property
    def squared_distances_KK(self) -> Matrix:
        """|u_i - u_j|^2."""
        squares_K = np.diagonal(self.differences_KK)
        return np.maximum(squares_K[:, None] + squares_K[None, :] - 2 * self.differences_KK, 0.0)

    @property
    def cosine_distances_KK(self) -> Matrix:
        """1 - cos(u_i, u_j) in [0, 2]; 1 from a zero vector to every other, 0 on the diagonal.

        From |u - v|^2 = (|u| - |v|)^2 + 2 |u| |v| (1 - cos), which cancels nothing when u is close to v.
        """
        squares_K = np.maximum(np.diagonal(self.differences_KK) + 2 * self.cross_K + self.common, 0.0)
        norms_K = np.sqrt(squares_K)
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
        return np.asarray(np.clip((distances_KK + distances_KK.T) / 2, 0.0, 2.0))


class Updates:
    """The usable updates of one round, keyed by client id.

    Args:
        vectors: client id -> update, float32, shape (P,); only read, block by block. Or a source of the
            updates of `clients`, which is asked for them when something cannot be had without.
        layout: what the entries are.
        similarity_over: whether cosines, norms and distances see the parameters or the whole state;
            means are always over the whole state.
        threads: how many blocks are worked on at a time. The result does not depend on it.
        chosen: client id -> which of its candidate models the client trained.
        absent: clients that were not there this round; others without an update sent an unusable one.
        clients: whose updates a source has; of a mapping its keys.
    """

    def __init__(
        self,
        vectors: Mapping[int, Vector] | Source,
        layout: Layout,
        *,
        similarity_over: str = "parameters",
        threads: int = 1,
        chosen: Mapping[int, int] | None = None,
        absent: Iterable[int] = (),
        clients: Iterable[int] | None = None,
    ) -> None:
        if isinstance(vectors, Mapping):
            self.clients = tuple(sorted(vectors))
            self._source: Source = InMemory(vectors)
        else:
            self.clients = tuple(sorted(clients or ()))
            self._source = vectors
        self.layout = layout
        self.similarity_over = similarity_over
        self.chosen = dict(chosen or {})
        self.absent = frozenset(absent)
        self._width = layout.num_parameters if similarity_over == "parameters" else layout.size
        self._threads = threads

    def select(self, clients: Iterable[int]) -> "Updates":
        """Return the view of those of `clients` that have an update; shares what is computed already."""
        wanted = set(clients)
        positions = [index for index, client in enumerate(self.clients) if client in wanted]
        part = Updates(
            self._source,
            self.layout,
            similarity_over=self.similarity_over,
            threads=self._threads,
            chosen=self.chosen,
            absent=self.absent,
            clients=[self.clients[index] for index in positions],
        )
        part.products = self.products.select(positions)
        return part

    def groups(self, labels_K: NDArray[np.int64]) -> dict[int, list[int]]:
        """Return cluster -> those of its clients that have an update; clusters without any are left out.

        `labels_K` has the cluster of each client of the federation.
        """
        groups: dict[int, list[int]] = {}
        for client in self.clients:
            groups.setdefault(int(labels_K[client]), []).append(client)
        return dict(sorted(groups.items()))

    @cached_property
    def products(self) -> Products:
        """Inner products of all pairs, in one pass."""
        if not self.clients:
            return Products(np.zeros((0, 0)), np.zeros(0), 0.0)
        known = self._recall("products", lambda: self._products().arrays())
        return Products(known["differences_KK"], known["cross_K"], float(known["common"]))

    def _products(self) -> Products:
        """Return the inner products, worked out."""
        reference = self._reference()
        order = [reference, *(index for index in range(len(self.clients)) if index != reference)]
        vectors = [self._vectors[index][: self._width] for index in order]
        total_KK = np.asarray(
            sum(self._map_blocks(lambda columns: _block_products(vectors, columns), self._width))
        )
        common = float(total_KK[0, 0])
        cross_K = total_KK[0] - np.eye(1, len(order))[0] * common
        total_KK[0], total_KK[:, 0] = 0.0, 0.0
        position = np.argsort(order)
        return Products(total_KK[np.ix_(position, position)], cross_K[position], common)

    @property
    def gram_KK(self) -> Matrix:
        """Inner products, float64, shape (K, K)."""
        return self.products.gram_KK

    @property
    def norms_K(self) -> Matrix:
        """Euclidean norm of each update, shape (K,)."""
        return np.sqrt(np.maximum(np.diagonal(self.gram_KK), 0.0))

    @property
    def mean_norm(self) -> float:
        """Euclidean norm of the mean update."""
        return float(np.sqrt(max(self.gram_KK.mean(), 0.0)))

    @property
    def cosine_distances_KK(self) -> Matrix:
        """1 - cosine similarity, in [0, 2]; see `Products.cosine_distances_KK` for zero updates."""
        return self.products.cosine_distances_KK

    @property
    def euclidean_distances_KK(self) -> Matrix:
        """Euclidean distances, shape (K, K)."""
        return np.sqrt(self.products.squared_distances_KK)

    @cached_property
    def manhattan_distances_KK(self) -> Matrix:
        """Sums of absolute differences, shape (K, K); a pass of its own over the updates."""

        def sums() -> Arrays:
            return {"sums_KK": np.asarray(sum(self._map_blocks(self._block_manhattan, self._width)))}

        return self._recall("manhattan", sums)["sums_KK"]

    def vectors(self) -> list[Vector]:
        """Return the updates themselves, each float32, shape (P,), in the order of `clients`."""
        return self._vectors

    def mean(self) -> Vector:
        """Return the mean update over the whole state, float32, shape (P,)."""
        return self.means([self.clients])[0]

    def means(self, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Return the mean update of each group of clients over the whole state, float32, shape (P,)."""
        names = [_name("mean", group) for group in groups]
        by_name = dict(zip(names, groups, strict=True))

        def work_out(missing: Sequence[str]) -> list[Arrays]:
            wanted = [by_name[name] for name in missing]
            members = sorted({client for group in wanted for client in group})
            vectors = dict(zip(members, self._source.fetch(members), strict=True))
            return [{"mean_P": self._mean([vectors[client] for client in group])} for group in wanted]

        known = dict(zip(by_name, self._source.recall(by_name, work_out), strict=True))
        return [known[name]["mean_P"] for name in names]

    def _mean(self, vectors: Sequence[Vector]) -> Vector:
        out = np.empty(self.layout.size, np.float32)

        def block_mean(columns: slice) -> None:
            out[columns] = np.mean([vector[columns] for vector in vectors], axis=0, dtype=np.float64)

        self._map_blocks(block_mean, self.layout.size)
        return out

    def mean_direction(self) -> Vector:
        """Return the mean of the updates scaled to length 1, float32, shape (P,).

        Zero updates have no direction and are left out; of nothing else the mean is zero, as are entries
        that norms and distances do not see.
        """
        out = np.zeros(self.layout.size, np.float32)
        lengths_K = np.where(self.norms_K > 0, self.norms_K, np.inf)
        scales_K = 1 / lengths_K / max(1, int(np.count_nonzero(self.norms_K)))

        def block_mean(columns: slice) -> None:
            out[columns] = scales_K @ np.stack([vector[columns] for vector in self._vectors])

        self._map_blocks(block_mean, self._width)
        return out

    def mean_distances(self, directions: Sequence[Vector]) -> Matrix:
        """Return the mean cosine distance of each update to those behind each mean direction, shape (K, D).

        No update may be zero.
        """
        targets = np.stack(directions)

        def block_products(columns: slice) -> Matrix:
            block = np.stack([vector[columns] for vector in self._vectors])
            return (block @ targets[:, columns].T).astype(np.float64)

        products_KD = np.asarray(sum(self._map_blocks(block_products, self._width)))
        return 1 - products_KD / self.norms_K[:, None]

    @cached_property
    def _vectors(self) -> list[Vector]:
        return self._source.fetch(self.clients)

    def _recall(self, name: str, work_out: Callable[[], Arrays]) -> Arrays:
        """Return what is known of all updates in this view, or else work it out."""
        seen = "parameters" if self._width == self.layout.num_parameters else "state"
        wanted = {_name(f"{name}-{seen}", self.clients): self.clients}
        return self._source.recall(wanted, lambda _: [work_out()])[0]

    def _map_blocks(self, function: Callable[[slice], T], width: int) -> list[T]:
        columns = [slice(start, min(start + BLOCK, width)) for start in range(0, width, BLOCK)]
        with _blas().limit(limits=1, user_api="blas"):
            if self._threads == 1 or len(columns) == 1:
                return [function(part) for part in columns]
            with ThreadPoolExecutor(self._threads) as pool:
                return list(pool.map(function, columns))

    def _reference(self) -> int:
        """Return the position of the shortest vector that is not zero, judged by a sample of entries.

        Seen from a long vector the short ones are all alike; seen from a short one nothing is lost.
        """
        step = max(1, self._width // SAMPLE)
        norms_K = [float(np.linalg.norm(vector[: self._width : step])) for vector in self._vectors]
        return min(range(len(norms_K)), key=lambda index: (norms_K[index] == 0, norms_K[index]))

    def _block_manhattan(self, columns: slice) -> Matrix:
        block = np.stack([vector[columns] for vector in self._vectors])
        return np.stack([np.abs(block - row).sum(axis=1, dtype=np.float64) for row in block])


def _name(what: str, clients: Sequence[int]) -> str:
    """Return the name of what is known of these clients' updates."""
    return f"{what}-{sha256(repr(tuple(map(int, clients))).encode()).hexdigest()[:16]}"


def _block_products(vectors: list[Vector], columns: slice) -> Matrix:
    """Return the Gram matrix of (r, c_1, .., c_K-1) in these columns: the first vector is the reference."""
    num_rows = len(vectors)
    block = np.empty((-(-num_rows // LANES) * LANES, columns.stop - columns.start), np.float32)
    block[0] = vectors[0][columns]
    for row, vector in zip(block[1:], vectors[1:], strict=False):
        np.subtract(vector[columns], block[0], out=row)
    block[num_rows:] = 0.0
    return (block @ block.T)[:num_rows, :num_rows].astype(np.float64)


@cache
def _blas() -> ThreadpoolController:
    """Look for the BLAS libraries of this process once: it takes milliseconds.

    A product is always one thread's work, so that its bits do not depend on the number of cores.
    """
    return ThreadpoolController()

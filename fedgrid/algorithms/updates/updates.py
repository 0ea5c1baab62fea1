"""A view of one round's updates that never copies them as a whole.

The updates may be gigabytes in the object store, so everything here streams over them in blocks of columns,
once, with matrix products. Shapes: K clients in the view, D directions, P entries of a state vector.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.updates.products import (
    UPDATE_PRECISION,
    Products,
    compute_cross_products,
    compute_inner_products,
    compute_manhattan_distances,
    compute_mean_direction,
    compute_mean_vector,
    compute_standardised_products,
    list_shares,
    merge_duplicates,
)
from fedgrid.algorithms.updates.source import (
    UPDATE,
    Arrays,
    InMemorySource,
    Layout,
    Matrix,
    Source,
    Vector,
    build_statistic_name,
    make_read_only,
)

CombineVectors = Callable[[Sequence[Vector], Sequence[float] | None, int], Vector]
"""Function from vectors, their shares (None: equal) and a number of threads to one vector, float32."""
MeanNoise = Callable[[Vector, Sequence[int], Sequence[float] | None, str], Vector]
"""Function from a mean, its clients, their shares (None: equal) and the output that it is of to the mean that
the server takes."""

StatisticContext = Callable[[Callable[..., Any], str], AbstractContextManager[Any]]
"""Function from what computes a statistic, and the statistic's name, to the context in which it is called."""


class Updates:
    """The usable updates of one round, keyed by client id; `Algorithm.step` gets it.

    Server and clusterers see only what was sent, after the uplink. Clients of the view are in ascending order
    in all its members, as in `clients`. What is computed of the updates comes from the round cache where
    another run has computed it: prefer inner products, norms, distances and means to `vectors` and `outputs`,
    which make clients train again in a round from the cache. Construct one yourself to test an algorithm.

    Args:
        vectors: client id -> update, float32, shape (P,); only read, block by block. Or a lazy source of the
            updates of `clients`, from which only statistics that are not cached are fetched.
        layout: names and shapes of the tensors in a vector.
        similarity_over: `parameters` or `state`: entries that cosines, norms and distances see. Means are
            always over the whole state.
        threads: number of blocks computed at a time. The result does not depend on it.
        chosen: client id -> which of its candidate models the client trained, a position in `State.models`.
        absent: clients that were not sampled, dropped out or have not joined. A client that sent an unusable
            update is neither absent nor in this view.
        clients: the clients whose updates a source has; of a mapping its keys.
        images: client id -> number of images it trained on.
        steps: client id -> number of its optimizer steps.
        weights: client id -> positive weight in every mean; None: all are equal.
        sampled: clients that `participation` drew; others may have got orders too. None: all in the view.
        held_out: the absent clients that never train in the federation.
        noise: function that adds the server's noise to every mean; None: there is none.
        least: the share of squared norms below which squared distances are zero. Updates that cannot be
            distinguished then have the same distances to all others, in every measure.
        around: the context in which a statistic is computed, where it is not cached.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> layout = fedgrid.Layout(("weight",), ((2,),), 2)
        >>> vectors = {4: np.array([1, 0], np.float32), 7: np.array([0, 2], np.float32)}
        >>> updates = fedgrid.Updates(vectors, layout)
        >>> updates.clients, updates.norms_K.tolist()
        ((4, 7), [1.0, 2.0])
        >>> updates.cosine_distances_KK.round(6).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        >>> updates.mean().tolist()
        [0.5, 1.0]
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
        images: Mapping[int, int] | None = None,
        steps: Mapping[int, int] | None = None,
        weights: Mapping[int, float] | None = None,
        sampled: Iterable[int] | None = None,
        held_out: Iterable[int] = (),
        noise: MeanNoise | None = None,
        least: float = UPDATE_PRECISION,
        around: StatisticContext = lambda *_: nullcontext(),
    ) -> None:
        if isinstance(vectors, Mapping):
            self.clients = tuple(sorted(vectors))
            self._source: Source = InMemorySource(vectors)
        else:
            self.clients = tuple(sorted(clients or ()))
            self._source = vectors
        self.layout = layout
        self.similarity_over = similarity_over
        self.chosen = dict(chosen or {})
        self.absent = frozenset(absent)
        self.held_out = frozenset(held_out)
        self.images = dict(images or {})
        self.steps = dict(steps or {})
        self.weights = None if weights is None else dict(weights)
        self.sampled = frozenset(self.clients if sampled is None else sampled)
        self._width = layout.num_parameters if similarity_over == "parameters" else layout.size
        self._threads = threads
        self._noise = noise
        self._least = least
        self._around = around

    def select(self, clients: Iterable[int], *, absent: Iterable[int] | None = None) -> "Updates":
        """Build the view of those of `clients` that have an update; inner products are shared with this view.

        Args:
            clients: client ids; those without an update are ignored.
            absent: ids of the clients that count as absent in the new view; None: as in this one.
        """
        chosen = set(clients)
        positions = [index for index, client in enumerate(self.clients) if client in chosen]
        part = Updates(
            self._source,
            self.layout,
            similarity_over=self.similarity_over,
            threads=self._threads,
            chosen=self.chosen,
            absent=self.absent if absent is None else absent,
            clients=[self.clients[index] for index in positions],
            images=self.images,
            steps=self.steps,
            weights=self.weights,
            sampled=self.sampled,
            held_out=self.held_out,
            noise=self._noise,
            least=self._least,
            around=self._around,
        )
        # A part's products are a submatrix: no second pass over the updates.
        part.products = self.products.select_vectors(positions)
        return part

    def groups(self, labels_K: NDArray[np.int64]) -> dict[int, list[int]]:
        """Group the clients that have an update by their cluster; clusters without any are left out.

        Args:
            labels_K: cluster of each client of the federation.

        Returns:
            Cluster -> its clients, both ascending.
        """
        groups: dict[int, list[int]] = {}
        for client in self.clients:
            groups.setdefault(int(labels_K[client]), []).append(client)
        # By cluster, not by first client: the order of means is the order of models.
        return dict(sorted(groups.items()))

    @cached_property
    def products(self) -> Products:
        """Inner products of all pairs, computed in one pass."""
        # A view of a cluster may be empty.
        if not self.clients:
            return Products(np.zeros((0, 0)), np.zeros(0), 0.0)
        return self._load_products(
            "products", lambda: compute_inner_products(self._fetch_vectors, self._width, self._threads)
        )

    @property
    def gram_KK(self) -> Matrix:
        """Inner products of all pairs, float64, shape (K, K)."""
        return self.products.gram_KK

    @property
    def norms_K(self) -> Matrix:
        """Euclidean norm of each update, float64, shape (K,)."""
        # Rounding may leave a tiny negative square.
        return np.sqrt(np.maximum(np.diagonal(self.gram_KK), 0.0))

    @property
    def mean_norm(self) -> float:
        """Euclidean norm of the mean update, by the run's weights."""
        shares = list_shares(self.clients, self.weights)
        if shares is None:
            return float(np.sqrt(max(self.gram_KK.mean(), 0.0)))
        # |sum s_i u_i|^2 = s' G s: no pass over the updates.
        shares_K = np.array(shares) / sum(shares)
        return float(np.sqrt(max(float(shares_K @ self.gram_KK @ shares_K), 0.0)))

    @property
    def cosine_distances_KK(self) -> Matrix:
        """Cosine distances 1 - cos, in [0, 2], float64, shape (K, K); a zero update is at 1 to all others."""
        return merge_duplicates(
            self.products.cosine_distances_KK, self.products.find_same_directions(self._least)
        )

    @property
    def euclidean_distances_KK(self) -> Matrix:
        """Euclidean distances, float64, shape (K, K)."""
        distances_KK = np.sqrt(self.products.squared_distances_KK)
        return merge_duplicates(distances_KK, self.products.find_same_vectors(self._least))

    @cached_property
    def standardised_distances_KK(self) -> Matrix:
        """Cosine distances of standardised updates, float64, shape (K, K); a pass of its own.

        Updates are scaled to length 1, and their entries divided by the standard deviation over the clients.
        All entries then count alike, also those in which clients differ by rounding only, so updates of one
        direction are set to distance 0. Zero updates are at distance 1.
        """
        standardised = self._load_products(
            "standardised",
            lambda: compute_standardised_products(
                self._fetch_vectors, self.norms_K, self._width, self._threads
            ),
        )
        # Merged twice: standardising enlarges the rounding of entries that hardly differ, so updates that
        # were the same before stay the same.
        distances_KK = merge_duplicates(
            standardised.cosine_distances_KK, standardised.find_same_directions(self._least)
        )
        return merge_duplicates(distances_KK, self.products.find_same_directions(self._least))

    @cached_property
    def manhattan_distances_KK(self) -> Matrix:
        """Sums of absolute differences, float64, shape (K, K); a pass of its own over the updates."""
        sums = self._load_statistic_of_view(
            "manhattan",
            lambda: {"sums_KK": compute_manhattan_distances(self._fetch_vectors, self._width, self._threads)},
        )
        return merge_duplicates(sums["sums_KK"], self.products.find_same_vectors(self._least))

    def vectors(self) -> list[Vector]:
        """Fetch the updates themselves, each float32, shape (P,), in the order of `clients`.

        In a round from the round cache this makes the clients train again.
        """
        return self._fetch_vectors

    def outputs(self, name: str) -> list[NDArray[Any]]:
        """Fetch a named output of each reply, in the order of `clients`.

        These are the arrays of `LocalRule.outputs`, `predictions` of an order with `infer`, and `losses`. In
        a round from the round cache this makes the clients train again; `derived` and `means` do not.
        """
        return make_read_only(self._source.fetch(self.clients, name))

    def derived(self, output: str, name: str, compute: Callable[[list[NDArray[Any]]], Arrays]) -> Arrays:
        """Compute something from a named output of all replies; runs that share this round compute it once.

        Args:
            output: name of the output.
            name: distinguishes the result from everything else that is computed from the same output; it
                should contain the settings that matter.
            compute: function from the outputs, in the order of `clients`, to named arrays; it must depend on
                nothing else.

        Returns:
            The named arrays, read-only.
        """
        name = f"{output}-{name}"

        def compute_output() -> Arrays:
            outputs = self.outputs(output)
            with self._around(compute, name):
                return compute(outputs)

        return self._load_statistic(name, compute_output)

    def mean(self, weights: Mapping[int, float] | None = None) -> Vector:
        """Compute the mean update over the whole state, float32, shape (P,); `weights` as in `means`."""
        return self.means([self.clients], weights)[0]

    def means(
        self,
        groups: Sequence[Sequence[int]],
        weights: Mapping[int, float] | None = None,
        output: str = UPDATE,
    ) -> list[Vector]:
        """Compute the mean update of each group of clients over the whole state, float32, shape (P,).

        The server's noise is added if there is any; each mean that is taken costs privacy then.

        Args:
            groups: client ids of each group.
            weights: client id -> positive weight; divided by their sum within each group. None: those of the
                view, which are the run's (`RunConfig.weights`).
            output: another named output of the replies to average, a vector of one length for all.
        """
        weights = self.weights if weights is None else weights
        # Without noise in the cache: other runs have other noise, or none.
        means = self.combine(groups, compute_mean_vector, "mean", weights=weights, output=output)
        if self._noise is None:
            return means
        return [
            self._noise(mean_P, group, list_shares(group, weights), output)
            for mean_P, group in zip(means, groups, strict=True)
        ]

    def combine(
        self,
        groups: Sequence[Sequence[int]],
        combine: CombineVectors,
        *name: str,
        weights: Mapping[int, float] | None = None,
        output: str = UPDATE,
    ) -> list[Vector]:
        """Combine the vectors of each group of clients into one by a function; no noise covers the result.

        Runs that share this round compute it once.

        Args:
            groups: client ids of each group.
            combine: function from vectors, shares and threads to one vector.
            name: a word for `combine`, then its settings, which together distinguish it from any other
                function.
            weights: client id -> positive weight, as in `means`.
            output: another named output of the replies, as in `means`.
        """
        weights = self.weights if weights is None else weights

        # A statistic's name has the group and its shares, so that runs with other weights do not share it.
        def build_key(group: Sequence[int]) -> str:
            # Plain ints: the name is made of a text, and NumPy's numbers have another one.
            return build_statistic_name(*name, output, tuple(map(int, group)), list_shares(group, weights))

        by_key = {build_key(group): group for group in groups}

        def compute_missing(missing: Sequence[str]) -> list[Arrays]:
            missing_groups = [by_key[name] for name in missing]
            # Fetched once for all groups: a client may be in several.
            members = sorted({client for group in missing_groups for client in group})
            vectors = dict(zip(members, self._source.fetch(members, output), strict=True))
            rows = [[vectors[client] for client in group] for group in missing_groups]
            shares = [list_shares(group, weights) for group in missing_groups]
            return [combine_group(*of_group) for of_group in zip(missing, rows, shares, strict=True)]

        def combine_group(name: str, rows: Sequence[Vector], shares: Sequence[float] | None) -> Arrays:
            with self._around(combine, name):
                return {"vector_P": combine(rows, shares, self._threads)}

        # By key, because two groups may be equal: each is computed once.
        cached = dict(zip(by_key, self._source.cached(by_key, compute_missing), strict=True))
        return make_read_only(cached[build_key(group)]["vector_P"] for group in groups)

    def mean_direction(self) -> Vector:
        """Compute the mean of the updates scaled to length 1, float32, shape (P,).

        Zero updates have no direction and are left out; without any other the mean is zero. So are entries
        that norms and distances do not see. It is used for distances, so weights have no effect.
        """
        out = np.zeros(self.layout.size, np.float32)
        out[: self._width] = compute_mean_direction(
            self._fetch_vectors, self.norms_K, self._width, self._threads
        )
        return out

    def mean_distances(self, directions: Sequence[Vector]) -> Matrix:
        """Compute the mean cosine distance of each update to the updates behind each mean direction.

        Args:
            directions: D results of `mean_direction`, shape (P,) each.

        Returns:
            Distances, float64, shape (K, D); the updates of this view must not be zero.
        """
        products_KD = compute_cross_products(self._fetch_vectors, directions, self._width, self._threads)
        return 1 - products_KD / self.norms_K[:, None]

    @cached_property
    def _fetch_vectors(self) -> list[Vector]:
        """All updates of the view, read-only; fetched once."""
        return make_read_only(self._source.fetch(self.clients))

    def _load_products(self, statistic: str, compute: Callable[[], Products]) -> Products:
        """Load inner products from the source's cache; compute them on a miss."""
        arrays = self._load_statistic_of_view(statistic, lambda: compute().to_arrays())
        return Products(arrays["differences_KK"], arrays["cross_K"], float(arrays["common"]))

    def _load_statistic_of_view(self, statistic: str, compute: Callable[[], Arrays]) -> Arrays:
        """Load a statistic of all updates in this view from the source's cache; compute it on a miss."""
        # Runs that compare the whole state share rounds with runs that compare the parameters.
        seen = "parameters" if self._width == self.layout.num_parameters else "state"
        return self._load_statistic(f"{statistic}-{seen}", compute)

    def _load_statistic(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """Load a statistic by its name and the view's clients; compute it on a miss."""
        (arrays,) = self._source.cached(
            {build_statistic_name(name, self.clients): self.clients}, lambda _: [compute()]
        )
        make_read_only(arrays.values())
        return arrays

"""Clusterers: from a matrix of cosine distances to labels, one small class each.

A clusterer is a frozen settings model with a `name` and `fit`; any method of scikit-learn fits in. The
authors' code called two of the published ones wrongly; those stand next to the right ones as
`...-as-published` (docs/as-published.md). scikit-learn takes seconds to import, so it is imported in the
functions.

Shapes: K clients that are clustered.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, PositiveInt, SerializeAsAny

from fedgrid.algorithms.contract.section import Section, build_name_validator
from fedgrid.algorithms.updates.source import Rng

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Labels
    from fedgrid.algorithms.updates.source import Matrix


NOISE = -1
"""Label of a client that a clusterer puts into no cluster."""
Share = Annotated[float, Field(gt=0, le=1)]


class Clusterer(Section, ABC):
    """Settings of a clustering method with a `name`, and the method.

    A plugin lists subclasses in `CLUSTERERS`. `Ocfl` and the algorithms that derive from it take any, as in
    `OcflSettings(clusterer=...)`; the settings are keys of the run under `algorithm.clusterer`.

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> from typing import Literal
        >>> import fedgrid
        >>> import numpy as np
        >>> class Halves(fedgrid.Clusterer):
        ...     '''Two clusters: clients near the first one, and the others.'''
        ...     name: str = "halves"
        ...     radius: float = 0.5
        ...     def fit(self, distances_KK, rng):
        ...         return (distances_KK[0] > self.radius).astype(np.int64)
        >>> distances_KK = np.array([[0, 0.1, 1], [0.1, 0, 1], [1, 1, 0]])
        >>> Halves().fit(distances_KK, np.random.default_rng(0)).tolist()
        [0, 0, 1]
    """

    name: str
    """The value of `clusterer.name`; a subclass gives it a default, best with a `Literal` type."""

    @abstractmethod
    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster clients by their distances.

        Called on the server by an algorithm, in the rounds in which it clusters. What is returned is checked:
        an integer for each client.

        Args:
            distances_KK: cosine distances of K >= 1 clients: symmetric, in [0, 2], zero on the diagonal; only
                read.
            rng: seeded by the run and the round; pass a number drawn from it to scikit-learn as
                `random_state`.

        Returns:
            A label for each client, int64, shape (K,); -1 for noise, all -1 if no clustering was found.
        """


class KMeans(Clusterer):
    """k-means on the rows of the distance matrix, as in the paper; never more clusters than distinct rows."""

    name: Literal["kmeans"] = "kmeans"
    num_clusters: PositiveInt = 3
    """Number of clusters."""

    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster by the best of ten k-means++ starts."""
        from sklearn import cluster

        num_clusters = min(self.num_clusters, len(np.unique(distances_KK, axis=0)))
        method = cluster.KMeans(num_clusters, n_init=10, random_state=_draw_seed(rng))
        return _read_labels(method.fit(distances_KK))


class AffinityPropagation(Clusterer):
    """Affinity propagation (Frey and Dueck 2007) on the similarities 1 - d.

    The preference is the median similarity of two different clients. If the messages do not settle,
    they are damped more and get more time; if they never do, there is no clustering.
    """

    name: Literal["affinity"] = "affinity"
    damping: Annotated[float, Field(ge=0.5, lt=1)] = 0.5
    """Share of its last value that each message retains; more converges slower and oscillates less."""

    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster with the first damping that converges; one cluster if all distances are equal."""
        from sklearn import cluster
        from sklearn.exceptions import ConvergenceWarning

        pairs = ~np.eye(len(distances_KK), dtype=bool)
        similarities_KK = 1 - distances_KK
        if len(distances_KK) < 2 or np.ptp(similarities_KK[pairs]) == 0:
            return np.zeros(len(distances_KK), np.int64)
        # More damping settles oscillations, at the price of more iterations; 200 is scikit-learn's default.
        attempts = [(self.damping, 200), *((more, 1000) for more in (0.75, 0.9, 0.97) if more > self.damping)]
        for damping, iterations in attempts:
            method = cluster.AffinityPropagation(
                damping=damping,
                max_iter=iterations,
                preference=np.median(similarities_KK[pairs]),
                affinity="precomputed",
                random_state=_draw_seed(rng),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                labels_K = _read_labels(method.fit(similarities_KK))
            # It also stops after the last iteration, so only fewer of them mean convergence.
            if method.n_iter_ < iterations:
                return labels_K
        return np.full(len(distances_KK), NOISE)


class MeanShift(Clusterer):
    """Mean-shift on the rows of the distance matrix, with scikit-learn's estimate of the bandwidth.

    It may split a true group.
    """

    name: Literal["meanshift"] = "meanshift"

    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster by the modes; rows that are identical are one mode each where the bandwidth is 0."""
        from sklearn import cluster

        # The estimate averages distances to the farthest of 30 % of the rows, a row itself being the first:
        # with six clients or fewer that is no other client, and each would be a mode of its own.
        quantile = min(1.0, max(0.3, 2 / len(distances_KK)))
        bandwidth = cluster.estimate_bandwidth(distances_KK, quantile=quantile)
        if bandwidth == 0:
            return np.unique(distances_KK, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        # Where all neighbours are equally far the average may round to just below that distance.
        return _read_labels(cluster.MeanShift(bandwidth=bandwidth * (1 + 1e-9)).fit(distances_KK))


class HDBSCAN(Clusterer):
    """HDBSCAN of the `hdbscan` package on the distances; finds noise, and possibly nothing else."""

    name: Literal["hdbscan"] = "hdbscan"
    min_cluster_share: Share = 0.2
    """Smallest cluster, as a share of the clients (at least two of them)."""

    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster by the branches of the condensed tree that last longest."""
        import hdbscan

        # Of identical clients the package makes noise.
        if not distances_KK.any():
            return np.zeros(len(distances_KK), np.int64)
        min_size = compute_min_cluster_size(self.min_cluster_share, len(distances_KK))
        # The package does not count a client as its own neighbour: with more `min_samples` the core of a
        # cluster of the smallest size would reach beyond it, and it would be noise.
        method = hdbscan.HDBSCAN(min_cluster_size=min_size, min_samples=min_size - 1, metric="precomputed")
        return _read_labels(method.fit(distances_KK))


class AffinityAsPublished(Clusterer):
    """Affinity propagation on distances where it expects similarities: unlike clients attract.

    With scikit-learn's defaults, converged or not; without convergence there is one cluster and the shot is
    gone. In 34 of the 38 archived runs that split, true clusters trade members: ARI 0.235 for clear groups of
    5, 5 and 5, where similarities give 1.0.
    """

    name: Literal["affinity-as-published"] = "affinity-as-published"

    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster with scikit-learn's defaults, converged or not."""
        from sklearn import cluster

        method = cluster.AffinityPropagation(affinity="precomputed", random_state=_draw_seed(rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _read_labels(method.fit(distances_KK))


class HDBSCANAsPublished(Clusterer):
    """scikit-learn's HDBSCAN with its defaults; noise is one residual cluster.

    If all is noise, there is one cluster and the shot is gone: so in 6 of 8 scenarios of CIFAR-10, where the
    compared vector is the whole state.
    """

    name: Literal["hdbscan-as-published"] = "hdbscan-as-published"
    min_cluster_share: Share = 0.2
    """Smallest cluster, as a share of the clients (at least two of them)."""

    def fit(self, distances_KK: Matrix, rng: Rng) -> Labels:
        """Cluster with scikit-learn's defaults at this smallest size."""
        from sklearn import cluster

        min_size = compute_min_cluster_size(self.min_cluster_share, len(distances_KK))
        # scikit-learn raises an error there.
        if len(distances_KK) < min_size:
            return np.full(len(distances_KK), NOISE)
        method = cluster.HDBSCAN(min_cluster_size=min_size, metric="precomputed", copy=True)
        return _read_labels(method.fit(distances_KK))


CLUSTERERS: dict[str, type[Clusterer]] = {
    "kmeans": KMeans,
    "affinity": AffinityPropagation,
    "meanshift": MeanShift,
    "hdbscan": HDBSCAN,
    "affinity-as-published": AffinityAsPublished,
    "hdbscan-as-published": HDBSCANAsPublished,
}
"""Name -> class: those of the package, then those of the plugins in use."""


AnyClusterer = Annotated[SerializeAsAny[Clusterer], build_name_validator("clusterer", CLUSTERERS)]
"""The type of a settings field that holds any clusterer and survives JSON."""


def compute_min_cluster_size(share: float, num_clients: int) -> int:
    """Round `share` of `num_clients` up, at least to 2; 0.2 of 35 is 7, in spite of binary fractions."""
    return max(2, ceil(round(share * num_clients, 9)))


def cut_agglomerative(distances_KK: Matrix, linkage: str, threshold: float) -> Labels:
    """Cluster agglomeratively: the clusters whose merges are all below `threshold`, from 1, shape (K,)."""
    # Imports scipy's hierarchies, which take a while; algorithms are listed without them.
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    if len(distances_KK) == 1:
        return np.ones(1, np.int64)
    tree = hierarchy.linkage(squareform(distances_KK, checks=False), linkage)
    # scipy merges up to and including a height, scikit-learn and the papers below it.
    below = np.nextafter(threshold, -np.inf)
    return np.asarray(hierarchy.fcluster(tree, below, criterion="distance"), np.int64)


def group_by_labels(
    labels: Labels, distances_KK: Matrix, noise: Literal["nearest", "residual"]
) -> list[list[int]]:
    """Group positions by label, ascending; groups are ordered by their first member.

    Noise (-1) goes to the cluster with the least mean distance to its members that are not noise (ties go to
    the first), or forms one residual cluster. If all are noise, they are one cluster in either case.
    """
    groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    groups.sort(key=lambda group: group[0])
    stray = np.flatnonzero(np.asarray(labels) == NOISE)
    if noise == "residual" or len(stray) in (0, len(labels)):
        return groups
    groups.remove(stray.tolist())
    # Distances to the clusters as they were found: noise that has joined one does not attract more of it.
    means_CK = np.stack([distances_KK[group].mean(axis=0) for group in groups])
    for position, nearest in zip(stray, means_CK[:, stray].argmin(axis=0), strict=True):
        groups[nearest].append(int(position))
    return sorted((sorted(group) for group in groups), key=lambda group: group[0])


def _read_labels(method: Any) -> Labels:
    """Read the labels of a fitted method of scikit-learn."""
    return np.asarray(method.labels_, np.int64)


def _draw_seed(rng: Rng) -> int:
    """Draw a seed for scikit-learn."""
    return int(rng.integers(2**31))

"""Ward's tree of vectors, and where to cut it: by the Calinski-Harabasz index, a threshold or a number.

Source: Prigent et al. 2024, section III-C, Algorithm 2: Bayesian optimisation of the threshold by the index
(Calinski and Harabasz 1974). Only the n - 1 merge heights matter, so `find_best_index` looks at all of them.
A merge at height h adds h^2 / 2 to the squared distances within clusters, so that the index of every cut
follows from the heights alone. Algorithm 2 as printed, and the release, maximise the *negative* index
(`search_threshold` with `reversed_sign`): of the cuts that they accept they prefer the worst.
Deviation: Optuna's Gaussian process maximises the expected improvement, not an upper confidence bound.

Shapes: N vectors of D entries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import Labels

RANDOM_POINTS, MODEL_POINTS = 30, 5
"""Numbers of thresholds that the release tries: at random, then by the optimisation."""
PUBLISHED_BOUNDS = (1.0, 100.0)
"""Range of the thresholds in the release."""
PENALTY = -500.0
"""Score of a cut that the release does not accept."""

GREATEST = 1e6
"""Value that stands for an infinite index in the optimisation: clusters of equal vectors."""


@dataclass(frozen=True)
class Cut:
    """A partition of N vectors, and how good it is."""

    labels_N: Labels
    """Cluster of each vector, from 0, int64, shape (N,)."""
    index: float
    """Calinski-Harabasz index; NaN for one cluster and for N."""


@dataclass(frozen=True)
class CutLimits:
    """Limits of the cuts that are accepted."""

    least_clusters: int = 2
    """Least number of clusters."""
    least_members: int = 1
    """Least number of members of each cluster."""


class WardTree:
    """Ward's tree of N vectors, at least one."""

    def __init__(self, vectors_ND: NDArray[Any]) -> None:
        # Imports scipy's hierarchies, which take a while; algorithms are listed without them.
        from scipy.cluster import hierarchy

        vectors_ND = np.asarray(vectors_ND, np.float64)
        self._num = len(vectors_ND)
        self._merges = hierarchy.linkage(vectors_ND, "ward") if self._num > 1 else np.empty((0, 4))
        self.heights = self._merges[:, 2]
        """Heights of the N - 1 merges, ascending."""
        # A merge of Ward's tree at height h adds h^2 / 2 to the squares within clusters.
        self._within = np.concatenate([[0.0], np.cumsum(self.heights**2) / 2])
        """Squares within clusters after 0, 1, ... merges."""

    def cut_below(self, threshold: float) -> Cut:
        """Cut below a height: the clusters whose merges are all below it."""
        from scipy.cluster import hierarchy

        num_merges = int(np.searchsorted(self.heights, threshold, side="left"))
        if num_merges == len(self.heights):
            return Cut(np.zeros(self._num, np.int64), np.nan)
        # scipy merges up to and including a height.
        limit = np.nextafter(threshold, -np.inf)
        labels = hierarchy.fcluster(self._merges, limit, criterion="distance")
        return Cut(np.asarray(labels, np.int64) - 1, self.compute_index(num_merges))

    def cut_into(self, count: int) -> Labels:
        """Cut into this many clusters: labels, shape (N,).

        There are fewer clusters if fewer vectors differ, or if merges tie.
        """
        from scipy.cluster import hierarchy

        # Equal vectors merge at height 0; no cut parts them.
        different = 1 + np.count_nonzero(self.heights)
        if different == 1:
            return np.zeros(self._num, np.int64)
        labels = hierarchy.fcluster(self._merges, min(count, different), criterion="maxclust")
        return np.asarray(labels, np.int64) - 1

    def compute_index(self, num_merges: int) -> float:
        """Compute the Calinski-Harabasz index after this many merges.

        Infinite if nothing differs within clusters.

        NaN for one cluster and for N clusters.
        """
        count = self._num - num_merges
        if not 1 < count < self._num:
            return np.nan
        within = self._within[num_merges]
        between = self._within[-1] - within
        return float(between * (self._num - count) / (within * (count - 1))) if within else np.inf

    def list_cuts(self) -> list[int]:
        """List the numbers of merges at which a threshold can cut, without one cluster and N of them."""
        steps = np.flatnonzero(np.diff(self.heights) > 0) + 1
        return [int(step) for step in steps if 1 < self._num - step < self._num]

    def find_best_index(self, guards: CutLimits) -> Cut:
        """Find the cut with the greatest index; of equal ones the one with fewest clusters.

        If the guards accept none, the least number of members does not count; one cluster if there is none.
        """
        # More merges are fewer clusters, so ties go to the larger step.
        return self._take_first_accepted(
            sorted(self.list_cuts(), key=lambda step: (-self.compute_index(step), -step)), guards
        )

    def find_widest_gap(self, guards: CutLimits) -> Cut:
        """Find the cut before the merge that is the most times higher than the one below it.

        Guards as of `find_best_index`, and at most half as many clusters as vectors. Ours: flips raise the
        merges within groups to about one height, sqrt(2 D p (1 - p)), above which those between groups stand
        out; the index prefers fewer clusters the more bits are flipped.
        """
        steps = [step for step in self.list_cuts() if self._num - step <= self._num / 2]
        least = np.finfo(np.float64).tiny

        def times_higher(step: int) -> float:
            # As a difference of logarithms: a quotient by the least number would overflow.
            return float(np.log(self.heights[step]) - np.log(max(self.heights[step - 1], least)))

        return self._take_first_accepted(sorted(steps, key=lambda step: (-times_higher(step), -step)), guards)

    def _take_first_accepted(self, ranked: list[int], guards: CutLimits) -> Cut:
        """Take the first of the ranked cuts that the guards accept."""
        # The second pass gives up the least number of members: a small cluster is better than none.
        for least_members in (guards.least_members, 1):
            for step in ranked:
                if self._num - step >= guards.least_clusters:
                    cut = self.cut_below(float(self.heights[step]))
                    if np.bincount(cut.labels_N).min() >= least_members:
                        return cut
        return self.cut_below(np.inf)

    def search_threshold(self, guards: CutLimits, seed: int, *, reversed_sign: bool = False) -> Cut:
        """Search for the threshold with the greatest index by Optuna's Gaussian process, and cut there.

        Cuts that the guards do not accept have the release's penalty.

        Args:
            guards: limits of a cut that is accepted.
            seed: seeds the sampler.
            reversed_sign: whether the score is the negative index, within the release's bounds; otherwise
                thresholds are between 0 and the last merge.
        """
        cuts_by_threshold: dict[float, Cut] = {}

        # Cuts are stored by threshold, because the best one is returned at the end.
        def score_threshold(threshold: float) -> float:
            cut = cuts_by_threshold.setdefault(threshold, self.cut_below(threshold))
            sizes = np.bincount(cut.labels_N)
            accepted = (
                len(sizes) >= max(2, guards.least_clusters) and sizes.min() >= guards.least_members
            ) and not np.isnan(cut.index)
            index = min(cut.index, GREATEST)
            return (-index if reversed_sign else index) if accepted else PENALTY

        if self._num < 3:
            return self.cut_below(np.inf)
        bounds = PUBLISHED_BOUNDS if reversed_sign else (0.0, float(self.heights[-1]))
        best = _optimise_threshold(score_threshold, bounds, seed)
        # The release takes the cut in any case.
        if score_threshold(best) == PENALTY and not reversed_sign:
            return self.cut_below(np.inf)
        return cuts_by_threshold[best]


def _optimise_threshold(score: Callable[[float], float], bounds: tuple[float, float], seed: int) -> float:
    """Find the threshold with the greatest score."""
    # Imported here because it takes a second that no other algorithm needs.
    import warnings

    import optuna

    if bounds[0] >= bounds[1]:
        return bounds[1]
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.GPSampler(
                seed=seed, n_startup_trials=RANDOM_POINTS, deterministic_objective=True
            )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.optimize(
            lambda trial: score(trial.suggest_float("threshold", *bounds)), RANDOM_POINTS + MODEL_POINTS
        )
    finally:
        optuna.logging.set_verbosity(verbosity)
    return float(study.best_params["threshold"])

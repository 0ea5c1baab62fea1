"""Scores of partitions: the right conventions, and the published ones under their own names.

Source: Tables 1 and 2 of the OCFL journal paper, as its notebooks compute them. What is named
`published_...` keeps their conventions (first 50 rounds, homogeneity under the name COM); everything else
is what the name says. Labels are integers or strings. Shapes: R rounds, K clients.
"""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking.records import Array

PUBLISHED_ROUNDS = 50
"""The published means stop here, also for the runs of 75 and 80 rounds."""


@dataclass(frozen=True)
class Group:
    """Scores that belong together."""

    def as_dict(self) -> dict[str, float | int | bool | None]:
        """Return name -> value, groups within groups laid flat, NaN (not measured) and infinity as None."""
        flat: dict[str, float | int | bool | None] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Group):
                flat |= value.as_dict()
            else:
                flat[field.name] = None if isinstance(value, float) and not np.isfinite(value) else value
        return flat


@dataclass(frozen=True)
class PartitionScores(Group):
    """One partition against the hidden groups; 1 is perfect."""

    clusters: int
    ari: float
    """Adjusted Rand index."""
    ami: float
    """Adjusted mutual information."""
    homogeneity: float
    """1 if no cluster mixes groups (singletons: 1)."""
    completeness: float
    """1 if no group is torn apart (one cluster: 1)."""


@dataclass(frozen=True)
class ClusteringScores(Group):
    """How a run clustered: its last partition, and means over all of its rounds."""

    final: PartitionScores
    mean_ari: float
    mean_ami: float
    mean_homogeneity: float
    mean_completeness: float
    clustering_round: int | None
    """First round, from 1, in which a partition was decided, even one that changes nothing."""
    last_change_round: int | None
    """Last round in which the partition (not its labels) changed."""
    exactly_right: bool
    """Whether the last partition is the hidden one."""


@dataclass(frozen=True)
class PublishedClustering(Group):
    """A row of the published Tables 1 and 2."""

    published_rand: float
    """Mean ARI of the first 50 rounds."""
    published_ami: float
    published_com: float
    """Called completeness, but with the arguments exchanged: mean homogeneity of the first 50 rounds."""
    published_round: int
    """Round, from 1, in which the last labels first hold; 1 if they never changed. A renaming counts."""


def of_partition(labels_K: ArrayLike, truth_K: ArrayLike) -> PartitionScores:
    """Score one partition."""
    groups_K, true_groups_K = (_by_first_member(np.asarray(labels)) for labels in (labels_K, truth_K))
    return _scored(tuple(groups_K.tolist()), tuple(true_groups_K.tolist()))


@lru_cache(maxsize=256)
def _scored(groups_K: tuple[int, ...], truth_K: tuple[int, ...]) -> PartitionScores:
    """Score one partition, once: most rounds have the partition of the round before."""
    # scikit-learn takes a second to import, which whoever only shows scores is spared.
    from sklearn.metrics import (
        adjusted_mutual_info_score,
        adjusted_rand_score,
        completeness_score,
        homogeneity_score,
    )

    return PartitionScores(
        clusters=len(set(groups_K)),
        ari=float(adjusted_rand_score(truth_K, groups_K)),
        ami=float(adjusted_mutual_info_score(truth_K, groups_K)),
        homogeneity=float(homogeneity_score(truth_K, groups_K)),
        completeness=float(completeness_score(truth_K, groups_K)),
    )


def of_partitions(labels_RK: ArrayLike, truth_K: ArrayLike) -> list[PartitionScores]:
    """Score each round's partition; one that is that of the round before is not looked at again."""
    labels_RK = np.asarray(labels_RK)
    is_new_R = np.append(True, (labels_RK[1:] != labels_RK[:-1]).any(axis=1))
    scored = [of_partition(row_K, truth_K) for row_K in labels_RK[is_new_R]]
    return [scored[place] for place in np.cumsum(is_new_R) - 1]


def clustering(
    labels_RK: ArrayLike, truth_K: ArrayLike, clustered_R: ArrayLike | None = None
) -> ClusteringScores:
    """Score a run's partitions by the right conventions.

    `clustered_R` says in which rounds a partition was decided; without it, those in which the labels
    changed. Before the first round all clients are in one cluster.
    """
    labels_RK = np.asarray(labels_RK)
    parts = of_partitions(labels_RK, truth_K)
    groups_RK = np.stack([_by_first_member(row_K) for row_K in labels_RK])
    return ClusteringScores(
        final=parts[-1],
        mean_ari=_mean([part.ari for part in parts]),
        mean_ami=_mean([part.ami for part in parts]),
        mean_homogeneity=_mean([part.homogeneity for part in parts]),
        mean_completeness=_mean([part.completeness for part in parts]),
        clustering_round=clustering_round(labels_RK, clustered_R),
        last_change_round=max(_rounds(_changes(groups_RK)), default=None),
        exactly_right=np.array_equal(groups_RK[-1], _by_first_member(np.asarray(truth_K))),
    )


def clustering_round(labels_RK: ArrayLike, clustered_R: ArrayLike | None = None) -> int | None:
    """Return the first round, from 1, in which a partition was decided; arguments as in `clustering`."""
    decided_R = _changes(np.asarray(labels_RK))
    if clustered_R is not None:
        decided_R = decided_R | np.asarray(clustered_R, bool)
    return min(_rounds(decided_R), default=None)


def published_clustering(
    labels_RK: ArrayLike, truth_K: ArrayLike, *, ami_is_ari: bool = False
) -> PublishedClustering:
    """Score a run's partitions as Tables 1 and 2 did; `ami_is_ari` for the row of OCFL-HDB."""
    parts = of_partitions(labels_RK, truth_K)[:PUBLISHED_ROUNDS]
    rand = _mean([part.ari for part in parts])
    return PublishedClustering(
        published_rand=rand,
        published_ami=rand if ami_is_ari else _mean([part.ami for part in parts]),
        published_com=_mean([part.homogeneity for part in parts]),
        published_round=max(_rounds(_changes(np.asarray(labels_RK))), default=1),
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _by_first_member(labels_K: Array) -> Array:
    """Number the clusters in the order of their first client, so that names play no part."""
    _, first, inverse_K = np.unique(labels_K, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse_K])


def _changes(labels_RK: Array) -> Array:
    """Return, shape (R,), whether a row differs from the one before; before the first, all are alike."""
    before_RK = np.concatenate([np.broadcast_to(labels_RK[:1, :1], labels_RK[:1].shape), labels_RK[:-1]])
    return np.asarray((labels_RK != before_RK).any(axis=1))


def _rounds(flags_R: Array) -> list[int]:
    return [int(index) + 1 for index in np.flatnonzero(flags_R)]

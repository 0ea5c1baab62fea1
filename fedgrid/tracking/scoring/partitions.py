"""Scores of partitions in the right conventions, and in the published ones under names of their own.

Scores named `published_...` follow Tables 1 and 2 of the OCFL journal paper as its notebooks compute them
(first 50 rounds, homogeneity under the name COM); all others are what their names say. Labels are integers or
strings. Shapes: R rounds, K clients.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import nan

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking.arrays import Array, Score, compute_scores

AMI_IS_RAND = "OCFL-HDB"
"""The row of the published tables whose AMI is a copy of its RAND."""
PUBLISHED_ROUNDS = 50
"""The published means are over these rounds, also for runs of 75 and 80 rounds."""

Labels = tuple[int, ...]


def _compare_with_truth(name: str) -> Callable[[Labels, Labels], float]:
    """Build a function of (hidden groups, clusters) that computes a score of scikit-learn's.

    It is NaN if all clients are in one group: then there is nothing to find.
    """

    def compute_score(truth_K: Labels, groups_K: Labels) -> float:
        """Compute the score, NaN for a single hidden group."""
        # scikit-learn gives such a partition a score of 1 or 0, as if there were groups to find.
        if len(set(truth_K)) == 1:
            return nan
        # Importing scikit-learn takes a second; commands that only show stored scores do without it.
        from sklearn import metrics

        return float(getattr(metrics, name)(truth_K, groups_K))

    return compute_score


PARTITION = (
    Score(
        "clusters",
        "Number of clusters.",
        lambda truth, groups: len(set(groups)),
        "clustering",
        None,
        "clus-\nters",
    ),
    Score(
        "smallest_cluster",
        "Number of clients in the smallest cluster.",
        lambda truth, groups: min(Counter(groups).values()),
        "clustering",
        None,
    ),
    Score(
        "clients_alone",
        "Number of clients whose cluster has no other client.",
        lambda truth, groups: list(Counter(groups).values()).count(1),
        "clustering",
        None,
    ),
    Score(
        "ari",
        "Adjusted Rand index of the partition and the hidden groups.",
        _compare_with_truth("adjusted_rand_score"),
        "clustering",
        heading="ARI",
    ),
    Score(
        "ami",
        "Adjusted mutual information of the partition and the hidden groups.",
        _compare_with_truth("adjusted_mutual_info_score"),
        "clustering",
        heading="AMI",
    ),
    Score(
        "homogeneity",
        "1 if no cluster mixes hidden groups, as when every client is alone.",
        _compare_with_truth("homogeneity_score"),
        "clustering",
        heading="homo-\ngen.",
    ),
    Score(
        "completeness",
        "1 if no hidden group is split, as when all clients are in one cluster.",
        _compare_with_truth("completeness_score"),
        "clustering",
        heading="com-\nplete",
    ),
)
"""Scores of one partition, computed from (truth_K, groups_K).

Of those against the hidden groups 1 is perfect; they are NaN if the split has no groups, as dirichlet."""


CLUSTERING_SCORES = {
    "clustering_round": "First round, from 1, in which the algorithm decided on a partition.",
    "last_change_round": "Last round in which the partition changed; renamed clusters are no change.",
    "exactly_right": "Whether the last partition equals the hidden groups; none if there is only one group.",
}
"""The scores of `score_clustering`, and what they mean."""


@dataclass(frozen=True)
class PublishedClustering:
    """Scores of a row of the published Tables 1 and 2."""

    published_rand: float
    """Mean ARI of the first 50 rounds."""
    published_ami: float
    published_com: float
    """Mean homogeneity of the first 50 rounds: called completeness, but computed with the arguments
    exchanged."""
    published_round: int
    """Round, from 1, of the last change of labels, even if clusters were only renamed; 1 if there was
    none."""


def score_partition(labels_K: ArrayLike, truth_K: ArrayLike) -> Mapping[str, float]:
    """Score one partition against the hidden groups, both of shape (K,)."""
    # Renumbered, so that two namings of one partition share a cache entry.
    groups_K, true_groups_K = (_number_by_first_member(np.asarray(labels)) for labels in (labels_K, truth_K))
    return _compute_cached_scores(tuple(groups_K.tolist()), tuple(true_groups_K.tolist()))


@lru_cache(maxsize=256)
def _compute_cached_scores(groups_K: Labels, truth_K: Labels) -> Mapping[str, float]:
    """Score one partition; cached, since most rounds keep the partition of the round before."""
    return compute_scores(PARTITION, truth_K, groups_K)


def score_partitions(labels_RK: ArrayLike, truth: ArrayLike) -> list[Mapping[str, float]]:
    """Score each round's partition; one that equals that of the round before is not scored again.

    `truth` are the hidden groups, shape (K,), or (R, K) if clients' data move from one to another.
    """
    labels_RK = np.asarray(labels_RK)
    truth_RK = np.broadcast_to(np.asarray(truth), labels_RK.shape)
    same_RK = (labels_RK[1:] == labels_RK[:-1]) & (truth_RK[1:] == truth_RK[:-1])
    # Scoring a partition takes milliseconds, and most of a thousand rounds repeat the one before.
    is_new_R = np.append(True, ~same_RK.all(axis=1))
    scored = [score_partition(*rows) for rows in zip(labels_RK[is_new_R], truth_RK[is_new_R], strict=True)]
    return [scored[place] for place in np.cumsum(is_new_R) - 1]


def score_clustering(
    labels_RK: ArrayLike, truth: ArrayLike, clustered_R: ArrayLike | None = None
) -> dict[str, int | bool | None]:
    """Find the rounds in which a run has found its partition, and whether this is right.

    `clustering_round` is the first round, from 1, in which the algorithm decided on a partition, even an
    unchanged one; `last_change_round` the last one in which it changed, renamed clusters being no change.
    `exactly_right` is whether the last partition equals the hidden groups, None if there is but one: nothing
    to find. Before the first round all clients are in one cluster.

    Args:
        labels_RK: cluster of each client in each round.
        truth: hidden groups, as in `score_partitions`.
        clustered_R: whether the algorithm decided on a partition in a round; None (default) takes the rounds
            in which the labels changed.
    """
    labels_RK = np.asarray(labels_RK)
    last_truth_K = np.broadcast_to(np.asarray(truth), labels_RK.shape)[-1]
    groups_RK = np.stack([_number_by_first_member(row_K) for row_K in labels_RK])
    is_right = np.array_equal(groups_RK[-1], _number_by_first_member(last_truth_K))
    return {
        "clustering_round": find_clustering_round(labels_RK, clustered_R),
        "last_change_round": max(_list_rounds(_find_changes(groups_RK)), default=None),
        "exactly_right": is_right if len(np.unique(last_truth_K)) > 1 else None,
    }


def find_clustering_round(labels_RK: ArrayLike, clustered_R: ArrayLike | None = None) -> int | None:
    """Find the first round, from 1, with a decision on the partition; arguments as in `score_clustering`."""
    decided_R = _find_changes(np.asarray(labels_RK))
    if clustered_R is not None:
        decided_R = decided_R | np.asarray(clustered_R, bool)
    return min(_list_rounds(decided_R), default=None)


def score_published_clustering(
    labels_RK: ArrayLike, truth: ArrayLike, row: str | None = None
) -> PublishedClustering:
    """Score a run's partitions as Tables 1 and 2 did; `row` is the name of its algorithm there."""
    # As in the notebooks: longer runs count by their first rounds only.
    parts = score_partitions(labels_RK, truth)[:PUBLISHED_ROUNDS]
    rand, ami, com = (
        float(np.mean([part[name] for part in parts])) for name in ("ari", "ami", "homogeneity")
    )
    return PublishedClustering(
        # The adjusted index, although the papers' tables call it RAND.
        published_rand=rand,
        published_ami=rand if row == AMI_IS_RAND else ami,
        published_com=com,
        published_round=max(_list_rounds(_find_changes(np.asarray(labels_RK))), default=1),
    )


def _number_by_first_member(labels_K: Array) -> Array:
    """Number the clusters in the order of their first client.

    Partitions can then be compared whatever their labels.
    """
    _, first, inverse_K = np.unique(labels_K, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse_K])


def _find_changes(labels_RK: Array) -> Array:
    """Check for each round whether its labels differ from the round before, shape (R,).

    Before the first round all labels are equal.
    """
    before_RK = np.concatenate([np.broadcast_to(labels_RK[:1, :1], labels_RK[:1].shape), labels_RK[:-1]])
    return np.asarray((labels_RK != before_RK).any(axis=1))


def _list_rounds(flags_R: Array) -> list[int]:
    """List the numbers, from 1, of the rounds with a flag."""
    return [int(index) + 1 for index in np.flatnonzero(flags_R)]

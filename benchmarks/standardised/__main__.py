"""Are groups found more often when the entries of updates are standardised?

    OMP_NUM_THREADS=1 python -m benchmarks.standardised FOLDER --seeds 500..507

Trains what the folder lacks, then prints a row a family (`benchmarks.standardised.families`): the federations
in which exactly the hidden groups are found, or, in a family without groups, those that are cut up. `told`:
k-means, told the number of groups, on the distances of three rounds. `own number`: the number is found, and
groups are clusters from the first round on in which they are those of the round before and evident
(`benchmarks.unequal.evidence`). OCFL-KM is told the number. Last: federations in which `own number,
standardised` is right and OCFL-KM is not, and the reverse, with the p of the exact paired test.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from benchmarks.group_shared_prefixes import decisions
from benchmarks.groups import same
from benchmarks.standardised.families import DEVELOPMENT
from benchmarks.standardised.stored import KINDS, Rounds, rounds_of
from benchmarks.unequal.evidence import score
from benchmarks.unequal.rules import (
    Labels,
    Matrix,
    cut,
    cuts,
    fitted,
    silhouette,
    tree_of,
    vectors_of,
)
from fedgrid.algorithms.clustering import ward

POOLED, TRAINED = 3, 15
"""Rounds that `told` sees, and rounds that are trained."""
NEAR = 0.75
"""The number of the largest fall counts if it is larger and its silhouette this share of the largest."""
DRAWS = 60
OCFL, OURS = "OCFL-KM, told", "own number, standardised"
LEAST_SCORE: Mapping[str, float] = {"as they are": 4.0, "standardised": 6.0}
LEAST_SILHOUETTE: Mapping[str, float] = {"as they are": 0.3, "standardised": 0.0}
"""Best on these seeds for each kind of distances."""


def pooled(rounds: Rounds, kind: str, count: int) -> Matrix:
    """Return the cosines, mean over the first rounds."""
    return np.asarray(1.0 - rounds.distances_RKK[kind][:count].mean(axis=0))


def told(rounds: Rounds, kind: str) -> Labels:
    """Return the groups of k-means, from Ward's and random starts, at the true number."""
    cosines_KK = pooled(rounds, kind, POOLED)
    return fitted(vectors_of(cosines_KK), cut(tree_of(cosines_KK), len(set(rounds.truth_K.tolist()))))


def found(cosines_KK: Matrix) -> Labels:
    """Return groups at a number that is found: the largest silhouette of Ward's tree, or its largest fall."""
    tree = tree_of(cosines_KK)
    by_number = {int(labels_K.max()) + 1: labels_K for labels_K in cuts(tree)}
    scores = {number: silhouette(cosines_KK, labels_K) for number, labels_K in by_number.items()}
    best = max(scores, key=lambda number: scores[number])
    fall = ward.number_of_groups(tree[::-1, 2] ** 2 / 2.0)
    more = fall > best and scores.get(fall, -1.0) > NEAR * scores[best]
    return fitted(vectors_of(cosines_KK), by_number[fall if more else best])


def is_evident(cosines_KK: Matrix, labels_K: Labels, kind: str, count: int) -> bool:
    """Return whether groups have the silhouette and the score that this kind of distances asks for."""
    return silhouette(cosines_KK, labels_K) > LEAST_SILHOUETTE[kind] and (
        score(cosines_KK, labels_K, np.random.default_rng(count), DRAWS) > LEAST_SCORE[kind]
    )


def decided(rounds: Rounds, kind: str) -> Labels:
    """Return the clusters after all rounds; all 0 if no groups were evident."""
    before = found(pooled(rounds, kind, 1))
    for count in range(2, TRAINED + 1):
        cosines_KK = pooled(rounds, kind, count)
        now = found(cosines_KK)
        if same(before, now) and is_evident(cosines_KK, now, kind, count):
            return now
        before = now
    return np.zeros_like(before)


def told_ocfl(rounds: Rounds) -> Labels:
    """Return the clusters of OCFL with k-means, told the true number, after all rounds."""
    settings = {"clusterer": {"num_clusters": len(set(rounds.truth_K.tolist()))}}
    return list(decisions(rounds.prefix, "ocfl-kmeans", settings))[-1][1]


METHODS: Mapping[str, Callable[[Rounds], Labels]] = {
    **{f"told, {kind}": lambda rounds, kind=kind: told(rounds, kind) for kind in KINDS},
    OCFL: told_ocfl,
    **{f"own number, {kind}": lambda rounds, kind=kind: decided(rounds, kind) for kind in KINDS},
}


def count(family: str, given: Mapping[str, Any], folder: Path, data_dir: Path) -> dict[str, int]:
    """Return 1 for each method that is right in a federation; without groups, that cuts it up."""
    rounds = rounds_of(given, TRAINED, folder, data_dir)
    if family.startswith("none"):
        own = {name: method for name, method in METHODS.items() if name.startswith("own")}
        return {name: int(method(rounds).any()) for name, method in own.items()}
    return {name: int(same(method(rounds), rounds.truth_K)) for name, method in METHODS.items()}


def paired(counts: Sequence[Mapping[str, int]], ours: str, other: str) -> str:
    """Return in how many federations one method alone is right, and the p of the sign test."""
    better = sum(each[ours] > each[other] for each in counts)
    worse = sum(each[ours] < each[other] for each in counts)
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    return f"{better} / {worse} ({p:.2g})"


def main() -> None:
    """Print a row a family."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="Where the stored rounds are.")
    parser.add_argument("--seeds", default="500..507")
    parser.add_argument("--only", default="", help="A part of a family's name.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    print(f"| seeds {given.seeds} | federations | {' | '.join(METHODS)} | better / worse (p) |")
    print(f"|{' --- |' * (len(METHODS) + 3)}")
    with threadpool_limits(1):
        for family, cases in DEVELOPMENT.items():
            if given.only not in family:
                continue
            counts = [
                count(family, {**case, "seed": seed}, given.folder, given.data)
                for case in cases
                for seed in seeds
            ]
            totals = [sum(each[name] for each in counts) if name in counts[0] else "–" for name in METHODS]
            last_cell = paired(counts, OURS, OCFL) if OCFL in counts[0] else "–"
            cells = (family, len(counts), *totals, last_cell)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()

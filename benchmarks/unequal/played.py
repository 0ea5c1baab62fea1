"""A rule and its evidence played through the rounds, as an algorithm that clusters once would.

In each round the groups are found in the cosines pooled so far. They become the clusters in the first round,
from the second on, in which they are those of the round before, their silhouette is large enough and they
are tighter than those of rotated clients (`benchmarks.unequal.evidence`).

Shapes: K clients.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.groups import same
from benchmarks.unequal.evidence import score
from benchmarks.unequal.families import EVERY, FAMILIES
from benchmarks.unequal.rules import Labels, more_if_near, pooled, silhouette
from benchmarks.unequal.trunks import Trunk

LEAST = ((0.0, 0.0), (0.3, -99.0), (0.3, 2.0), (0.3, 2.5), (0.3, 3.0), (0.25, 3.0), (0.25, 5.0))
"""Silhouettes and scores that groups must exceed, a row of the table each."""


@dataclass(frozen=True)
class Found:
    """The groups of one round."""

    labels_K: Labels
    silhouette: float
    score: float
    """Standard deviations by which they are tighter than those of rotated clients."""


def rounds_of(trunk: Trunk, last: int) -> list[Found]:
    """Return what is found in each round up to the last one, from 1."""
    found = []
    for rounds in range(1, last + 1):
        cosines_KK = pooled(trunk.gram_RKK, rounds)
        labels_K = more_if_near(cosines_KK)
        rng = np.random.default_rng([trunk.seed, rounds])
        found.append(Found(labels_K, silhouette(cosines_KK, labels_K), score(cosines_KK, labels_K, rng)))
    return found


def decided(rounds: Sequence[Found], least_silhouette: float, least_score: float) -> Labels:
    """Return the clusters after these rounds; all 0 if nothing was evident."""
    for before, now in zip(rounds, rounds[1:], strict=False):
        held = same(before.labels_K, now.labels_K)
        if held and now.silhouette > least_silhouette and now.score > least_score:
            return now.labels_K
    return np.zeros_like(rounds[0].labels_K)


def print_played(trunks: Sequence[Trunk], last: int) -> None:
    """Print how many federations are right, by family, and how many without groups are cut up."""
    found = [(trunk, rounds_of(trunk, last)) for trunk in trunks]
    sizes = Counter(EVERY[trunk.kind].family for trunk in trunks)
    names = [f"{family}, of {sizes[family]}" for family in FAMILIES if family != "none"]
    print(f"| silhouette | score | {' | '.join(names)} | all | cut up, of {sizes['none']} | where |")
    for least in LEAST:
        right: Counter[str] = Counter()
        cut_up: Counter[str] = Counter()
        for trunk, rounds in found:
            labels_K = decided(rounds, *least)
            if trunk.has_groups:
                right[EVERY[trunk.kind].family] += same(labels_K, trunk.truth_K)
            elif labels_K.any():
                cut_up[trunk.kind] += 1
        counts = [right[family] for family in FAMILIES if family != "none"]
        where = ", ".join(f"{kind}: {count}" for kind, count in cut_up.items()) or "none"
        cells = (*least, *counts, sum(counts), sum(cut_up.values()), where)
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

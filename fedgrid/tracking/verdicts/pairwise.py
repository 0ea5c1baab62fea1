"""All pairs of methods over the blocks that every method has: mean ranks, and the pairs shown to differ.

Source: as `tracking.scoring.statistics`, where a block is a scenario; here it is a scenario and a seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedgrid.tracking.scoring.paired_tests import ALPHA, cliques, effect_and_p, holm
from fedgrid.tracking.verdicts.against import Ranking, Scores, ranking, shared_blocks


@dataclass(frozen=True)
class Pairwise:
    """Every method against every other one."""

    ranking: Ranking
    better: Mapping[str, frozenset[str]]
    """Method -> those that it is shown to be better than: exact signed-rank test, Holm's correction for all
    pairs, level `ALPHA`."""

    @property
    def num_pairs(self) -> int:
        """The number of pairs."""
        count = len(self.ranking.ranks)
        return count * (count - 1) // 2

    @property
    def num_apart(self) -> int:
        """The number of pairs that are shown to differ."""
        return sum(map(len, self.better.values()))

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """Maximal ranges of neighbours in rank of which no two are shown to differ."""
        apart = {frozenset((one, other)) for one, others in self.better.items() for other in others}
        return cliques(tuple(self.ranking.ranks), apart)

    def worse(self, method: str) -> frozenset[str]:
        """Return the methods that a method is shown to be worse than."""
        return frozenset(other for other, beaten in self.better.items() if method in beaten)


def compare_all(methods: Sequence[str], scores: Scores) -> Pairwise:
    """Compare methods over the blocks that all of them have."""
    ranked, blocks = ranking(methods, scores), shared_blocks(methods, scores)
    pairs = list(combinations(ranked.ranks, 2))
    found = [
        effect_and_p(*(np.array([scores[method][block] for block in blocks]) for method in pair))
        for pair in pairs
    ]
    better: dict[str, set[str]] = {method: set() for method in ranked.ranks}
    for (one, other), (effect, _), p in zip(pairs, found, holm([p for _, p in found]), strict=True):
        if p < ALPHA:
            winner, loser = (one, other) if effect > 0 else (other, one)
            better[winner].add(loser)
    return Pairwise(ranked, {method: frozenset(beaten) for method, beaten in better.items()})

"""Paired tests between algorithms over scenarios: Friedman, then Wilcoxon signed-rank with Holm's correction.

Source: Demsar 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, with
Wilcoxon's test in the place of Nemenyi's (Benavoli, Corani, Mangili 2016, JMLR 17), as in the diagrams of the
OCFL journal paper. Shapes: S scenarios, A algorithms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study

ALPHA = 0.05
LEAST_SCENARIOS = 6
"""With five, even five wins of five have p = 2 / 2^5 > 0.05."""
DIGITS = 12
"""To which scores are compared, so that means over seeds that are equal are ties."""

Scores = Mapping[str, Mapping[Any, Mapping[int, float]]]
"""Algorithm -> scenario -> seed -> score."""


@dataclass(frozen=True)
class Comparison:
    """Algorithms compared by one measure over the scenarios in which all of them have it."""

    measure: str
    algorithms: tuple[str, ...]
    """Best rank first; none if nothing can be compared."""
    ranks: tuple[float, ...]
    """Average rank of each, 1 is best, ties share theirs."""
    num_scenarios: int
    friedman_p: float | None
    """None if there was no test, which `remarks` explain, as they do all that is missing here."""
    p_values: Array | None
    """Shape (A, A): two-sided Wilcoxon after Holm's correction, 1 on the diagonal."""
    cliques: tuple[tuple[str, ...], ...]
    """Neighbours in rank of which no two differ significantly, as many as possible, at least two."""
    remarks: tuple[str, ...]
    """Sentences: who was left out and why, which tests could not be made."""

    @property
    def where(self) -> str:
        """Over what it is, in words."""
        return f"over the {self.num_scenarios} scenarios in which all algorithms compared have it"


def compare(study: Study, measure: Measure) -> Comparison:
    """Compare the algorithms of a study; `measure.highest` says which end is rank 1, None as False."""
    scores: dict[str, dict[Any, dict[int, float]]] = {algorithm: {} for algorithm in study.algorithms}
    for result in study.finished:
        value = measure.of(result)
        if not np.isnan(value):
            scores[result.run.algorithm].setdefault(result.run.scenario, {})[result.run.seed] = value
    return compare_scores(
        scores, measure.name, highest=bool(measure.highest), num_scenarios=len(study.scenarios)
    )


def compare_scores(
    scores: Scores, measure: str, *, highest: bool = True, num_scenarios: int | None = None
) -> Comparison:
    """Compare algorithms by their scores, of `num_scenarios` that there are to be (default: those scored).

    An algorithm with a score in less than half of the scenarios is left out, since it would leave few to
    the others. Then only scenarios and seeds count that all others have, and a scenario's seeds are averaged.
    """
    scored = dict.fromkeys(scenario for by_scenario in scores.values() for scenario in by_scenario)
    asked = len(scored) if num_scenarios is None else num_scenarios
    kept = {name: has for name, has in scores.items() if has and 2 * len(has) >= asked}
    remarks = [
        f"{name} is left out: it has a score in {len(has)} of {asked} scenarios."
        for name, has in scores.items()
        if name not in kept
    ]
    blocks_SA, fewer_seeds = _blocks(kept, scored)
    if len(kept) > 1 and 0 < len(blocks_SA) < asked:
        remarks.append(f"{len(blocks_SA)} of {asked} scenarios are compared: those that all algorithms have.")
    if fewer_seeds:
        where = "1 scenario" if fewer_seeds == 1 else f"{fewer_seeds} scenarios"
        remarks.append(f"In {where} only the seeds that all algorithms have are averaged.")
    if len(kept) < 2:
        remarks = [f"Nothing to compare: fewer than two algorithms have it in half of {asked} scenarios."]
    elif not len(blocks_SA):
        remarks.append("Nothing to compare: no scenario has all of the algorithms.")
    if len(kept) < 2 or not len(blocks_SA):
        return Comparison(measure, (), (), 0, None, None, (), tuple(remarks))
    return _compared(measure, tuple(kept), -blocks_SA if highest else blocks_SA, remarks)


def average_ranks(losses_SA: Array) -> Array:
    """Return, shape (A,), the mean over scenarios of the ranks, 1 for the least, ties sharing theirs."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(losses_SA, axis=1).mean(axis=0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979): the i-th least of m is multiplied by m - i + 1,
    and is no less than those before it and at most 1.
    """
    corrected = [0.0] * len(p_values)
    least = 0.0
    for place, index in enumerate(np.argsort(p_values, kind="stable").tolist()):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = least
    return corrected


def wilcoxon(one_S: Array, other_S: Array) -> float:
    """Return the two-sided p-value of the signed-rank test; 1 where all pairs are equal."""
    from scipy.stats import wilcoxon as signed_rank

    differences_S = np.round(np.asarray(one_S) - np.asarray(other_S), DIGITS)
    return float(signed_rank(differences_S, zero_method="pratt").pvalue) if differences_S.any() else 1.0


def _compared(measure: str, names: tuple[str, ...], losses_SA: Array, remarks: list[str]) -> Comparison:
    ranks_A = average_ranks(losses_SA)
    order = np.argsort(ranks_A, kind="stable").tolist()
    algorithms, losses_SA = tuple(names[index] for index in order), losses_SA[:, order]
    ranks = tuple(float(ranks_A[index]) for index in order)
    num_scenarios = len(losses_SA)
    if num_scenarios < LEAST_SCENARIOS:
        remarks.append(
            f"No tests: {num_scenarios} scenarios are too few for a two-sided p below {ALPHA}, which takes "
            f"{LEAST_SCENARIOS}."
        )
        return Comparison(measure, algorithms, ranks, num_scenarios, None, None, (), tuple(remarks))
    friedman_p = _friedman(losses_SA, remarks)
    p_AA = _pairwise(losses_SA)
    num_pairs = len(names) * (len(names) - 1) // 2
    least = num_pairs * 2 / 2**num_scenarios
    if least >= ALPHA and (p_AA >= ALPHA).all():
        remarks.append(
            f"{num_scenarios} scenarios cannot tell any two of {len(names)} algorithms apart: even if one "
            f"wins them all, p is {min(least, 1.0):.2f} after the correction for {num_pairs} pairs."
        )
    if friedman_p is not None and friedman_p >= ALPHA:
        remarks.append(
            f"Friedman's test finds no difference among them (p = {friedman_p:.2f}): nothing is to be read "
            "into single pairs."
        )
        cliques: tuple[tuple[str, ...], ...] = (algorithms,)
    else:
        cliques = tuple(algorithms[start:stop] for start, stop in _cliques(p_AA))
    return Comparison(measure, algorithms, ranks, num_scenarios, friedman_p, p_AA, cliques, tuple(remarks))


def _blocks(scores: Scores, scenarios: Mapping[Any, None]) -> tuple[Array, int]:
    """Return, shape (S, A), the scores of scenarios that all have, and in how many seeds were left out."""
    rows, fewer_seeds = [], 0
    for scenario in scenarios:
        cells = [by_scenario.get(scenario, {}) for by_scenario in scores.values()]
        seeds = sorted(set.intersection(*(set(cell) for cell in cells))) if cells else []
        if seeds:
            rows.append([np.mean([cell[seed] for seed in seeds]) for cell in cells])
            fewer_seeds += any(len(cell) > len(seeds) for cell in cells)
    return np.round(np.array(rows, np.float64).reshape(len(rows), len(scores)), DIGITS), fewer_seeds


def _friedman(losses_SA: Array, remarks: list[str]) -> float | None:
    from scipy.stats import friedmanchisquare

    if losses_SA.shape[1] < 3:
        remarks.append("Two algorithms: Wilcoxon's test alone, since Friedman's takes three.")
        return None
    if (losses_SA == losses_SA[:, :1]).all():
        remarks.append("All algorithms have the same score in every scenario.")
        return 1.0
    return float(friedmanchisquare(*losses_SA.T).pvalue)


def _pairwise(losses_SA: Array) -> Array:
    num_algorithms = losses_SA.shape[1]
    pairs = list(combinations(range(num_algorithms), 2))
    p_values = holm([wilcoxon(losses_SA[:, one], losses_SA[:, other]) for one, other in pairs])
    p_AA = np.ones((num_algorithms, num_algorithms))
    for (one, other), p in zip(pairs, p_values, strict=True):
        p_AA[one, other] = p_AA[other, one] = p
    return p_AA


def _cliques(p_AA: Array) -> list[tuple[int, int]]:
    """Return start and stop of the largest runs of neighbours without a significant difference."""
    found: list[tuple[int, int]] = []
    for start in range(len(p_AA)):
        stop = start + 1
        while stop < len(p_AA) and (p_AA[start : stop + 1, start : stop + 1] >= ALPHA).all():
            stop += 1
        if stop - start > 1 and (not found or stop > found[-1][1]):
            found.append((start, stop))
    return found

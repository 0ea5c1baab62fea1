"""Paired tests between algorithms over scenarios: Friedman, then Wilcoxon signed-rank with Holm's correction.

Source: Demsar 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, with
Wilcoxon's test in the place of Nemenyi's (Benavoli, Corani, Mangili 2016, JMLR 17), as in the diagrams of the
OCFL journal paper. Shapes: S scenarios, A algorithms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study

ALPHA = 0.05
LEAST_SCENARIOS = 6
"""With five scenarios, p is at least 2 / 2^5 > 0.05, even if one algorithm wins all five."""
DIGITS = 12
"""Decimal digits to which scores are compared, so that equal means over seeds are ties despite rounding."""

Scores = Mapping[str, Mapping[Any, Mapping[int, float]]]
"""Algorithm -> scenario -> seed -> score."""


@dataclass(frozen=True)
class Comparison:
    """Algorithms compared by one measure, over the scenarios in which all of them have a score."""

    measure: str
    algorithms: tuple[str, ...]
    """Best rank first; empty if nothing can be compared."""
    ranks: tuple[float, ...]
    """Average rank of each algorithm; 1 is best, ties share their mean rank."""
    num_scenarios: int
    friedman_p: float | None
    """None if there was no test; `remarks` say why, as for anything else that is missing."""
    p_values: Array | None
    """Shape (A, A): two-sided Wilcoxon after Holm's correction, 1 on the diagonal."""
    cliques: tuple[tuple[str, ...], ...]
    """Maximal groups of two or more neighbours in rank of which no two differ significantly."""
    remarks: tuple[str, ...]
    """Sentences: which algorithms are left out and why, which tests were not possible."""

    @property
    def where(self) -> str:
        """The scenarios of the comparison, as a part of a sentence."""
        noun = "scenario" if self.num_scenarios == 1 else "scenarios"
        return f"over the {self.num_scenarios} {noun} in which all algorithms compared have a score"


def compare(study: Study, measure: Measure) -> Comparison:
    """Compare the algorithms of a study, but for references; rank 1 is the highest score if
    `measure.highest`, else the lowest."""
    note, study = study.reference_note, study.competitors
    scores: dict[str, dict[Any, dict[int, float]]] = {algorithm: {} for algorithm in study.algorithms}
    for result in study.finished:
        value = measure.of(result)
        if not np.isnan(value):
            scores[result.run.algorithm].setdefault(result.run.scenario, {})[result.run.seed] = value
    compared = compare_scores(
        scores, measure.name, highest=bool(measure.highest), num_scenarios=len(study.scenarios)
    )
    return replace(compared, remarks=(*compared.remarks, note)) if note else compared


def compare_scores(
    scores: Scores, measure: str, *, highest: bool = True, num_scenarios: int | None = None
) -> Comparison:
    """Compare algorithms by their scores in `num_scenarios` scenarios (default: those with a score).

    An algorithm with a score in less than half of the scenarios is left out, because it would leave few
    scenarios to compare the others in. Then only the scenarios and seeds that all others have are used, and
    scores are averaged over the seeds of a scenario.
    """
    scored = dict.fromkeys(scenario for by_scenario in scores.values() for scenario in by_scenario)
    asked = len(scored) if num_scenarios is None else num_scenarios
    compared = {name: has for name, has in scores.items() if has and 2 * len(has) >= asked}
    remarks = [
        f"{name} is left out: it has a score in {len(has)} of {asked} scenarios."
        for name, has in scores.items()
        if name not in compared
    ]
    blocks_SA, fewer_seeds = _blocks(compared, scored)
    if len(compared) > 1 and 0 < len(blocks_SA) < asked:
        remarks.append(
            f"{len(blocks_SA)} of {asked} scenarios are used: those in which all algorithms have a score."
        )
    if fewer_seeds:
        where = "1 scenario" if fewer_seeds == 1 else f"{fewer_seeds} scenarios"
        remarks.append(f"In {where} only the seeds with a score of all algorithms are averaged.")
    if len(compared) < 2:
        remarks = [
            f"Nothing to compare: fewer than two algorithms have a score in half of {asked} scenarios."
        ]
    elif not len(blocks_SA):
        remarks.append("Nothing to compare: no scenario has a score of every algorithm.")
    if len(compared) < 2 or not len(blocks_SA):
        return Comparison(measure, (), (), 0, None, None, (), tuple(remarks))
    return _compared(measure, tuple(compared), -blocks_SA if highest else blocks_SA, remarks)


def average_ranks(losses_SA: Array) -> Array:
    """Return the mean rank over scenarios, shape (A,): 1 for the least loss, ties share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(losses_SA, axis=1).mean(axis=0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction (1979): the i-th least of m is multiplied by m - i + 1; the
    results do not decrease with i and are at most 1.
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
            f"No tests: a two-sided p below {ALPHA} takes at least {LEAST_SCENARIOS} scenarios; "
            f"this comparison has {num_scenarios}."
        )
        return Comparison(measure, algorithms, ranks, num_scenarios, None, None, (), tuple(remarks))
    friedman_p = _friedman(losses_SA, remarks)
    p_AA = _pairwise(losses_SA)
    num_pairs = len(names) * (len(names) - 1) // 2
    least = num_pairs * 2 / 2**num_scenarios
    if least >= ALPHA and (p_AA >= ALPHA).all():
        remarks.append(
            f"{num_scenarios} scenarios are too few to find a difference between any two of {len(names)} "
            f"algorithms: even if one wins in all of them, p is {min(least, 1.0):.2f} after the correction "
            f"for {num_pairs} pairs."
        )
    if friedman_p is not None and friedman_p >= ALPHA:
        remarks.append(
            f"Friedman's test finds no difference among the algorithms (p = {friedman_p:.2f}); differences "
            "of single pairs are not to be interpreted."
        )
        cliques: tuple[tuple[str, ...], ...] = (algorithms,)
    else:
        cliques = tuple(algorithms[start:stop] for start, stop in _cliques(p_AA))
    return Comparison(measure, algorithms, ranks, num_scenarios, friedman_p, p_AA, cliques, tuple(remarks))


def _blocks(scores: Scores, scenarios: Mapping[Any, None]) -> tuple[Array, int]:
    """Return the scores of scenarios that all have, shape (S, A), and in how many of these seeds are left
    out."""
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
        remarks.append("Two algorithms: only Wilcoxon's test, since Friedman's needs three.")
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
    """Return start and stop of the maximal ranges of neighbours without a significant difference."""
    found: list[tuple[int, int]] = []
    for start in range(len(p_AA)):
        stop = start + 1
        while stop < len(p_AA) and (p_AA[start : stop + 1, start : stop + 1] >= ALPHA).all():
            stop += 1
        if stop - start > 1 and (not found or stop > found[-1][1]):
            found.append((start, stop))
    return found

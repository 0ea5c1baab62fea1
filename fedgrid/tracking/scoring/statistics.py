"""Paired tests between algorithms over scenarios: Friedman, then exact signed ranks with Holm's correction.

A block is a scenario, whose score is the mean over its seeds. The scenarios of one data set share its images,
so the algorithms are compared over data sets too, by the means of their scenarios.

Source: Demsar 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, with
Wilcoxon's test in the place of Nemenyi's (Benavoli, Corani, Mangili 2016, JMLR 17), as in the diagrams of the
OCFL journal paper. Shapes: S scenarios, A algorithms, D data sets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from fedgrid.tracking.arrays import Array, group_by
from fedgrid.tracking.scoring.measures import AGAINST_GROUPS, Measure, read_scores_by_seed
from fedgrid.tracking.scoring.paired_tests import (
    ALPHA,
    DIGITS,
    LEAST_DATASETS,
    LEAST_DIFFERENCES,
    Pair,
    SeedScores,
    average_by_dataset,
    compare_pairs,
    compute_average_ranks,
    compute_friedman_p,
    find_cliques,
)
from fedgrid.tracking.scoring.study import Study

ScoresByAlgorithm = Mapping[str, SeedScores]
"""Algorithm -> scenario and seed -> score."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of algorithms by one measure, over the scenarios in which all of them have a score."""

    measure: str
    algorithms: tuple[str, ...]
    """Best rank first; empty if nothing can be compared."""
    ranks: tuple[float, ...]
    """Average rank of each algorithm; 1 is best, ties share their mean rank."""
    num_scenarios: int
    friedman_p: float | None
    """p of Friedman's test; None without a test: `remarks` give the reason, as for all that is missing."""
    pairs: tuple[Pair, ...]
    """In the order of `algorithms`; empty if there was no test."""
    cliques: tuple[tuple[str, ...], ...]
    """Maximal groups of two or more neighbours in rank of which no two differ significantly."""
    remarks: tuple[str, ...]
    """Sentences: which algorithms are left out and why, which tests were not possible."""
    num_datasets: int = 0
    """Number of data sets over which there is a test too, 0 if there is none."""
    friedman_p_datasets: float | None = None
    seeds: tuple[int, int] = (1, 1)
    """Least and greatest number of seeds that a scenario's score is the mean of."""

    @property
    def scope(self) -> str:
        """The scenarios of the comparison, as a part of a sentence."""
        noun = "scenario" if self.num_scenarios == 1 else "scenarios"
        least, most = self.seeds
        seeds = "" if most == 1 else f"{most} seeds" if least == most else f"{least} to {most} seeds"
        return f"over the {self.num_scenarios} {noun} in which all algorithms compared have a score" + (
            f" (each the mean of {seeds})" if seeds else ""
        )


def compare_algorithms(study: Study, measure: Measure) -> Comparison:
    """Compare the algorithms of a study, but for references.

    Rank 1 is the highest score if `measure.highest`, else the lowest.
    """
    notes, study = [study.reference_note], study.competitors
    if measure in AGAINST_GROUPS and (unclustered := _find_unclustered(study)):
        study = study.only(run for run in study.runs if run.algorithm not in unclustered)
        verb = "has" if len(unclustered) == 1 else "have"
        notes.append(f"{' and '.join(unclustered)} {verb} one cluster in every run, and no rank here.")
    compared = compare_scores(
        {name: read_scores_by_seed(study.with_values(algorithm=name), measure) for name in study.algorithms},
        measure.name,
        highest=bool(measure.highest),
        num_scenarios=len(study.scenarios),
        find_dataset=lambda scenario: str(scenario[0]),
    )
    return replace(compared, remarks=(*compared.remarks, *filter(None, notes)))


def _find_unclustered(study: Study) -> list[str]:
    """Find the algorithms whose finished runs have one cluster in every round."""
    most: dict[str, float] = {}
    for run in study.finished:
        most[run.algorithm] = max(most.get(run.algorithm, 1.0), float(run.curves["clusters"].max()))
    return [algorithm for algorithm, clusters in most.items() if clusters == 1]


def compare_scores(
    scores: ScoresByAlgorithm,
    measure: str,
    *,
    highest: bool = True,
    num_scenarios: int | None = None,
    find_dataset: Callable[[Any], str] | None = None,
) -> Comparison:
    """Compare algorithms by their scores in a number of scenarios.

    An algorithm with a score in less than half of the scenarios is left out, because it would leave few
    scenarios to compare the others in. Then only the scenarios and seeds that all others have are used, and
    scores are averaged over the seeds of a scenario.

    Args:
        scores: algorithm -> scenario and seed -> score.
        measure: the name of what is compared.
        highest: whether more is better, True by default.
        num_scenarios: number of scenarios of the grid; None (default) counts those with a score.
        find_dataset: finds the data set of a scenario; None (default) takes each scenario as a data set of
            its own.
    """
    # 1. Leave out the algorithms with few scores, which would cost the others their scenarios.
    scored = dict.fromkeys(scenario for own in scores.values() for scenario, _ in own)
    num_expected = len(scored) if num_scenarios is None else num_scenarios
    counts = {name: len({scenario for scenario, _ in own}) for name, own in scores.items()}
    # Counted over all scenarios of the grid: an algorithm that has just begun must not shrink the
    # comparison.
    compared = {name: own for name, own in scores.items() if own and 2 * counts[name] >= num_expected}
    if len(compared) < 2:
        remark = (
            f"Nothing to compare: fewer than two algorithms have a score in half of {num_expected} scenarios."
        )
        return Comparison(measure, (), (), 0, None, (), (), (remark,))
    remarks = [
        f"{name} is left out: it has a score in {count} of {num_expected} scenarios."
        for name, count in counts.items()
        if name not in compared
    ]
    # 2. Find the seeds of each scenario that all algorithms have.
    by_scenario = {name: group_by(own, itemgetter(0)) for name, own in compared.items()}
    cells = {scenario: [own.get(scenario, []) for own in by_scenario.values()] for scenario in scored}
    # A mean over other seeds is a mean over other splits and initial models: only shared seeds are paired.
    seeds = {
        scenario: sorted(seed for _, seed in shared)
        for scenario, places in cells.items()
        if (shared := set.intersection(*map(set, places)))
    }
    if not seeds:
        remarks.append("Nothing to compare: no scenario has a score of every algorithm.")
        return Comparison(measure, (), (), 0, None, (), (), tuple(remarks))
    if len(seeds) < num_expected:
        remarks.append(
            f"{len(seeds)} of {num_expected} scenarios are used: those in which all algorithms have a score."
        )
    # 3. Say where that leaves out seeds, average over the others, and rank.
    fewer = sum(any(len(cell) > len(seeds[scenario]) for cell in cells[scenario]) for scenario in seeds)
    if fewer:
        where = "1 scenario" if fewer == 1 else f"{fewer} scenarios"
        remarks.append(f"In {where} only the seeds with a score of all algorithms are averaged.")
    scores_SA = np.array(
        [
            [
                round(float(np.mean([own[scenario, seed] for seed in shared])), DIGITS)
                for own in compared.values()
            ]
            for scenario, shared in seeds.items()
        ]
    )
    datasets_S = [find_dataset(scenario) if find_dataset else str(scenario) for scenario in seeds]
    result = _compare_losses(
        measure, tuple(compared), -scores_SA if highest else scores_SA, datasets_S, remarks
    )
    num_seeds = [len(shared) for shared in seeds.values()]
    return replace(result, seeds=(min(num_seeds), max(num_seeds)))


def _compare_losses(
    measure: str, names: tuple[str, ...], losses_SA: Array, datasets_S: Sequence[str], remarks: list[str]
) -> Comparison:
    """Rank the algorithms by their losses, and test their differences if there are enough scenarios."""
    ranks_A = compute_average_ranks(losses_SA)
    # Stable, so that equal ranks stay in the study's order and reports are the same each time.
    order = np.argsort(ranks_A, kind="stable").tolist()
    algorithms, losses_SA = tuple(names[index] for index in order), losses_SA[:, order]
    ranks = tuple(float(ranks_A[index]) for index in order)
    num_scenarios = len(losses_SA)
    if num_scenarios < LEAST_DIFFERENCES:
        remarks.append(
            f"No tests: a two-sided p below {ALPHA} takes at least {LEAST_DIFFERENCES} scenarios; "
            f"this comparison has {num_scenarios}."
        )
        return Comparison(measure, algorithms, ranks, num_scenarios, None, (), (), tuple(remarks))
    friedman_p = compute_friedman_p(losses_SA)
    losses_DA = average_by_dataset(losses_SA, datasets_S)
    pairs = compare_pairs(algorithms, losses_SA, losses_DA)
    remarks += _describe_limits(losses_SA, pairs)
    joined = find_cliques(
        algorithms, {frozenset((pair.one, pair.other)) for pair in pairs if pair.is_significant}
    )
    if friedman_p is not None and friedman_p >= ALPHA:
        remarks.append(
            f"Friedman's test finds no difference among the algorithms (p = {friedman_p:.2f}); differences "
            "of single pairs are not to be interpreted."
        )
        # Without a difference overall, a diagram with gaps would show pairs that no test has found.
        joined = (algorithms,)
    remarks += _describe_dependence(num_scenarios, len(set(datasets_S)))
    return Comparison(
        measure,
        algorithms,
        ranks,
        num_scenarios,
        friedman_p,
        pairs,
        joined,
        tuple(remarks),
        len(losses_DA),
        compute_friedman_p(losses_DA) if len(losses_DA) else None,
    )


def _describe_limits(losses_SA: Array, pairs: Sequence[Pair]) -> list[str]:
    """Describe what the tests could not find, whichever algorithm is better."""
    num_scenarios, num_algorithms = losses_SA.shape
    untested = sum(pair.p is None for pair in pairs)
    # The least p of a pair, with one sign in all scenarios, times the number of pairs: Holm's first step.
    least = len(pairs) * 2 / 2**num_scenarios
    words = []
    if num_algorithms < 3:
        words.append("Two algorithms: no Friedman's test, which needs three.")
    if (losses_SA == losses_SA[:, :1]).all():
        words.append("All algorithms have the same score in every scenario.")
    elif untested:
        verb = "differs" if untested == 1 else "differ"
        words.append(
            f"{untested} of {len(pairs)} pairs {verb} in fewer than {LEAST_DIFFERENCES} scenarios, "
            "too few for a test (–)."
        )
    if least >= ALPHA and not any(pair.is_significant for pair in pairs):
        words.append(
            f"{num_scenarios} scenarios are too few to find a difference between any two of "
            f"{num_algorithms} algorithms: even if one wins in all of them, p is {min(least, 1.0):.2f} after "
            f"the correction for {len(pairs)} pairs."
        )
    return words


def _describe_dependence(num_scenarios: int, num_datasets: int) -> list[str]:
    """Describe which scenarios share the images of a data set, and what p means then."""
    if num_datasets == num_scenarios:
        return []
    if num_datasets == 1:
        return [
            "All scenarios share the images of one data set, so they are not independent blocks: p is of "
            "this data set, not of others like it."
        ]
    also = "" if num_datasets >= LEAST_DATASETS else f" (which takes {LEAST_DATASETS} or more)"
    return [
        f"The {num_scenarios} scenarios are of {num_datasets} data sets, and those of one data set share its "
        "images, so they are not independent blocks: p over scenarios is of these data sets, p over data "
        f"sets{also} of others like them."
    ]

"""Scores of explanations by algorithm and distribution of images, beside the published ones."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedgrid.tracking.explained.scores import (
    DELETION,
    DISTRIBUTIONS,
    INSERTION,
    SCORES,
    Explained,
    ExplanationScore,
    compare_explanations,
    of_runs,
    published_ranks,
)
from fedgrid.tracking.papers.ocfl import numbers
from fedgrid.tracking.papers.ocfl.tables import FAR_SCORE
from fedgrid.tracking.papers.shared.paper import beside
from fedgrid.tracking.scoring.run import AS_PUBLISHED
from fedgrid.tracking.tables.table import (
    ABSENT,
    FAR,
    NONE,
    Cell,
    Column,
    Row,
    Table,
    dash,
    fixed,
    lettered,
    mean,
)

DIGITS = 3
OTHERS = (
    "On images of others the published scores are not of the cluster's model, but of one for all clients "
    "outside; a run with one cluster has none."
)


def scores(explained: Sequence[Explained]) -> Table:
    """Return the table of insertion, deletion and gap, of scenarios with one number of clients."""
    (clients,) = {each.scenario[1] for each in explained}
    datasets = tuple(dict.fromkeys(each.scenario[0] for each in explained))
    parts = [
        (name, [each for each in explained if each.scenario[0] in names])
        for name, names in (
            *([("all", datasets)] if len(datasets) > 1 else []),
            *((one, (one,)) for one in datasets),
        )
    ]
    table = Table(
        f"explanations-{clients}",
        f"Scores of explanations, {clients} clients",
        "Areas under the insertion curve (high is good) and the deletion curve (low is good), and the gap, "
        "their difference. Means over a run's clusters, then over scenarios; in brackets: over how many of "
        "them, if a score is missing. After the slash, where there is one: published, of the same scenarios. "
        f"{OTHERS}",
        tuple(Column(score.name, on) for on in DISTRIBUTIONS for score in SCORES),
        tuple(
            Row(algorithm, tuple(_cells(part, algorithm)), f"data sets: {name}")
            for name, part in parts
            for algorithm in dict.fromkeys(each.algorithm for each in part)
        ),
        corner="algorithm",
        part="data sets",
        notes={FAR: f"Differs from the published by more than {FAR_SCORE:g}."},
    )
    return lettered(table)


def ranks(explained: Sequence[Explained], on: str) -> Table:
    """Return the table of average ranks on one distribution, in the right direction and as published."""
    (clients,) = {each.scenario[1] for each in explained}
    compared = [compare_explanations(explained, on, score) for score in SCORES]
    right = [dict(zip(each.algorithms, each.ranks, strict=True)) for each in compared]
    published = [published_ranks(of_runs(explained, on, score)) for score in (INSERTION, DELETION)]
    algorithms = dict.fromkeys(each.algorithm for each in explained)
    remarks = dict.fromkeys(
        remark
        for each in compared
        for remark in each.remarks
        if not each.algorithms or "is left out" in remark
    )
    return Table(
        f"explanation-ranks-{on}-{clients}",
        f"Average ranks of explanations on {DISTRIBUTIONS[on]}, {clients} clients",
        " ".join(
            [
                f"1 is best: the highest insertion and gap, the lowest deletion, {compared[0].where}."
                if compared[0].algorithms
                else "1 is best:",
                "As published, 1 is the highest, also of deletion, where high is bad; a missing score is "
                "passed over, so that algorithms are ranked in different scenarios.",
                *remarks,
            ]
        ),
        (
            *(Column(score.name, "1 is best") for score in SCORES),
            *(Column(score.name, AS_PUBLISHED) for score in (INSERTION, DELETION)),
        ),
        tuple(
            Row(algorithm, tuple(_rank(found.get(algorithm, np.nan)) for found in (*right, *published)))
            for algorithm in algorithms
        ),
        corner="algorithm",
    )


def _rank(rank: float) -> Cell:
    return Cell(NONE) if np.isnan(rank) else Cell(fixed(rank, 2), rank)


def _cells(explained: Sequence[Explained], algorithm: str) -> Iterator[Cell]:
    expected = len({each.scenario for each in explained if each.algorithm == algorithm})
    known = {each.scenario: each.published for each in explained if each.algorithm == algorithm}
    for on in DISTRIBUTIONS:
        for score in SCORES:
            found = {
                scenario: float(np.mean(list(seeds.values())))
                for scenario, seeds in of_runs(explained, on, score)[algorithm].items()
            }
            if not found:
                is_there = any(each.on == on for each in explained)
                yield dash(expected=expected, finished=0) if is_there else Cell(ABSENT)
                continue
            value = float(np.mean(list(found.values())))
            cell = mean(value, None, count=len(found), expected=expected, seeds=1, digits=DIGITS)
            keys = [(scenario, known[scenario], on) for scenario in found]
            yield _beside(
                cell,
                [numbers.explanations()[key] for key in keys if key in numbers.explanations()],
                score,
                len(keys),
            )


def _beside(
    cell: Cell, published: Sequence[tuple[float, float]], score: ExplanationScore, expected: int
) -> Cell:
    """Return the cell with the mean of the published scores, if there is one of every scenario."""
    if len(published) < expected:
        return cell
    insertion, deletion = np.mean(published, axis=0).tolist()
    reference = {"insertion": insertion, "deletion": deletion}.get(score.name, insertion - deletion)
    return beside(cell, reference, fixed(reference, DIGITS), far=FAR_SCORE, highest=score.highest)

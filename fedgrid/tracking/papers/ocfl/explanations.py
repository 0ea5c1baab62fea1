"""Scores of explanations by algorithm and distribution of images, next to the published ones."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedgrid.tracking.explained.scores import (
    DELETION,
    DISTRIBUTIONS,
    INSERTION,
    SCORES,
    ExplanationMeans,
    compare_explanations,
    compute_published_ranks,
    compute_run_means,
)
from fedgrid.tracking.names import AS_PUBLISHED, name_in_papers, names_line
from fedgrid.tracking.papers.ocfl import numbers
from fedgrid.tracking.papers.ocfl.tables import FAR_SCORE
from fedgrid.tracking.papers.shared.paper import add_reference
from fedgrid.tracking.scoring.measures import average_by_scenario
from fedgrid.tracking.tables.significance import build_rank_cell
from fedgrid.tracking.tables.table import (
    ABSENT,
    FAR_NOTE,
    Cell,
    Column,
    Row,
    Table,
    build_dash_cell,
    build_mean_cell,
    format_fixed,
    letter_notes,
)

DIGITS = 3


def build_scores_table(explained: Sequence[ExplanationMeans]) -> Table:
    """Build the table of insertion, deletion and gap, of scenarios with one number of clients."""
    (clients,) = {model.scenario[1] for model in explained}
    published = {model.algorithm: model.published for model in explained}
    names = {algorithm: name_in_papers(algorithm, row) for algorithm, row in published.items()}
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    parts = {"all": explained} if len(datasets) > 1 else {}
    parts |= {name: [model for model in explained if model.scenario[0] == name] for name in datasets}
    table = Table(
        f"explanations-{clients}",
        f"Scores of explanations, {clients} clients",
        "Areas under the insertion curve (high is good) and the deletion curve (low is good), and the gap, "
        "their difference. Means over a run's clusters, then over scenarios; in brackets: over how many of "
        "them, if a score is missing. After the slash, where there is one: published, of the same scenarios. "
        "On images of others the published scores are not of the cluster's model, but of one for all clients "
        f"outside; a run with one cluster has none. {names_line(published)}".rstrip(),
        tuple(Column(score.name, on) for on in DISTRIBUTIONS for score in SCORES),
        tuple(
            Row(names[algorithm], tuple(_build_cells(part, algorithm)), f"data sets: {name}")
            for name, part in parts.items()
            for algorithm in dict.fromkeys(model.algorithm for model in part)
        ),
        corner="algorithm",
        part="data sets",
        notes={FAR_NOTE: f"Differs from the published by more than {FAR_SCORE:g}."},
    )
    return letter_notes(table)


def build_ranks_table(explained: Sequence[ExplanationMeans], on: str) -> Table:
    """Build the table of average ranks on one distribution, in the right direction and as published."""
    (clients,) = {model.scenario[1] for model in explained}
    compared = [compare_explanations(explained, on, score) for score in SCORES]
    right = [dict(zip(result.algorithms, result.ranks, strict=True)) for result in compared]
    published = [
        compute_published_ranks(compute_run_means(explained, on, score)) for score in (INSERTION, DELETION)
    ]
    algorithms = dict.fromkeys(model.algorithm for model in explained)
    remarks = dict.fromkeys(
        remark
        for result in compared
        for remark in result.remarks
        if not result.algorithms or "is left out" in remark
    )
    best = f" the highest insertion and gap, the lowest deletion, {compared[0].scope}."
    best = best if compared[0].algorithms else ""
    return Table(
        f"explanation-ranks-{on}-{clients}",
        f"Average ranks of explanations on {DISTRIBUTIONS[on]}, {clients} clients",
        " ".join(
            [
                f"1 is best:{best} As published, 1 is the highest, also of deletion, where high is bad; a "
                "missing score is passed over, so that algorithms are ranked in different scenarios.",
                *remarks,
            ]
        ),
        (
            *(Column(score.name, "1 is best") for score in SCORES),
            *(Column(score.name, AS_PUBLISHED) for score in (INSERTION, DELETION)),
        ),
        tuple(
            Row(algorithm, tuple(build_rank_cell(by_name.get(algorithm)) for by_name in (*right, *published)))
            for algorithm in algorithms
        ),
        corner="algorithm",
    )


def _build_cells(explained: Sequence[ExplanationMeans], algorithm: str) -> Iterator[Cell]:
    """Yield the cells of an algorithm: each score on each distribution, with the published mean."""
    expected = len({model.scenario for model in explained if model.algorithm == algorithm})
    rows = {model.scenario: model.published for model in explained if model.algorithm == algorithm}
    for on in DISTRIBUTIONS:
        for score in SCORES:
            by_scenario = average_by_scenario(compute_run_means(explained, on, score)[algorithm])
            if not by_scenario:
                # A dash: this algorithm has no score there. A dot: these images were not explained at all.
                is_there = any(model.on == on for model in explained)
                yield build_dash_cell(expected=expected, finished=0) if is_there else Cell(ABSENT)
                continue
            value = float(np.mean(list(by_scenario.values())))
            cell = build_mean_cell(
                value, None, count=len(by_scenario), expected=expected, seeds=1, digits=DIGITS
            )
            keys = [(scenario, rows[scenario], on) for scenario in by_scenario]
            printed = [numbers.read_explanations()[key] for key in keys if key in numbers.read_explanations()]
            # A published mean over fewer scenarios would not be comparable.
            if len(printed) == len(keys):
                insertion, deletion = np.mean(printed, axis=0).tolist()
                reference = {"insertion": insertion, "deletion": deletion}.get(
                    score.name, insertion - deletion
                )
                text = format_fixed(reference, DIGITS)
                cell = add_reference(cell, reference, text, far=FAR_SCORE, highest=score.highest)
            yield cell

"""The section on scores of explanations of one number of clients: ranks, tests and figures."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fedgrid.grids.explain.shown.figures import insertion_against_deletion
from fedgrid.tracking.explained.boxes import explanation_boxes
from fedgrid.tracking.explained.scores import (
    DELETION,
    DISTRIBUTIONS,
    GAP,
    SCORES,
    Explained,
    ExplanationScore,
    choose_clients,
    compare_explanations,
    verdict,
)
from fedgrid.tracking.papers.ocfl.explanations import ranks, scores
from fedgrid.tracking.report.page import Choice, Plate, Section, Table
from fedgrid.tracking.report.ranks import Comparison, diagram, significance

INTRODUCTION = (
    "Insertion rises, and deletion falls, if a map finds the pixels that a model's answer rests on; but both "
    "rise with the model's confidence, which counts less in the gap. The paper ranks a high deletion as good."
)
WRONG_WAY = "As published: rank 1 is the highest deletion, which is the worst."


def explanation_sections(explained: Sequence[Explained]) -> Iterator[Section]:
    """Yield the sections of published scores, none without scores."""
    for clients in sorted({model.scenario[1] for model in explained}):
        yield scores_section(choose_clients(explained, clients), clients)


def scores_section(explained: Sequence[Explained], clients: int) -> Section:
    """Return the section on scores of runs with one number of clients."""
    distributions = [on for on in DISTRIBUTIONS if any(one.on == on for one in explained)]
    right = [compare_explanations(explained, on, score) for on in distributions for score in SCORES]
    wrong = [compare_explanations(explained, on, DELETION, as_published=True) for on in distributions]
    words = [INTRODUCTION, *(verdict(one) for one in right if one.measure.startswith(GAP.name))]
    plates = tuple(
        (one.measure, _diagram(one, clients, is_published=one in wrong))
        for one in (*right, *wrong)
        if one.algorithms
    )
    tests = tuple((one.measure, _tests(one, clients)) for one in right)
    boxes = tuple(
        (f"{score.name} on {on}", _boxes(explained, on, score, clients))
        for on in distributions
        for score in SCORES
    )
    return Section(
        f"explanations-{clients}",
        f"Explanations, {clients} clients",
        " ".join(filter(None, words)),
        items=(
            scores(explained),
            Choice(tuple((on, ranks(explained, on)) for on in distributions)),
            *([Choice(plates)] if plates else []),
            Choice(tests),
            Choice(boxes),
            Choice(tuple((on, _against(explained, on, clients)) for on in distributions)),
        ),
    )


def _against(explained: Sequence[Explained], on: str, clients: int) -> Plate:
    return Plate(
        f"insertion-against-deletion-{on}-{clients}",
        f"Insertion against deletion, {DISTRIBUTIONS[on]}, {clients} clients",
        "A dot for each model. On the diagonal the map's order is worth nothing; along it both areas grow "
        "with the model's confidence.",
        partial(insertion_against_deletion, explained, on),
    )


def _diagram(compared: Comparison, clients: int, *, is_published: bool) -> Plate:
    name = f"{compared.measure} {clients}"
    plate = diagram(name, compared, "1 is highest") if is_published else diagram(name, compared)
    return replace(
        plate,
        title=f"Average ranks: {compared.measure}, {clients} clients",
        caption=f"{plate.caption} {WRONG_WAY}" if is_published else plate.caption,
    )


def _tests(compared: Comparison, clients: int) -> Table:
    table = significance(compared)
    return replace(table, name=f"{table.name}-{clients}", title=f"{table.title}, {clients} clients")


def _boxes(explained: Sequence[Explained], on: str, score: ExplanationScore, clients: int) -> Plate:
    return Plate(
        f"explanations-{score.name}-{on}-{clients}",
        f"Explanations: {score.name} on {DISTRIBUTIONS[on]}, {clients} clients",
        "A dot for each cluster's model, those of all scenarios of a data set together, so that an algorithm "
        "with more clusters has more dots (n). Boxes: quartiles.",
        partial(explanation_boxes, explained, on, score),
    )

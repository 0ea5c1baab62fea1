"""The sections of a report on scores of explanations, one for each number of clients."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fedgrid.tracking import figures
from fedgrid.tracking.against.explanations import ranks, scores
from fedgrid.tracking.report.page import Choice, Plate, Section
from fedgrid.tracking.report.ranks import diagram
from fedgrid.tracking.scoring.explanations import (
    AS_PUBLISHED,
    DELETION,
    DISTRIBUTIONS,
    GAP,
    SCORES,
    Explained,
    ExplanationScore,
    compare_explanations,
    of_clients,
    verdict,
)
from fedgrid.tracking.scoring.statistics import Comparison
from fedgrid.tracking.tables.significance import significance
from fedgrid.tracking.tables.table import Table

INTRODUCTION = (
    "Insertion rises, and deletion falls, if a map finds the pixels that a model's answer rests on; but both "
    "rise with the model's confidence, which the gap takes out. The paper ranks a high deletion as good."
)
WRONG_WAY = "As published: rank 1 is the highest deletion, which is the worst."


def explanation_sections(explained: Sequence[Explained]) -> Iterator[Section]:
    """Yield the sections, none without scores."""
    for clients in sorted({each.scenario[1] for each in explained}):
        yield _section(of_clients(explained, clients), clients)


def _section(explained: Sequence[Explained], clients: int) -> Section:
    there = [on for on in DISTRIBUTIONS if any(each.on == on for each in explained)]
    right = [compare_explanations(explained, on, score) for on in there for score in SCORES]
    wrong = [compare_explanations(explained, on, DELETION, as_published=True) for on in there]
    words = [INTRODUCTION, *(verdict(each) for each in right if each.measure.startswith(GAP.name))]
    plates = tuple((each.measure, _diagram(each, clients)) for each in (*right, *wrong) if each.algorithms)
    tests = tuple((each.measure, _tests(each, clients)) for each in right)
    boxes = tuple(
        (f"{score.name} on {on}", _boxes(explained, on, score, clients)) for on in there for score in SCORES
    )
    return Section(
        f"explanations-{clients}",
        f"Explanations, {clients} clients",
        " ".join(filter(None, words)),
        items=(
            scores(explained),
            Choice(tuple((on, ranks(explained, on)) for on in there)),
            *([Choice(plates)] if plates else []),
            Choice(tests),
            Choice(boxes),
        ),
    )


def _diagram(compared: Comparison, clients: int) -> Plate:
    is_published = compared.measure.endswith(AS_PUBLISHED)
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
        partial(figures.explanation_boxes, explained, on, score),
    )

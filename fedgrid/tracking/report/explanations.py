"""The sections of a report on scores of explanations, one for each number of clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fedgrid.tracking.explained.boxes import explanation_boxes
from fedgrid.tracking.explained.figures import insertion_against_deletion, mean_curves
from fedgrid.tracking.explained.maps import map_grid
from fedgrid.tracking.explained.results import ExplainedGrid, Shown, sentence
from fedgrid.tracking.explained.scores import (
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
from fedgrid.tracking.explained.tables import own_scores
from fedgrid.tracking.papers.ocfl.explanations import ranks, scores
from fedgrid.tracking.report.page import Choice, Plate, Section
from fedgrid.tracking.report.ranks import diagram
from fedgrid.tracking.report.settings import worded
from fedgrid.tracking.scoring.run import AS_PUBLISHED, Scenario
from fedgrid.tracking.scoring.statistics import Comparison
from fedgrid.tracking.scoring.study import plain
from fedgrid.tracking.tables.cells import split_name
from fedgrid.tracking.tables.significance import significance
from fedgrid.tracking.tables.table import Table

INTRODUCTION = (
    "Insertion rises, and deletion falls, if a map finds the pixels that a model's answer rests on; but both "
    "rise with the model's confidence, which counts less in the gap. The paper ranks a high deletion as good."
)
WRONG_WAY = "As published: rank 1 is the highest deletion, which is the worst."


def explanation_sections(explained: Sequence[Explained]) -> Iterator[Section]:
    """Yield the sections of published scores, none without scores."""
    for clients in sorted({each.scenario[1] for each in explained}):
        yield _section(of_clients(explained, clients), clients)


def own_sections(own: Mapping[str, ExplainedGrid], *, published: bool) -> Iterator[Section]:
    """Yield the sections of a grid's own explanations; `own` are those by style, empty for the default.

    With `published` they are beside the published scores.
    """
    for style, grid in own.items():
        for clients in sorted({each.scenario[1] for each in grid.explained}):
            part = grid.of_clients(clients)
            beside = _section(part.explained, clients)
            compared = beside.items if published else beside.items[1:]
            section = Section(
                beside.name,
                beside.title,
                " ".join(filter(None, (part.about, beside.text, *_sentences(part), *part.lacking))),
                items=(*_own_items(part, clients), *compared),
            )
            yield worded(section, [style] if style else [])


def _sentences(grid: ExplainedGrid) -> Iterator[str]:
    yield from (sentence(grid, on) for on in DISTRIBUTIONS)


def _own_items(grid: ExplainedGrid, clients: int) -> Iterator[Choice]:
    there = [on for on in DISTRIBUTIONS if any(each.on == on for each in grid.explained)]
    yield Choice(tuple((on, own_scores(grid.explained, on)) for on in there))
    yield Choice(tuple((on, _curves(grid, on, clients)) for on in there))
    plates = [
        (f"{scenario[0]}, images of {on}", _maps(chosen, on, scenario, clients))
        for on in there
        for scenario in dict.fromkeys(each.scenario for each in grid.shown if each.on == on)
        if (chosen := [each for each in grid.shown if (each.on, each.scenario) == (on, scenario)])
    ]
    if plates:
        yield Choice(tuple(plates))


def _curves(grid: ExplainedGrid, on: str, clients: int) -> Plate:
    bands = [each for each in grid.bands if each.on == on]
    counts = ", ".join(f"{each.algorithm} {each.images}" for each in bands)
    return Plate(
        f"explanation-curves-{on}-{clients}",
        f"Mean insertion and deletion curves, {DISTRIBUTIONS[on]}, {clients} clients",
        "Probability of the explained class while pixels are put in, or taken out, the most salient first; "
        f"bands: quartiles of the images; dashed: the same images in a random order. Images: {counts}.",
        partial(mean_curves, bands, on),
    )


def _maps(shown: Sequence[Shown], on: str, scenario: Scenario, clients: int) -> Plate:
    return Plate(
        f"explanation-maps-{on}-{plain(str(scenario[0]))}-{clients}",
        f"Maps of the same images, {DISTRIBUTIONS[on]}, {scenario[0]}, {clients} clients",
        "The first image drawn for a client, then its map by each algorithm's model for that client, of the "
        "class that it says, scaled to 0..1, over the image in grey; green: it is right. "
        f"Scenario {split_name(scenario[2])}, seed {shown[0].seed}.",
        partial(map_grid, shown),
    )


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
            Choice(tuple((on, _against(explained, on, clients)) for on in there)),
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
        partial(explanation_boxes, explained, on, score),
    )

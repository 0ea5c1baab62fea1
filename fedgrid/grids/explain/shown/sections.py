"""Sections of a report on a grid's own explanations, one for each style and number of clients."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedgrid.grids.explain.shown.figures import (
    explanation_boxes,
    insertion_against_deletion,
    map_grid,
    mean_curves,
)
from fedgrid.grids.explain.shown.results import ExplainedGrid, ShownMap, sentence
from fedgrid.tracking.explained.scores import (
    DELETION,
    DISTRIBUTIONS,
    GAP,
    OWN_SCORES,
    SCORES,
    UNSEEN_GAP,
    Explained,
    ExplanationScore,
    choose_clients,
    compare_explanations,
    run_means,
    verdict,
)
from fedgrid.tracking.papers.ocfl.explanations import ranks, scores
from fedgrid.tracking.report.page import Choice, PageSection, Plate, add_words
from fedgrid.tracking.report.ranks import diagram
from fedgrid.tracking.scoring.paired_tests import Scores
from fedgrid.tracking.scoring.statistics import Comparison
from fedgrid.tracking.scoring.study import plain, split_name
from fedgrid.tracking.tables.cells import mean_over_scenarios
from fedgrid.tracking.tables.significance import significance
from fedgrid.tracking.tables.table import ABSENT, Cell, Column, Row, Table, bold_best

INTRODUCTION = (
    "Insertion rises, and deletion falls, if a map finds the pixels that a model's answer rests on; but both "
    "rise with the model's confidence, which counts less in the gap. The paper ranks a high deletion as good."
)
DIGITS = 3
NO_BEST = ("p", "empty")
"""Scores of which more is neither good nor bad."""
CAPTION = (
    "Means over images (as published: over clusters), then seeds and scenarios. A high insertion is good, a "
    "low deletion. Both rise with p, the probability of the explained class for the whole image. Gap: "
    "insertion - deletion. Excess: the gap minus that of a random order, what the map earns. / p: divided by "
    "p, image by image, which takes confidence out. Gap of unseen: over images that no client of the cluster "
    "trains on. Empty: share of maps that order no pixels."
)
WRONG_WAY = "As published: rank 1 is the highest deletion, which is the worst."


def explanation_sections(explained: Sequence[Explained]) -> Iterator[PageSection]:
    """Build the sections of published scores, none without scores."""
    for clients in sorted({model.scenario[1] for model in explained}):
        yield scores_section(choose_clients(explained, clients), clients)


def scores_section(explained: Sequence[Explained], clients: int) -> PageSection:
    """Build the section on scores of runs with one number of clients."""
    distributions = [on for on in DISTRIBUTIONS if any(one.on == on for one in explained)]
    right = [compare_explanations(explained, on, score) for on in distributions for score in SCORES]
    # The paper ranks a high deletion as good; its ranks are shown for comparison only.
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
    return PageSection(
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
    """Build the figure of insertion against deletion."""
    return Plate(
        f"insertion-against-deletion-{on}-{clients}",
        f"Insertion against deletion, {DISTRIBUTIONS[on]}, {clients} clients",
        "A dot for each model. On the diagonal the map's order is worth nothing; along it both areas grow "
        "with the model's confidence.",
        partial(insertion_against_deletion, explained, on),
    )


def _diagram(compared: Comparison, clients: int, *, is_published: bool) -> Plate:
    """Build the figure of average ranks."""
    name = f"{compared.measure} {clients}"
    plate = diagram(name, compared, "1 is highest") if is_published else diagram(name, compared)
    return replace(
        plate,
        title=f"Average ranks: {compared.measure}, {clients} clients",
        caption=f"{plate.caption} {WRONG_WAY}" if is_published else plate.caption,
    )


def _tests(compared: Comparison, clients: int) -> Table:
    """Build the table of significance tests."""
    table = significance(compared)
    return replace(table, name=f"{table.name}-{clients}", title=f"{table.title}, {clients} clients")


def _boxes(explained: Sequence[Explained], on: str, score: ExplanationScore, clients: int) -> Plate:
    """Build the figure of all models' scores."""
    return Plate(
        f"explanations-{score.name}-{on}-{clients}",
        f"Explanations: {score.name} on {DISTRIBUTIONS[on]}, {clients} clients",
        "A dot for each cluster's model, those of all scenarios of a data set together, so that an algorithm "
        "with more clusters has more dots (n). Boxes: quartiles.",
        partial(explanation_boxes, explained, on, score),
    )


def own_sections(own: Mapping[str, ExplainedGrid], *, published: bool) -> Iterator[PageSection]:
    """Build the sections of a grid's own explanations.

    Args:
        own: Explanations by style, which is empty by default.
        published: Whether the published scores stand next to them.
    """
    for style, grid in own.items():
        for clients in sorted({model.scenario[1] for model in grid.explained}):
            part = grid.select_clients(clients)
            beside = scores_section(part.explained, clients)
            compared = beside.items if published else beside.items[1:]
            section = PageSection(
                beside.name,
                beside.title,
                " ".join(filter(None, (part.about, beside.text, *_sentences(part), *part.lacking))),
                items=(*_own_items(part, clients), *compared),
            )
            yield add_words(section, [style] if style else [])


def _sentences(grid: ExplainedGrid) -> Iterator[str]:
    """Yield a sentence for each distribution."""
    yield from (sentence(grid, on) for on in DISTRIBUTIONS)


def _own_items(grid: ExplainedGrid, clients: int) -> Iterator[Choice]:
    """Build tables and figures of a grid's own explanations."""
    distributions = [on for on in DISTRIBUTIONS if any(one.on == on for one in grid.explained)]
    yield Choice(tuple((on, own_scores(grid.explained, on)) for on in distributions))
    yield Choice(tuple((on, _curves(grid, on, clients)) for on in distributions))
    plates = [
        (f"{scenario[0]}, images of {on}", _maps(chosen, on, clients))
        for on in distributions
        for scenario in dict.fromkeys(one.scenario for one in grid.shown if one.on == on)
        if (chosen := [one for one in grid.shown if (one.on, one.scenario) == (on, scenario)])
    ]
    if plates:
        yield Choice(tuple(plates))


def _curves(grid: ExplainedGrid, on: str, clients: int) -> Plate:
    """Build the figure of mean curves."""
    bands = [band for band in grid.bands if band.on == on]
    counts = ", ".join(f"{band.algorithm} {band.images}" for band in bands)
    return Plate(
        f"explanation-curves-{on}-{clients}",
        f"Mean insertion and deletion curves, {DISTRIBUTIONS[on]}, {clients} clients",
        "Probability of the explained class while pixels are put in, or taken out, the most salient first; "
        f"bands: quartiles of the images; dashed: the same images in a random order. Images: {counts}.",
        partial(mean_curves, bands, on),
    )


def _maps(shown: Sequence[ShownMap], on: str, clients: int) -> Plate:
    """Build the figure of maps of the same images."""
    scenario = shown[0].scenario
    return Plate(
        f"explanation-maps-{on}-{plain(str(scenario[0]))}-{clients}",
        f"Maps of the same images, {DISTRIBUTIONS[on]}, {scenario[0]}, {clients} clients",
        "The first image drawn for a client, then its map by each algorithm's model for that client, of the "
        "class that it says, scaled to 0..1, over the image in grey; green: it is right. "
        f"Scenario {split_name(scenario[2])}, seed {shown[0].seed}.",
        partial(map_grid, shown),
    )


def own_scores(explained: Sequence[Explained], on: str) -> Table:
    """Build the table of one distribution, of scenarios with one number of clients."""
    (clients,) = {model.scenario[1] for model in explained}
    chosen_models = [model for model in explained if model.on == on]
    algorithms = tuple(dict.fromkeys(model.algorithm for model in explained))
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    has_seen = any(model.weight > model.unseen for model in chosen_models)
    # If no image was trained on, the gap of unseen images is the gap itself, which has a column.
    chosen_scores = [score for score in OWN_SCORES if score is not UNSEEN_GAP or has_seen]
    parts: list[tuple[str, Sequence[str]]] = [(name, (name,)) for name in datasets]
    if len(datasets) > 1:
        parts.insert(0, ("all", datasets))
    rows = []
    for name, chosen in parts:
        part = [model for model in chosen_models if model.scenario[0] in chosen]
        every = [model for model in explained if model.scenario[0] in chosen]
        by_score = [run_means([*part], on, score) for score in chosen_scores]
        for algorithm in algorithms:
            expected = {(model.scenario, model.seed) for model in every if model.algorithm == algorithm}
            cells = [
                _own_cell(scores.get(algorithm, {}), expected) if expected else Cell(ABSENT)
                for scores in by_score
            ]
            rows.append(Row(algorithm, tuple(cells), f"data sets: {name}" if len(parts) > 1 else ""))
    columns = tuple(
        Column(score.name, highest=None if score.name in NO_BEST else score.highest)
        for score in chosen_scores
    )
    return Table(
        f"explanations-{on}-{clients}",
        f"Explanations of {DISTRIBUTIONS[on]}, {clients} clients",
        CAPTION,
        columns,
        bold_best(rows, columns),
        corner="algorithm",
        part="data sets",
    )


def _own_cell(scores: Scores, expected: Collection[tuple[Any, int]]) -> Cell:
    """Format the mean over scenarios."""
    return mean_over_scenarios(scores, expected=len(expected), finished=0, digits=DIGITS)

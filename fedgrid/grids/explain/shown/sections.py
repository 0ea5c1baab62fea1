"""Sections of a report on a grid's own explanations, one for each style and number of clients."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedgrid.grids.explain.shown.figures import (
    draw_explanation_boxes,
    draw_insertion_against_deletion,
    draw_map_grid,
    draw_mean_curves,
)
from fedgrid.grids.explain.shown.results import ExplainedGrid, ShownMap, format_sentence
from fedgrid.tracking.explained.scores import (
    DELETION,
    DISTRIBUTIONS,
    GAP,
    OWN_SCORES,
    SCORES,
    UNSEEN_GAP,
    ExplanationMeans,
    ExplanationScore,
    compare_explanations,
    compute_run_means,
    select_clients,
    summarise_gap,
)
from fedgrid.tracking.papers.ocfl.explanations import build_ranks_table, build_scores_table
from fedgrid.tracking.report.page import CaptionedFigure, Choice, PageSection, add_suffix
from fedgrid.tracking.report.ranks import build_rank_diagram
from fedgrid.tracking.scoring.paired_tests import SeedScores
from fedgrid.tracking.scoring.statistics import Comparison
from fedgrid.tracking.scoring.study import format_split_name, replace_special_characters
from fedgrid.tracking.tables.cells import build_scenario_mean_cell
from fedgrid.tracking.tables.significance import build_significance_table
from fedgrid.tracking.tables.table import ABSENT, Cell, Column, Row, Table, embolden_columns

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


def build_published_sections(explained: Sequence[ExplanationMeans]) -> Iterator[PageSection]:
    """Build the sections of published scores, none without scores."""
    for clients in sorted({model.scenario[1] for model in explained}):
        yield build_scores_section(select_clients(explained, clients), clients)


def build_scores_section(explained: Sequence[ExplanationMeans], clients: int) -> PageSection:
    """Build the section on scores of runs with one number of clients."""
    distributions = [on for on in DISTRIBUTIONS if any(one.on == on for one in explained)]
    right = [compare_explanations(explained, on, score) for on in distributions for score in SCORES]
    # The paper ranks a high deletion as good; its ranks are shown for comparison only.
    wrong = [compare_explanations(explained, on, DELETION, as_published=True) for on in distributions]
    words = [INTRODUCTION, *(summarise_gap(one) for one in right if one.measure.startswith(GAP.name))]
    plates = tuple(
        (one.measure, _build_rank_diagram(one, clients, is_published=one in wrong))
        for one in (*right, *wrong)
        if one.algorithms
    )
    tests = tuple((one.measure, _build_tests(one, clients)) for one in right)
    boxes = tuple(
        (f"{score.name} on {on}", _build_boxes(explained, on, score, clients))
        for on in distributions
        for score in SCORES
    )
    return PageSection(
        f"explanations-{clients}",
        f"Explanations, {clients} clients",
        " ".join(filter(None, words)),
        items=(
            build_scores_table(explained),
            Choice(tuple((on, build_ranks_table(explained, on)) for on in distributions)),
            *([Choice(plates)] if plates else []),
            Choice(tests),
            Choice(boxes),
            Choice(tuple((on, _build_scatter(explained, on, clients)) for on in distributions)),
        ),
    )


def _build_scatter(explained: Sequence[ExplanationMeans], on: str, clients: int) -> CaptionedFigure:
    """Build the figure of insertion against deletion."""
    return CaptionedFigure(
        f"insertion-against-deletion-{on}-{clients}",
        f"Insertion against deletion, {DISTRIBUTIONS[on]}, {clients} clients",
        "A dot for each model. On the diagonal the map's order is worth nothing; along it both areas grow "
        "with the model's confidence.",
        partial(draw_insertion_against_deletion, explained, on),
    )


def _build_rank_diagram(compared: Comparison, clients: int, *, is_published: bool) -> CaptionedFigure:
    """Build the figure of average ranks."""
    name = f"{compared.measure} {clients}"
    plate = (
        build_rank_diagram(name, compared, "1 is highest")
        if is_published
        else build_rank_diagram(name, compared)
    )
    return replace(
        plate,
        title=f"Average ranks: {compared.measure}, {clients} clients",
        caption=f"{plate.caption} {WRONG_WAY}" if is_published else plate.caption,
    )


def _build_tests(compared: Comparison, clients: int) -> Table:
    """Build the table of significance tests."""
    table = build_significance_table(compared)
    return replace(table, name=f"{table.name}-{clients}", title=f"{table.title}, {clients} clients")


def _build_boxes(
    explained: Sequence[ExplanationMeans], on: str, score: ExplanationScore, clients: int
) -> CaptionedFigure:
    """Build the figure of all models' scores."""
    return CaptionedFigure(
        f"explanations-{score.name}-{on}-{clients}",
        f"Explanations: {score.name} on {DISTRIBUTIONS[on]}, {clients} clients",
        "A dot for each cluster's model, those of all scenarios of a data set together, so that an algorithm "
        "with more clusters has more dots (n). Boxes: quartiles.",
        partial(draw_explanation_boxes, explained, on, score),
    )


def build_own_sections(own: Mapping[str, ExplainedGrid], *, published: bool) -> Iterator[PageSection]:
    """Build the sections of a grid's own explanations.

    Args:
        own: Explanations by style, which is empty by default.
        published: Whether the published scores stand next to them.
    """
    for style, grid in own.items():
        for clients in sorted({model.scenario[1] for model in grid.explained}):
            part = grid.select_clients(clients)
            scores_part = build_scores_section(part.explained, clients)
            compared = scores_part.items if published else scores_part.items[1:]
            section = PageSection(
                scores_part.name,
                scores_part.title,
                " ".join(
                    filter(None, (part.about, scores_part.text, *_format_sentences(part), *part.lacking))
                ),
                items=(*_build_own_items(part, clients), *compared),
            )
            yield add_suffix(section, [style] if style else [])


def _format_sentences(grid: ExplainedGrid) -> Iterator[str]:
    """Yield a sentence for each distribution."""
    yield from (format_sentence(grid, on) for on in DISTRIBUTIONS)


def _build_own_items(grid: ExplainedGrid, clients: int) -> Iterator[Choice]:
    """Build tables and figures of a grid's own explanations."""
    distributions = [on for on in DISTRIBUTIONS if any(one.on == on for one in grid.explained)]
    yield Choice(tuple((on, build_own_scores_table(grid.explained, on)) for on in distributions))
    yield Choice(tuple((on, _build_curves(grid, on, clients)) for on in distributions))
    plates = [
        (f"{scenario[0]}, images of {on}", _build_maps(chosen, on, clients))
        for on in distributions
        for scenario in dict.fromkeys(one.scenario for one in grid.shown if one.on == on)
        if (chosen := [one for one in grid.shown if (one.on, one.scenario) == (on, scenario)])
    ]
    if plates:
        yield Choice(tuple(plates))


def _build_curves(grid: ExplainedGrid, on: str, clients: int) -> CaptionedFigure:
    """Build the figure of mean curves."""
    bands = [band for band in grid.bands if band.on == on]
    counts = ", ".join(f"{band.algorithm} {band.images}" for band in bands)
    return CaptionedFigure(
        f"explanation-curves-{on}-{clients}",
        f"Mean insertion and deletion curves, {DISTRIBUTIONS[on]}, {clients} clients",
        "Probability of the explained class while pixels are put in, or taken out, the most salient first; "
        f"bands: quartiles of the images; dashed: the same images in a random order. Images: {counts}.",
        partial(draw_mean_curves, bands, on),
    )


def _build_maps(shown: Sequence[ShownMap], on: str, clients: int) -> CaptionedFigure:
    """Build the figure of maps of the same images."""
    scenario = shown[0].scenario
    return CaptionedFigure(
        f"explanation-maps-{on}-{replace_special_characters(str(scenario[0]))}-{clients}",
        f"Maps of the same images, {DISTRIBUTIONS[on]}, {scenario[0]}, {clients} clients",
        "The first image drawn for a client, then its map by each algorithm's model for that client, of the "
        "class that it says, scaled to 0..1, over the image in grey; green: it is right. "
        f"Scenario {format_split_name(scenario[2])}, seed {shown[0].seed}.",
        partial(draw_map_grid, shown),
    )


def build_own_scores_table(explained: Sequence[ExplanationMeans], on: str) -> Table:
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
        by_score = [compute_run_means([*part], on, score) for score in chosen_scores]
        for algorithm in algorithms:
            expected = {(model.scenario, model.seed) for model in every if model.algorithm == algorithm}
            cells = [
                _format_cell(scores.get(algorithm, {}), expected) if expected else Cell(ABSENT)
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
        embolden_columns(rows, columns),
        corner="algorithm",
        part="data sets",
    )


def _format_cell(scores: SeedScores, expected: Collection[tuple[Any, int]]) -> Cell:
    """Format the mean over scenarios."""
    return build_scenario_mean_cell(scores, expected=len(expected), finished=0, digits=DIGITS)

"""Explanations of one's own runs, summarised: by hand."""

from math import nan

import numpy as np
import pytest

from fedgrid.grids.explain.shown.figures import draw_map_grid, draw_mean_curves, overlay_map
from fedgrid.grids.explain.shown.results import (
    Band,
    ExplainedGrid,
    PairedComparison,
    ShownMap,
    format_sentence,
    pair_images,
)
from fedgrid.grids.explain.shown.sections import build_own_scores_table
from fedgrid.tracking import figures
from fedgrid.tracking.explained.scores import GAP, ExplanationMeans, compute_run_means

SCENARIO = ("digits", 15, "overlapping-balanced")


def model(algorithm, insertion, deletion, **given):
    return ExplanationMeans(SCENARIO, algorithm, algorithm, "members", insertion, deletion, **given)


def image(place, client=0):
    return SCENARIO, 0, client, client, place


def grid(**by_algorithm):
    excess = {("members", name): values for name, values in by_algorithm.items()}
    rows = tuple(model(name, 0.5, 0.25, unseen=1.0) for name in by_algorithm)
    return ExplainedGrid(rows, excess=excess)


def test_images_are_paired_and_those_of_one_algorithm_alone_do_not_count():
    """Differences 0.25, -0.125 and 0; half of the tie counts."""
    found = grid(
        fedavg={image(0): 0.25, image(1): 0.5, image(2): 0.125, image(9): 1.0},
        sattler={image(0): 0.5, image(1): 0.375, image(2): 0.125, image(7): -1.0},
    )
    assert pair_images(found, "members") == [PairedComparison("sattler", 0.125 / 3, 0.5, 3)]
    assert pair_images(found, "server") == []


def test_sentence_says_which_algorithms_gain_and_which_lose():
    found = grid(
        fedavg={image(0): 0.25}, sattler={image(0): 0.5}, briggs={image(0): 0.125}, IFCA={image(0): 0.75}
    )
    words = format_sentence(found, "members")
    assert "1 images): 2 of 3 algorithms gain: IFCA +0.500 (better on 100%), sattler +0.250 (100%); " in words
    assert words.endswith("1 of 3 algorithms lose: briggs -0.125 (better on 0%).")
    assert format_sentence(grid(sattler={image(0): 0.5}), "members") == ""


def test_score_of_an_own_run_is_the_mean_over_images_and_a_diverged_model_leaves_it_without_one():
    """3 images of gap 0.5 and 1 of gap 0.1."""
    rows = [model("sattler", 0.75, 0.25, weight=3), model("sattler", 0.3, 0.2, weight=1)]
    assert compute_run_means(rows, "members", GAP)["sattler"][SCENARIO, 0] == pytest.approx(0.4)
    assert compute_run_means([*rows, model("sattler", nan, nan, weight=1)], "members", GAP) == {"sattler": {}}


def test_table_has_the_gap_of_unseen_images_only_where_some_are_seen():
    """The gap of images that nobody trains on counts by their number: 0.5 once, 0.2 three times."""
    clean = [model("sattler", 0.75, 0.25, weight=2, unseen=2, unseen_gap=0.5)]
    names = [column.name for column in build_own_scores_table(clean, "members").columns]
    assert "gap of unseen" not in names
    leaky = [
        model("sattler", 0.75, 0.25, weight=2, unseen=1, unseen_gap=0.5),
        model("sattler", 0.75, 0.25, weight=3, unseen=3, unseen_gap=0.2),
        model("sattler", 0.75, 0.25, weight=3, unseen=0, unseen_gap=nan),
    ]
    table = build_own_scores_table(leaky, "members")
    column = [each.name for each in table.columns].index("gap of unseen")
    assert table.rows[0].cells[column].value == pytest.approx((0.5 + 3 * 0.2) / 4)


def band(algorithm):
    up, down = np.linspace(0, 1, 5), np.linspace(1, 0, 5)
    means = {"insertion": up, "deletion": down, "random_insertion": up, "random_deletion": down}
    quartiles = {name: np.stack([means[name] / 2, means[name]]) for name in ("insertion", "deletion")}
    return Band("digits", 15, algorithm, "members", 7, means, quartiles)


def shown(algorithm, place=0, prediction=3):
    pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    where = SCENARIO, 0, algorithm, "members", 0, (0, place)
    return ShownMap(*where, 3, prediction, pixels[0] * 20, pixels, is_empty=False)


def test_curves_have_a_panel_for_each_direction_with_the_random_order_dashed():
    left, right = draw_mean_curves([band("fedavg"), band("sattler")], "members").axes
    assert (left.get_title(), right.get_title()) == ("digits, insertion", "digits, deletion")
    assert len(left.lines) == 4
    assert left.lines[1].get_ydata().tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_maps_have_the_image_then_each_algorithm_with_what_it_says_and_a_colour_bar(tmp_path):
    figure = draw_map_grid([shown("fedavg"), shown("sattler", prediction=5), shown("fedavg", place=4)])
    *panels, bar = figure.axes
    assert [axes.get_title() for axes in panels] == [
        "label 3",
        "fedavg",
        "sattler",
        "label 3",
        "fedavg",
        "sattler",
    ]
    texts = [text.get_text() for axes in panels for text in axes.texts]
    assert texts == ["client 0", "says 3", "says 5", "client 0", "says 3", "not\nexplained"]
    assert bar.get_title() == "map"
    figures.save(figure, tmp_path / "maps.png")


def test_overlay_of_an_empty_map_on_black_is_the_darkest_colour_alone():
    import matplotlib

    nothing = np.zeros((1, 1), np.uint8)
    darkest = np.array(matplotlib.colormaps["viridis"](0.0)[:3])
    assert overlay_map(nothing, nothing[None])[0, 0] == pytest.approx(0.7 * darkest)

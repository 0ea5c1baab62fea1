"""Box plots of scores of explanations."""

import pytest

from fedgrid.grids.explain.shown.figures import draw_explanation_boxes
from fedgrid.tracking.explained.scores import DELETION, INSERTION
from tests.helpers.explanations import make_explained

ROWS = [
    *(make_explained("briggs", value, 0.5) for value in (0.1, 0.2, 0.3, 0.4, 0.9)),
    make_explained("fedavg", 0.6, 0.5),
    make_explained("fedavg", 0.7, 0.5, dataset="cifar10"),
]


def test_a_panel_a_data_set_has_a_dot_a_model_and_the_number_of_them():
    mnist, cifar10 = draw_explanation_boxes(ROWS, "members", INSERTION).axes
    assert [axes.get_title() for axes in (mnist, cifar10)] == ["mnist", "cifar10"]
    assert [sorted(line.get_xdata()) for line in mnist.lines] == [[0.1, 0.2, 0.3, 0.4, 0.9], [0.6]]
    assert [text.get_text() for text in mnist.texts] == ["n 5", "n 1"]
    assert [text.get_text() for text in cifar10.texts] == ["n 0", "n 1"]


def test_box_reaches_from_quartile_to_quartile_with_the_median():
    axes = draw_explanation_boxes(ROWS, "members", INSERTION).axes[0]
    corners = axes.collections[1].get_paths()[0].get_extents()
    assert (corners.x0, corners.x1) == pytest.approx((0.2, 0.4))
    assert axes.collections[2].get_segments()[0][:, 0].tolist() == [0.3, 0.3]


def test_distribution_without_a_score_says_so():
    axes = draw_explanation_boxes(ROWS, "others", DELETION).axes[0]
    assert "no score" in [text.get_text() for text in axes.texts]

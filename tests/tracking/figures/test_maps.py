"""The figure of who holds which classes."""

import numpy as np

from fedgrid.tracking import figures
from fedgrid.tracking.figures.maps import lighten_colour
from fedgrid.tracking.figures.style import HUES

TRAIN_KL = np.array([[4, 0], [0, 2], [1, 4]])
TEST_KL = np.array([[1, 0], [0, 1], [1, 1]])


def pictures(groups):
    figure = figures.class_counts(TRAIN_KL, TEST_KL, np.array(groups))
    return [axes.images[0].get_array() for axes in figure.axes]


def test_clients_lie_by_group_and_have_its_hue():
    """Client 1 is alone in group 1, so its row is the last. No image is white, the most are the full hue."""
    train, test = pictures([0, 1, 0])
    assert train.shape == test.shape == (3, 2, 3)
    assert np.allclose(train[0], [lighten_colour(HUES[0], 0), (1, 1, 1)])
    assert np.allclose(train[1][1], lighten_colour(HUES[0], 0))
    assert np.allclose(train[2][0], (1, 1, 1))
    assert np.allclose(test[2][1], lighten_colour(HUES[1], 0))


def test_groups_are_named_and_ruled_unless_most_clients_are_a_group_of_their_own():
    four = np.array([[1, 0]] * 4)
    labels = [
        [
            tick.get_text()
            for tick in figures.class_counts(four, four, np.array(groups)).axes[0].get_yticklabels()
        ]
        for groups in ([0, 1, 0, 1], [0, 1, 2, 2], [0, 0, 0, 0])
    ]
    assert labels == [["group 0", "group 1"], [], []]


def test_classes_that_have_names_are_called_by_them():
    figure = figures.class_counts(TRAIN_KL, TEST_KL, np.array([0, 0, 1]), ("ape", "bee"))
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["ape", "bee"]

"""What the figure of a centralised training shows, and that the same numbers give the same bytes."""

import numpy as np

from fedgrid.tracking import figures

EPOCHS = {
    "loss": np.array([2.0, 1.0, 0.5]),
    "update_l2": np.array([1.0, 3.0, 2.0]),
    "weights_l1_change": np.array([10.0, 5.0, -4.0]),
}


def drawn():
    return figures.update_norms(EPOCHS, epsilon_1=0.3, epsilon_2=1.5, cooldown=2)


def test_there_is_one_panel_per_column_by_epoch_from_1():
    for axes, values in zip(drawn().axes, EPOCHS.values(), strict=True):
        assert axes.lines[0].get_xydata().tolist() == [[1, values[0]], [2, values[1]], [3, values[2]]]
        assert axes.get_xlabel() == "epoch"


def test_the_epsilons_are_lines_only_in_the_panel_of_update_norms():
    loss, norms, published = drawn().axes
    assert list(loss.lines[1].get_xdata()) == [2, 2]
    assert [line.get_ydata()[0] for line in norms.lines[1:]] == [0.3, 1.5]
    assert [text.get_position()[1] for text in norms.texts] == [0.3, 1.5]
    assert len(published.lines) == 1
    assert published.get_title().endswith("as published")


def test_a_negative_norm_change_is_inside_the_axes():
    assert [axes.get_ylim()[0] for axes in drawn().axes] == [0, 0, -4.4]

"""The switch: when has the temperature risen?"""

import numpy as np
import pytest

from fedgrid.algorithms.clustered.while_training.ocfl import has_risen


def risen(temperatures, window):
    return bool(has_risen(np.array(temperatures), window))


@pytest.mark.parametrize("window", [1, 2, 3])
def test_no_rise_before_there_is_a_mean_to_compare_with(window):
    """Not in the first round, however high; with window w not before w + 1 values."""
    rising = [0.125, 0.25, 0.5, 0.75]
    assert not risen([], window)
    assert not risen(rising[:window], window)
    assert risen(rising[: window + 1], window)


def test_window_two_smooths_a_single_rise_away():
    """Means of two: (0.5 + 0.125) / 2 = 0.3125, then (0.125 + 0.25) / 2 = 0.1875 (no), then 0.3125 (yes)."""
    assert not risen([0.5, 0.125, 0.25], 2)
    assert risen([0.5, 0.125, 0.25, 0.375], 2)
    assert risen([0.5, 0.125, 0.25], 1)


def test_window_three_compares_means_of_three():
    """Means of three: of (0.5, 0.125, 0.25) 0.291.., of (0.125, 0.25, 0.375) 0.25 (no), of (0.25, 0.375, 0.5)
    0.375 (yes)."""
    assert not risen([0.5, 0.125, 0.25, 0.375], 3)
    assert risen([0.5, 0.125, 0.25, 0.375, 0.5], 3)


def test_equal_means_of_a_window_are_no_rise():
    """Both windows hold 0.25, 0.125 and 0.5, in another order."""
    assert not risen([0.25, 0.125, 0.5, 0.25], 3)

"""Where trials of a search are compared, and which of them go on."""

import pytest

from fedgrid.grids.search.early_stop import (
    END,
    HALVES,
    EarlyStop,
    compute_round,
    compute_share,
    read_early_stop,
)
from tests.helpers.small_grid import config

RUN = config(seed=0, training={"rounds": 10})


@pytest.mark.parametrize(
    ("keep", "num_trials", "going"), [(0.5, 5, 3), (0.25, 64, 16), (0.1, 30, 3), (1 / 3, 8, 3), (0.1, 1, 1)]
)
def test_share_of_the_trials_that_goes_on_is_rounded_up(keep, num_trials, going):
    better = EarlyStop((8,), keep).select_better({trial: float(trial) for trial in range(num_trials)})
    assert better == list(range(num_trials - going, num_trials))


def test_ties_go_to_the_first_trial_and_a_failed_one_has_no_value():
    assert EarlyStop((8,), 0.5).select_better({0: 0.1, 2: 0.7, 3: 0.7, 5: 0.7}) == [2, 3]
    assert EarlyStop((8,), 0.5).select_better({}) == []


def test_true_stands_for_halves_of_each_batch_after_a_quarter_and_half_of_the_rounds():
    """Of ten rounds after 3 and 5; a searcher that needs no scores has batches, too."""
    found = read_early_stop(True)
    assert (found, found.keep, found.in_batches) == (HALVES, 0.5, True)
    assert [compute_round(RUN, rung) for rung in found.at] == [3, 5]
    assert found.to_plain() is True
    assert read_early_stop(False).to_plain() is False


def test_rungs_are_rounds_or_shares_below_1():
    found = read_early_stop({"at": [0.35, 6], "keep": 0.25})
    assert [compute_round(RUN, rung) for rung in (*found.at, END)] == [4, 6, 10]
    assert [compute_share(RUN, rung) for rung in (*found.at, END)] == [0.35, 0.6, 1.0]
    assert found.to_plain() == {"at": [0.35, 6], "keep": 0.25}
    assert not found.in_batches

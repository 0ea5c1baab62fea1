"""Epsilons by the rules of thumb, computed by hand."""

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.grids.epsilons.rules import find_convergence, propose_settings


def test_epsilons_are_shares_of_the_largest_norm():
    """The largest is 3.14159 in epoch 2: a tenth is 0.314159, five times that 1.570795, ten times 3.14159."""
    proposal = propose_settings([1.0, 3.14159, 2.0], [1.0, 0.1, 0.0])
    assert (proposal.largest_norm, proposal.largest_norm_epoch) == (3.14159, 2)
    assert (proposal.epsilon_1, proposal.epsilon_2) == (0.314, 1.57)
    assert proposal.epsilon_2_range == (0.314, 3.14)
    assert proposal.settings == {"epsilon_1": 0.314, "epsilon_2": 1.57, "cooldown": proposal.cooldown}


def test_convergence_is_where_two_percent_of_the_decrease_are_left():
    """The total decrease is 1, to the smallest loss: convergence is at the first epoch within 0.02 of it."""
    assert find_convergence([1.0, 0.03, 0.02, 0.01, 0.0]) == 3
    assert find_convergence([1.0, 0.021, 0.0]) == 3


def test_spike_after_convergence_is_ignored():
    assert find_convergence([1.0, 0.01, 0.7, 0.0]) == 2


def test_a_loss_that_still_falls_is_not_settled():
    assert not propose_settings([1.0, 1.0, 1.0], [3.0, 2.0, 1.0]).is_settled
    assert propose_settings([1.0, 1.0, 1.0], [3.0, 1.0, 1.0]).is_settled


@pytest.mark.parametrize("losses", [[1.0, 1.0], [1.0, 2.0, 1.5], [1.0, float("nan")]])
def test_loss_that_never_falls_is_refused(losses):
    with pytest.raises(RunError, match=r"the loss, 1 in the first of \d epochs"):
        propose_settings([1.0] * len(losses), losses)

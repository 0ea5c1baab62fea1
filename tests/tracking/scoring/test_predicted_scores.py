"""R2 of clients: the median, all test rows as one set, and how many clients a mean is over."""

import numpy as np
import pytest

from fedgrid.tracking.arrays import compute_scores
from fedgrid.tracking.records import Columns
from fedgrid.tracking.scoring.client_scores import PREDICTED, format_coverage

NUMBERS = [1.0, 3.0], [5.0, 5.0], [2.0, 4.0, 9.0]
"""To predict, in the test sets of three clients."""
ANSWERS = [1.0, 2.0], [6.0, 4.0], [2.0, 4.0, 6.0]


def columns(numbers, answers, **changes):
    """Return the columns of a round, as the records have them."""
    rows = []
    for truth, answer in zip(map(np.array, numbers), map(np.array, answers), strict=True):
        errors, spread = ((truth - answer) ** 2).sum(), ((truth - truth.mean()) ** 2).sum()
        r2 = 1 - errors / spread if spread else np.nan
        rows.append((errors / len(truth), r2, len(truth), truth.mean(), (truth**2).mean()))
    names = ("personalised_loss", "personalised_r2", "test_images", "test_mean", "test_square")
    by_name = {name: np.array([values]) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    return Columns((1, len(rows)), {**by_name, **changes})


def scores_of(tests):
    return {name: value.item() for name, value in compute_scores(PREDICTED, tests).items()}


def test_by_hand():
    """Errors 1, 2 and 9 over squares 2, 0 and 26 about the clients' means: R2 is 1/2, none and 17/26.

    The mean of all seven is 29/7, the squares about it 161 - 7 (29/7)^2.
    """
    scores = scores_of(columns(NUMBERS, ANSWERS))
    assert scores["personalised_r2"] == pytest.approx((1 / 2 + 17 / 26) / 2)
    assert scores["personalised_r2_median"] == pytest.approx((1 / 2 + 17 / 26) / 2)
    assert scores["personalised_r2_pooled"] == pytest.approx(1 - 12 / (161 - 841 / 7))
    assert scores["personalised_r2_clients"] == 2


def test_one_bad_client_moves_the_mean_alone():
    """Two clients with R2 0.99 of 100 rows each; the third has two rows, 0 and 0.2, and answers of 1."""
    truth = np.linspace(-1, 1, 100)
    shift = np.sqrt(0.01 * truth.var())
    scores = scores_of(columns([truth, truth, [0, 0.2]], [truth + shift, truth + shift, [1, 1]]))
    assert scores["personalised_r2"] == pytest.approx((0.99 + 0.99 - 81) / 3)
    assert scores["personalised_r2_median"] == pytest.approx(0.99)
    assert 0.95 < scores["personalised_r2_pooled"] < 0.99


def test_without_tests_or_moments_there_is_none():
    """Records of earlier versions have no means."""
    nothing = Columns((1, 3), {})
    assert all(np.isnan(value) for value in scores_of(nothing).values())
    older = columns(NUMBERS, ANSWERS, test_mean=np.full((1, 3), np.nan))
    assert np.isnan(scores_of(older)["personalised_r2_pooled"])
    untested = columns(NUMBERS, ANSWERS)
    for name in ("personalised_loss", "personalised_r2", "test_mean", "test_square"):
        untested[name][0, 2] = np.nan
    assert scores_of(untested)["personalised_r2_pooled"] == pytest.approx(1 - 3 / (60 - 14**2 / 4))


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([(7, 7), (float("nan"), 7)], ""),
        ([(5, 7)], "over 5 of 7 clients:"),
        ([(6, 7), (5, 7)], "over 5 of 7 clients at least:"),
        ([(7, 7), (6, 7)], "over 6 of 7 clients at least:"),
    ],
)
def test_a_mean_says_over_how_many_clients_it_is(counts, said):
    line = format_coverage("personalised_r2", counts)
    assert said in line
    assert bool(line) == bool(said)

"""When a claim holds, does not, and cannot be said: worked out by hand."""

from math import inf

import pytest

from fedgrid.tracking.papers.shared.claim import Check, check_differences, combine_verdicts, select_largest
from tests.helpers.studies import make_run


@pytest.mark.parametrize(
    ("values", "low", "high", "expected"),
    [
        # t of 2 degrees of freedom is 4.303: 0.2 +- 4.303 * 0.01 / sqrt(3) = 0.175 to 0.225.
        ((0.19, 0.20, 0.21), 0.17, inf, "holds"),
        ((0.19, 0.20, 0.21), 0.18, inf, "cannot be said"),
        ((0.19, 0.20, 0.21), 0.23, inf, "does not hold"),
        ((0.19, 0.20, 0.21), 0.17, 0.23, "holds"),
        ((0.19, 0.20, 0.21), 0.0, 0.17, "does not hold"),
        ((0.5,), 0.0, inf, "cannot be said"),
        ((1.0, 1.0, 1.0), 0.999, inf, "holds"),
        ((0.0, 0.0), 0.0, inf, "does not hold"),
        # t of 1 degree is 12.7: 0.3 +- 12.7 * 0.1 reaches below 0.
        ((0.2, 0.4), 0.0, inf, "cannot be said"),
    ],
)
def test_the_interval_of_the_mean_decides(values, low, high, expected):
    assert Check("", "", values, low, high).verdict == expected


def check(mean):
    return Check(f"{mean}", "", (mean, mean))


def test_a_claim_holds_if_it_does_everywhere_and_not_if_it_fails_once():
    one_seed = Check("", "", (1.0,))
    assert combine_verdicts([check(0.1), check(0.2)]) == "holds"
    assert combine_verdicts([check(0.1), check(-0.2), one_seed]) == "does not hold"
    assert combine_verdicts([check(0.1), one_seed]) == "cannot be said"


def test_differences_are_paired_by_scenario_and_seed():
    one = {("a", 0): 0.5, ("a", 1): 0.6, ("b", 0): 0.9, ("c", 0): 1.0}
    other = {("a", 1): 0.1, ("a", 0): 0.2, ("b", 0): 0.4, ("b", 1): 0.0}
    found = list(check_differences("x - y", one, other))
    assert [each.scenario for each in found] == ["a", "b"]
    assert [each.values for each in found] == [pytest.approx((0.3, 0.5)), pytest.approx((0.5,))]


def test_by_up_to_is_the_largest_mean():
    assert select_largest([check(0.1), check(0.3), check(0.2)]) == (check(0.3),)
    assert select_largest([]) == ()


def test_an_algorithm_as_published_is_not_the_plain_one():
    from fedgrid.tracking.papers.shared.claim import has_name

    assert has_name("SCL")(make_run("SCL"))
    assert not has_name("SCL")(make_run("SCL as published"))

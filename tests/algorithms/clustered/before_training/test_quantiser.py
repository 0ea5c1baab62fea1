"""Randomised binary quantisation."""

import numpy as np
import pytest

from fedgrid.algorithms.clustered.before_training.quantiser import flipped, rounded, scaled


def rng(seed=0):
    return np.random.default_rng(seed)


def quantised(vector, flip, rng):
    return flipped(rounded(scaled(vector), rng), flip, rng)


def test_least_entry_becomes_0_and_greatest_1():
    assert scaled(np.array([2.0, 4.0, 3.0, 2.5])).tolist() == [0, 1, 0.5, 0.25]


def test_vector_without_a_range_is_coin_tosses():
    assert scaled(np.array([7.0, 7.0])).tolist() == [0.5, 0.5]
    tosses = quantised(np.full(10_000, 7.0), 0.0, rng())
    assert abs(tosses.mean() - 0.5) < 4 * 0.5 / 100


def test_without_flips_it_is_rounding():
    assert quantised(np.array([-1.0, 3.0, 0.9, 1.1]), 0.0, rng()).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("flip", [0.0, 0.1, 0.5])
def test_share_of_flipped_bits_is_the_probability(flip):
    bits = rounded(rng(1).random(10_000), rng(2))
    share = (flipped(bits, flip, rng(3)) != bits).mean()
    assert abs(share - flip) <= 4 * np.sqrt(flip * (1 - flip) / 10_000)


def test_with_flips_of_one_half_the_data_have_no_effect():
    """The bits of two vectors are both fair coins: their shares of ones and of agreement are 1/2."""
    ones = quantised(np.r_[0.0, np.ones(9_999)], 0.5, rng(1))
    assert abs(ones.mean() - 0.5) < 4 * 0.5 / 100


def test_draws_after_a_vector_do_not_depend_on_it():
    one, other = rng(), rng()
    quantised(np.array([0.0, 0.5, 1.0]), 0.1, one)
    quantised(np.array([0.0, 0.1, 1.0]), 0.1, other)
    assert one.random() == other.random()

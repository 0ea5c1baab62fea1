"""Numbers in single precision: what tells rows apart survives, and all else is cast as it is."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.precision import cast_parts, check_tokens, find_offsets, find_overflow
from fedgrid.engine.federation.errors import DataError

STAMPS = 1_700_000_000 + np.array([0.0, 1.0, 2.0, 9.0])
"""Seconds; float32 has 128 of them between two numbers there."""


def test_a_far_column_is_centred_by_the_pool_before_the_cast():
    """The pool are the first three rows, with the mean 1_700_000_001."""
    rows = np.column_stack([STAMPS, np.arange(4)])
    pool, test = cast_parts([rows[:3], rows[3:]], 1)
    assert pool.tolist() == [[-1, 0], [0, 1], [1, 2]]
    assert (test.tolist(), test.dtype) == ([[8, 3]], np.float32)


@pytest.mark.parametrize(
    "column",
    [[273.15, 310.2], [2023.0, 2024.0], [1.7e9, 1.7e9], [-1e30, 1e30], [0.0, 1.7e9], [1e308, -1e308]],
    ids=["Kelvin", "years", "constant", "both signs", "a gap", "the largest"],
)
def test_other_columns_are_cast_as_they_are(column):
    assert find_offsets([np.array(column)[:, None]]).tolist() == [0.0]


def test_channels_of_series_have_offsets_of_their_own():
    series = np.stack([np.stack([STAMPS, STAMPS - 1.7e9]), np.stack([STAMPS + 4, STAMPS - 1.7e9])])
    [cast] = cast_parts([series], 1)
    assert cast[:, 0].tolist() == [[-5, -4, -3, 4], [-1, 0, 1, 8]]
    assert cast[:, 1].tolist() == [[0, 1, 2, 9]] * 2


def test_a_number_beyond_single_precision_is_found():
    [cast] = cast_parts([np.array([[0.0, 1.0], [2.0, -1e300]])], 1)
    assert find_overflow(cast) == (1, 1)
    assert find_overflow(cast[:1]) is None


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([1_700_000_000, 3], "t has 1700000000, and whole numbers are tokens, .*astype"),
        (np.array([2**63], np.uint64), "t has 9223372036854775808, and whole numbers are tokens"),
        ([-3, 2], "t has the token -3; number tokens from 0 on; .*floats"),
    ],
)
def test_whole_numbers_that_can_be_no_tokens_are_refused(tokens, said):
    with pytest.raises(DataError, match=said):
        check_tokens("t", np.array(tokens))


def test_tokens_may_be_many():
    check_tokens("t", np.array([200_000, 1]))
    check_tokens("t", np.zeros(0, np.int64))

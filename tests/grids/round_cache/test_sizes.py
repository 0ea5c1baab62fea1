"""Sizes as people write them."""

import pytest

from fedgrid.grids.round_cache.sizes import parse_size, size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200GB", 200 * 10**9),
        ("1.5 gib", 3 * 2**29),
        (".5kB", 500),
        ("12", 12),
        ("7b", 7),
        ("1TiB", 2**40),
        ("2 TB", 2 * 10**12),
    ],
)
def test_a_size(text, expected):
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "0GB", "0.1B", "-1GB", "1,5GB", "1PB", "1e3", "nan", "1 G B"])
def test_no_size(text):
    with pytest.raises(ValueError, match="is no size: expected a number and a unit, as in 200GB; units: B, "):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 KB"), (999_500, "1.00 MB"), (41_300_000, "41.3 MB"),
     (120 * 10**9, "120 GB"), (5 * 10**15, "5000 TB")],
)  # fmt: skip
def test_three_digits(count, expected):
    assert size(count) == expected

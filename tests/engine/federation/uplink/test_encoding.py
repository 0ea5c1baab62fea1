"""Bytes of quantised numbers and of places, and what is read from them."""

import numpy as np
import pytest

from fedgrid.engine.federation.uplink.encoding import (
    dequantise_values,
    pack_places,
    quantise_values,
    unpack_places,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def normal(count, seed=0):
    return rng(seed).standard_normal(count).astype(np.float32)


class TestQuantise:
    @pytest.mark.parametrize("bits", range(1, 9))
    @pytest.mark.parametrize("count", [1, 7, 512, 513, 1200])
    def test_size_is_the_bits_and_eight_bytes_a_bucket(self, bits, count):
        data = quantise_values(normal(count), bits, rng())
        assert len(data) == -(-count * bits // 8) + 8 * -(-count // 512)
        assert dequantise_values(data, bits, count).shape == (count,)

    def test_values_on_levels_are_read_as_they_were(self):
        """With 2 bits from 0 to 3 the levels are 0, 1, 2, 3: nothing is left to chance."""
        values = np.array([3, 0, 1, 2, 2], np.float32)
        data = quantise_values(values, 2, rng())
        assert data == np.array([0, 3], "<f4").tobytes() + bytes([0b11000110, 0b10000000])
        assert dequantise_values(data, 2, 5).tolist() == [3, 0, 1, 2, 2]

    @pytest.mark.parametrize("bits", [1, 2, 4, 8])
    def test_a_thousand_draws_are_unbiased(self, bits):
        """A value p of the way from one level to the next is read with the deviation step sqrt(p (1 - p))."""
        values, step = np.linspace(-1, 1, 41, dtype=np.float32), 2 / (2**bits - 1)
        draws = np.stack(
            [dequantise_values(quantise_values(values, bits, rng(seed)), bits, 41) for seed in range(1000)]
        )
        share = (values.astype(np.float64) + 1) / step % 1
        errors = step * np.sqrt(share * (1 - share) / 1000)
        assert (np.abs(draws.mean(axis=0, dtype=np.float64) - values) <= 4 * errors + 1e-6).all()
        assert errors.max() > 0.4 * step / np.sqrt(1000)

    def test_equal_values_are_read_as_they_were(self):
        values = np.full(3, 0.1, np.float32)
        assert dequantise_values(quantise_values(values, 1, rng()), 1, 3).tobytes() == values.tobytes()

    def test_buckets_have_levels_of_their_own(self):
        """A huge value costs the precision of its own bucket only."""
        values = np.concatenate([np.linspace(0, 1, 512), [1e6, 0]]).astype(np.float32)
        read = dequantise_values(quantise_values(values, 8, rng()), 8, 514)
        assert np.abs(read[:512] - values[:512]).max() <= 1 / 255 + 1e-6

    def test_a_value_goes_to_one_of_the_levels_beside_it(self):
        """0.25 between 0 and 1 is 1 in about a quarter of all draws."""
        values = np.array([0, 0.25, 1], np.float32)
        read = [
            float(dequantise_values(quantise_values(values, 1, rng(seed)), 1, 3)[1]) for seed in range(400)
        ]
        assert set(read) == {0.0, 1.0}
        assert pytest.approx(np.mean(read), abs=4 * np.sqrt(0.25 * 0.75 / 400)) == 0.25


class TestPlaces:
    @pytest.mark.parametrize(
        ("size", "count", "expected"),
        [
            (16, 5, 2),  # a bitmap: 16 bits, less than 5 numbers of 4 bits
            (1000, 3, 4),  # 3 numbers of 10 bits
            (1000, 100, 125),  # 100 numbers of 10 bits are as long as a bitmap
            (1, 1, 1),
            (21674, 2168, 2710),
        ],
    )
    def test_the_shorter_of_a_bitmap_and_numbers_is_sent(self, size, count, expected):
        places = np.sort(rng().choice(size, count, replace=False))
        data = pack_places(places, size)
        assert len(data) == expected
        assert unpack_places(data, size, count).tolist() == places.tolist()

"""The encoding of numbers as the bytes that are sent: stochastic quantisation, and which entries are sent.

Source: Alistarh et al., QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, NeurIPS
2017, arXiv:1610.02132, section 3: values are rounded at random to one of the two nearest levels, so that
their expectation stays. Here levels are evenly spaced from the least to the greatest value of a bucket.

Shapes: N values, B buckets of them.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.updates.source import Vector

BUCKET = 512
"""Number of values that share their levels, as in QSGD's experiments."""
Places = NDArray[np.int64]


def quantise_values(values_N: Vector, bits: int, rng: np.random.Generator) -> bytes:
    """Encode values as `bits` bits each, behind the least and greatest value of each bucket.

    Args:
        values_N: Float32, finite, at least one.
        bits: 1 to 8.
        rng: Decides which way each value is rounded.
    """
    starts = np.arange(0, len(values_N), BUCKET)
    low_B, high_B = np.minimum.reduceat(values_N, starts), np.maximum.reduceat(values_N, starts)
    low_N, step_N = _compute_levels(low_B, high_B, bits, len(values_N))
    # In float64, and with `where`: a bucket of equal values has a step of 0, and all of its codes are 0.
    exact_N = np.divide(values_N - low_N, step_N, out=np.zeros(len(values_N)), where=step_N > 0)
    down_N = np.floor(exact_N)
    codes_N = down_N + (rng.random(len(values_N), dtype=np.float32) < exact_N - down_N)
    header = np.stack([low_B, high_B]).astype("<f4").tobytes()
    # Rounding in the division can push the greatest value a little above the last level.
    return header + _pack_bits(np.minimum(codes_N, 2**bits - 1).astype(np.uint32), bits)


def dequantise_values(data: bytes, bits: int, count: int) -> Vector:
    """Decode the N = `count` values that `quantise_values` wrote, float32."""
    buckets = -(-count // BUCKET)
    low_B, high_B = np.frombuffer(data, "<f4", 2 * buckets).reshape(2, buckets)
    low_N, step_N = _compute_levels(low_B, high_B, bits, count)
    codes_N = _unpack_bits(data[low_B.nbytes + high_B.nbytes :], bits, count)
    return np.asarray(low_N + codes_N * step_N, np.float32)


def pack_places(places: Places, size: int) -> bytes:
    """Encode which entries of a vector of `size` are meant: a bit an entry or, if shorter, each one's number.

    `places` ascend. Reader and writer know their count and `size`, so nothing says which of the two it is.
    """
    if _is_bitmap_shorter(len(places), size):
        chosen = np.zeros(size, np.bool_)
        chosen[places] = True
        return np.packbits(chosen).tobytes()
    return _pack_bits(places.astype(np.uint32), _count_place_bits(size))


def unpack_places(data: bytes, size: int, count: int) -> Places:
    """Decode the places that `pack_places` wrote, `count` of them, ascending."""
    if _is_bitmap_shorter(count, size):
        return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8), count=size))
    return _unpack_bits(data, _count_place_bits(size), count).astype(np.int64)


def _compute_levels(
    low_B: Vector, high_B: Vector, bits: int, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute, for each value, its bucket's lowest level and the distance between two levels, shape (N,)."""
    lows, highs = low_B.astype(np.float64), high_B.astype(np.float64)
    steps = (highs - lows) / (2**bits - 1)
    return lows.repeat(BUCKET)[:count], steps.repeat(BUCKET)[:count]


def _is_bitmap_shorter(count: int, size: int) -> bool:
    """Check whether a bit for every entry takes no more than a number for each of `count` entries."""
    return size <= count * _count_place_bits(size)


def _count_place_bits(size: int) -> int:
    """Count the bits of one place in a vector of `size`."""
    return max(1, (size - 1).bit_length())


def _pack_bits(numbers_N: NDArray[np.uint32], bits: int) -> bytes:
    """Pack numbers of `bits` bits each without gaps."""
    # Big-endian, so that a number's bits follow each other from the highest to the lowest on every machine.
    octets = numbers_N.astype(">u4").view(np.uint8).reshape(-1, 4)
    return np.packbits(np.unpackbits(octets, axis=1)[:, 32 - bits :]).tobytes()


def _unpack_bits(data: bytes, bits: int, count: int) -> NDArray[np.uint32]:
    """Unpack `count` numbers of `bits` bits each."""
    wide = np.zeros((count, 32), np.uint8)
    wide[:, 32 - bits :] = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits).reshape(-1, bits)
    return np.packbits(wide, axis=1).view(">u4").ravel().astype(np.uint32)

"""Randomised binary quantisation of a vector.

Source: Prigent et al. 2024, section III-B, equation 1. A bit that is flipped with probability p is
ln((1 - p) / p)-differentially private by itself, 2.20 at p = 0.1; the paper composes no such budget.

Shapes: D entries of a vector.
"""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
"""0 or 1."""


def scaled(vector_D: NDArray[Any]) -> NDArray[np.float64]:
    """Return a vector brought to 0..1 by its least and greatest entry; one without a range is all 0.5."""
    vector_D = np.asarray(vector_D, np.float64)
    least, range_ = vector_D.min(initial=inf), np.ptp(vector_D) if vector_D.size else 0.0
    return (vector_D - least) / range_ if range_ > 0 else np.full(vector_D.shape, 0.5)


def rounded(vector_D: NDArray[Any], rng: np.random.Generator) -> Bits:
    """Return entries of 0..1 rounded to bits; one of exactly 0.5 is a coin toss.

    A draw is made for each entry, whatever it is, so that the draws that follow do not depend on the data.
    """
    coins_D = rng.integers(2, size=np.shape(vector_D), dtype=np.uint8)
    return np.where(np.equal(vector_D, 0.5), coins_D, np.greater(vector_D, 0.5)).astype(np.uint8)


def flipped(bits_D: Bits, flip: float, rng: np.random.Generator) -> Bits:
    """Return the bits, each flipped with probability `flip` in [0, 0.5], independently."""
    return bits_D ^ (rng.random(bits_D.shape) < flip).astype(np.uint8)

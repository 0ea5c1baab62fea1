"""A client's message about its data: the mean code of each class, quantised.

Source: Prigent et al. 2024, section III, Algorithm 1 and equation 1. Deviation: a missing class is filled in
after the vector is scaled to 0..1, so that its bits are fair coins whatever the scale of the codes. A bit
that is flipped with probability p is ln((1 - p) / p)-differentially private by itself, 2.20 at p = 0.1; the
paper composes no such budget.

Shapes: N images, L classes, Z entries of a code, D = L Z of the vector.
"""

from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from fedgrid.algorithms.clustered.before_training.private import PrivateMessage, of_bits
from fedgrid.algorithms.contract.orders import Payload

if TYPE_CHECKING:
    from torch import Tensor

Bits = NDArray[np.uint8]
"""0 or 1."""


def _is_flip(given: "float | tuple[float, ...]") -> "float | tuple[float, ...]":
    budgets = given if isinstance(given, tuple) else (given,)
    if not budgets or not all(0 <= each <= 0.5 for each in budgets):
        raise ValueError(f"{given} given; expected a probability from 0 to 0.5, or a list of them (budgets)")
    return given


Flip = Annotated[float | tuple[float, ...], AfterValidator(_is_flip)]
BITS, VECTOR = "bits", "vector"
"""Arrays of a message: packed bits, or float32 entries where nothing is quantised."""


class ClassMeans(PrivateMessage):
    """The mean code of each class, one after the other; noise is added before they are scaled and rounded."""

    flip: Flip = 0.1
    """Probability of a flipped bit. Of several each client draws one of its own."""
    normalise: Literal["vector", "class"] = "class"
    """What is scaled to 0..1 by its least and greatest entry."""
    quantise: bool = True
    """False: the means themselves are sent, as float32, without flips."""

    def describe(
        self, images: "Tensor", labels: "Tensor", num_classes: int, rng: np.random.Generator
    ) -> Payload:
        """Return the packed bits, or the vector, of a client's codes, shape (N, Z)."""
        filling, tossing, flipping, budget, noise = rng.spawn(5)
        means_LZ = class_means(images, labels, num_classes)
        if self.clip is not None:  # Of all classes: which ones a client has is covered too.
            complete_LZ = _in_range(means_LZ, filling)
            means_LZ = self.covered(complete_LZ.ravel(), noise).reshape(means_LZ.shape)
        filled_LZ = self._filled(means_LZ, filling)
        if not self.quantise:
            return {VECTOR: filled_LZ.ravel().astype(np.float32)}
        bits_D = rounded(filled_LZ.ravel(), tossing)
        flip = float(budget.choice(self.flip)) if isinstance(self.flip, tuple) else self.flip
        return {BITS: np.packbits(flipped(bits_D, flip, flipping))}

    def squared_distance(self, payload: Payload, scale: float, *, again: bool) -> float:
        """Return that of the noise or, of bits, of their flips if it is less: a bound on either is one.

        Flips are the same ones every time, so that they cover no second message.
        """
        of_noise = super().squared_distance(payload, scale, again=again)
        if BITS not in payload or (again and not self.draws_anew):
            return of_noise
        least = min(self.flip) if isinstance(self.flip, tuple) else self.flip
        return min(of_noise, of_bits(8 * payload[BITS].nbytes, least))

    def _filled(self, means_LZ: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the means, scaled to 0..1 if they are quantised, uniform noise for missing classes."""
        if not self.quantise:
            return _in_range(means_LZ, rng)
        noise_LZ = rng.random(means_LZ.shape)
        there_L = np.isfinite(means_LZ[:, 0])
        if self.normalise == "vector":
            noise_LZ[there_L] = scaled(means_LZ[there_L])
        else:
            for label in np.flatnonzero(there_L):
                noise_LZ[label] = scaled(means_LZ[label])
        return noise_LZ


def class_means(codes: "Tensor", labels: "Tensor", num_classes: int) -> NDArray[np.float64]:
    """Return the mean code of each class, shape (L, Z), NaN for a class without images."""
    codes_NZ, labels_N = codes.double().cpu().numpy(), labels.cpu().numpy()
    means_LZ = np.full((num_classes, codes_NZ.shape[1]), np.nan)
    for label in np.unique(labels_N):
        means_LZ[label] = codes_NZ[labels_N == label].mean(axis=0)
    return means_LZ


def _in_range(means_LZ: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the means, uniform noise between the least and greatest entry for missing classes."""
    noise_LZ = rng.random(means_LZ.shape)
    there_L = np.isfinite(means_LZ[:, 0])
    least, most = means_LZ[there_L].min(), means_LZ[there_L].max()
    return np.where(there_L[:, None], means_LZ, least + (most - least) * noise_LZ)


def vector_of(payload: Payload) -> NDArray[Any]:
    """Return what a message says, float64: 0 and 1 of its bits, padded to whole bytes, or its vector."""
    if BITS in payload:
        return np.unpackbits(payload[BITS]).astype(np.float64)
    return payload[VECTOR].astype(np.float64)


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

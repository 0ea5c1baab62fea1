"""A client's message about its data: the mean code of each class, quantised and under noise.

Source: Prigent et al. 2024, section III, Algorithm 1 and equation 1. Deviation: a missing class is filled in
after the vector is scaled to 0..1, so that its bits are fair coins whatever the scale of the codes. A bit
that is flipped with probability p is ln((1 - p) / p)-differentially private by itself, 2.20 at p = 0.1; the
paper composes no such budget.

Shapes: N images, L classes, Z entries of a code, D = L Z of the vector.
"""

from math import inf, log
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from fedgrid.algorithms.contract.orders import Message, Payload
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.source import Rng

if TYPE_CHECKING:
    from torch import Tensor


class MessageNoise(Section):
    """A bound on the vector that a client sends, and noise on it."""

    clip: Annotated[float, Field(gt=0)] | None = None
    """Largest Euclidean norm of a client's vector before it is quantised; None: no limit."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the Gaussian noise on each entry of the vector, in units of `clip`; 0: none."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("clip", "noise")

    @model_validator(mode="after")
    def _noise_has_a_clip(self) -> Self:
        """Refuse noise whose size is not defined."""
        if self.noise and self.clip is None:
            raise ValueError("noise without clip: its size is a multiple of the clip; set clip too, as in 10")
        return self

    def clip_and_add_noise(self, vector_D: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        """Clip a vector to the norm `clip`, and add the noise."""
        if self.clip is None:
            return vector_D
        # A vector of zeros has no direction to scale along.
        norm = float(np.linalg.norm(vector_D))
        clipped_D = vector_D * min(1.0, self.clip / norm) if norm else vector_D
        return clipped_D + self.noise * self.clip * rng.standard_normal(np.shape(vector_D))


class PrivateMessage(Message, MessageNoise):
    """A message that noise can cover."""

    @property
    def draws_each_round(self) -> bool:
        """Whether each message has noise of its own; flips alone are the same ones every time."""
        return self.noise > 0

    def squared_distance(self, payload: Payload, scale: float, *, again: bool) -> float:
        """Measure what the noise hides; `scale` clips are what one client can change."""
        return (scale / self.noise) ** 2 if self.noise else inf


def compute_bits_distance(count: int, flip: float) -> float:
    """Compute the squared distance of this many bits, each flipped with a probability in [0, 0.5].

    Distances are in standard deviations of Gaussian noise, which is what the accountant of privacy adds up. A
    bit flipped with probability p costs as much as a Gaussian of squared distance 2 (1 - 2p) ln((1 - p) / p):
    twice the Kullback-Leibler divergence of the two coins, and their Renyi divergence of order a is never
    above a times the latter (Bun and Steinke, Concentrated Differential Privacy, TCC 2016, arXiv:1605.02065,
    for what such a bound means; that it holds for coins is checked in the tests). Bits add up.
    """
    return count * 2 * (1 - 2 * flip) * log((1 - flip) / flip) if flip else inf


Bits = NDArray[np.uint8]
"""Bits of a message, each 0 or 1."""


def _check_flip(given: "float | tuple[float, ...]") -> "float | tuple[float, ...]":
    """Check that it is a probability from 0 to 0.5, or a list of them."""
    budgets = given if isinstance(given, tuple) else (given,)
    if not budgets or not all(0 <= budget <= 0.5 for budget in budgets):
        raise ValueError(f"{given} given; expected a probability from 0 to 0.5, or a list of them (budgets)")
    return given


Flip = Annotated[float | tuple[float, ...], AfterValidator(_check_flip)]
"""Type of the setting `flip`."""
BITS, VECTOR = "bits", "vector"
"""Names of a message's arrays: packed bits, or float32 entries where nothing is quantised."""


class ClassMeans(PrivateMessage):
    """The mean code of each class, one after the other; noise is added before they are scaled and rounded."""

    flip: Flip = 0.1
    """Probability of a flipped bit. Of several each client draws one of its own."""
    normalise: Literal["vector", "class"] = "class"
    """Part of the vector that is scaled to 0..1 by its least and greatest entry."""
    quantise: bool = True
    """Whether entries are rounded to bits. False: the means themselves are sent, as float32, without
    flips."""

    def describe(self, images: "Tensor", labels: "Tensor", num_classes: int, rng: Rng) -> Payload:
        """Compute the packed bits, or the vector, of a client's codes.

        Args:
            images: codes, float32, shape (N, Z).
            labels: their classes, int64, shape (N,).
            num_classes: L.
            rng: seeded by (run, client); each use draws from a child of its own.

        Returns:
            `bits` (uint8, eight in each), or `vector` (float32, shape (D,)).
        """
        # A generator for each use: a setting that needs fewer draws leaves those of the others as they are.
        filling, tossing, flipping, budget, noise = rng.spawn(5)
        means_LZ = compute_class_means(images, labels, num_classes)
        if self.clip is not None:  # Of all classes: which ones a client has is covered too.
            complete_LZ = _fill_in_range(means_LZ, filling)
            means_LZ = self.clip_and_add_noise(complete_LZ.ravel(), noise).reshape(means_LZ.shape)
        filled_LZ = self._fill_missing_classes(means_LZ, filling)
        if not self.quantise:
            return {VECTOR: filled_LZ.ravel().astype(np.float32)}
        bits_D = round_to_bits(filled_LZ.ravel(), tossing)
        flip = float(budget.choice(self.flip)) if isinstance(self.flip, tuple) else self.flip
        return {BITS: np.packbits(flip_bits(bits_D, flip, flipping))}

    def squared_distance(self, payload: Payload, scale: float, *, again: bool) -> float:
        """Measure what the noise, or the flips of bits, hide, whichever is less: a bound on either is one.

        Flips are the same ones every time, so that they cover no second message.
        """
        of_noise = super().squared_distance(payload, scale, again=again)
        if BITS not in payload or (again and not self.draws_each_round):
            return of_noise
        # The server does not see which one a client has drawn; the least one is a bound for all.
        least = min(self.flip) if isinstance(self.flip, tuple) else self.flip
        return min(of_noise, compute_bits_distance(8 * payload[BITS].nbytes, least))

    def _fill_missing_classes(self, means_LZ: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        """Scale the means to 0..1 if they are quantised; fill missing classes with uniform noise."""
        if not self.quantise:
            return _fill_in_range(means_LZ, rng)
        # Drawn for all classes, whichever a client has: what is drawn later does not depend on that.
        noise_LZ = rng.random(means_LZ.shape)
        there_L = np.isfinite(means_LZ[:, 0])
        # Only classes that are there set the scale: those to fill in are coins of any scale.
        if self.normalise == "vector":
            noise_LZ[there_L] = scale_vector(means_LZ[there_L])
        else:
            for label in np.flatnonzero(there_L):
                noise_LZ[label] = scale_vector(means_LZ[label])
        return noise_LZ


def compute_class_means(codes: "Tensor", labels: "Tensor", num_classes: int) -> NDArray[np.float64]:
    """Compute the mean code of each class, shape (L, Z), NaN for a class without images."""
    # In float64 on the CPU: float32 sums would depend on the device.
    codes_NZ = codes.double().cpu().numpy()
    labels_N = labels.cpu().numpy()
    means_LZ = np.full((num_classes, codes_NZ.shape[1]), np.nan)
    for label in np.unique(labels_N):
        means_LZ[label] = codes_NZ[labels_N == label].mean(axis=0)
    return means_LZ


def _fill_in_range(means_LZ: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
    """Fill missing classes with uniform noise between the least and the greatest entry."""
    noise_LZ = rng.random(means_LZ.shape)
    there_L = np.isfinite(means_LZ[:, 0])
    least = means_LZ[there_L].min()
    most = means_LZ[there_L].max()
    return np.where(there_L[:, None], means_LZ, least + (most - least) * noise_LZ)


def read_vector(payload: Payload) -> NDArray[Any]:
    """Read the vector of a message, float64: 0 and 1 of its bits, padded to whole bytes, or its entries."""
    if BITS in payload:
        return np.unpackbits(payload[BITS]).astype(np.float64)
    return payload[VECTOR].astype(np.float64)


def scale_vector(vector_D: NDArray[Any]) -> NDArray[np.float64]:
    """Scale a vector to 0..1 by its least and greatest entry; one without a range is all 0.5."""
    vector_D = np.asarray(vector_D, np.float64)
    least = vector_D.min(initial=inf)
    # Equal entries have no order, so each bit of them is a coin toss (`round_to_bits`).
    range_ = np.ptp(vector_D) if vector_D.size else 0.0
    return (vector_D - least) / range_ if range_ > 0 else np.full(vector_D.shape, 0.5)


def round_to_bits(vector_D: NDArray[Any], rng: Rng) -> Bits:
    """Round entries of 0..1 to bits; one of exactly 0.5 is a coin toss.

    A draw is made for each entry, whatever it is, so that the draws that follow do not depend on the data.
    """
    coins_D = rng.integers(2, size=np.shape(vector_D), dtype=np.uint8)
    return np.where(np.equal(vector_D, 0.5), coins_D, np.greater(vector_D, 0.5)).astype(np.uint8)


def flip_bits(bits_D: Bits, flip: float, rng: Rng) -> Bits:
    """Flip each bit with probability `flip` in [0, 0.5], independently."""
    return bits_D ^ (rng.random(bits_D.shape) < flip).astype(np.uint8)

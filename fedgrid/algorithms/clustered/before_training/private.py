"""Messages about a client's data under noise, and how far one client can move what they say.

Distances are squared, in standard deviations of Gaussian noise: what the accountant of privacy adds up. A bit
that is flipped with probability p costs as much as a Gaussian of squared distance 2 (1 - 2p) ln((1 - p) / p):
that is twice the Kullback-Leibler divergence of the two coins, and their Renyi divergence of order a is never
above a times the latter (Bun and Steinke, Concentrated Differential Privacy, TCC 2016, arXiv:1605.02065, for
what such a bound means; that it holds for coins is checked in the tests). Bits add up.

Shapes: D entries of a vector.
"""

from math import inf, log
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedgrid.algorithms.contract.orders import Message, Payload
from fedgrid.algorithms.contract.section import Section


class MessageNoise(Section):
    """A bound on what a client says, and noise on it."""

    clip: Annotated[float, Field(gt=0)] | None = None
    """The largest Euclidean norm of what a client says before it is quantised; None: any."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the Gaussian noise on each of its entries, in units of `clip`; 0: none."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("clip", "noise")

    @model_validator(mode="after")
    def _noise_has_a_clip(self) -> Self:
        if self.noise and self.clip is None:
            raise ValueError("noise without clip: its size is a multiple of the clip; set clip too, as in 10")
        return self

    def covered(self, vector_D: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return a vector of at most the norm `clip`, with noise."""
        if self.clip is None:
            return vector_D
        norm = float(np.linalg.norm(vector_D))
        clipped_D = vector_D * min(1.0, self.clip / norm) if norm else vector_D
        return clipped_D + self.noise * self.clip * rng.standard_normal(np.shape(vector_D))


class PrivateMessage(Message, MessageNoise):
    """A message that noise can cover."""

    @property
    def draws_anew(self) -> bool:
        """Whether each time has noise of its own; flips alone are the same ones every time."""
        return self.noise > 0

    def squared_distance(self, payload: Payload, scale: float, *, again: bool) -> float:
        """Return that of the noise; `scale` clips are what one client can change."""
        return (scale / self.noise) ** 2 if self.noise else inf


def of_bits(count: int, flip: float) -> float:
    """Return the squared distance of this many bits, each flipped with a probability in [0, 0.5]."""
    return count * 2 * (1 - 2 * flip) * log((1 - flip) / flip) if flip else inf

"""The steps of an update on its way to the server, taken where the client is, in their order.

The server, and so every clusterer, sees only what was sent. A step is a section with one key, as in `uplink:
[{clip: 1.0}, {noise: 0.5}, {topk: 0.1}, {quantise: 4}]`; a new one is a class here and a name in `STEPS`. The
last two encode: what reaches the server is decoded from the bytes that are counted.

Shapes: P entries of a state vector, of which W are parameters.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.uplink.encoding import (
    Places,
    dequantise_values,
    pack_places,
    quantise_values,
    unpack_places,
)


@dataclass(frozen=True)
class SentArray:
    """An update, or another array of a reply, between client and server."""

    update: Vector
    """The array as the server will decode it, shape (P,)."""
    num_bytes: int
    """Size of its encoding in bytes."""
    clip: float | None = None
    """Largest norm that the parameters may have had before any noise; None: any."""
    places: Places | None = None
    """Which parameters are sent, ascending; None: all."""
    residual: Vector | None = None
    """Error feedback, shape (W,): before `topk` what earlier rounds did not send, after it what this one does
    not; None: nothing."""


class UplinkStep(Section):
    """One step between a client and the server."""

    @abstractmethod
    def apply(self, sent: SentArray, num_parameters: int, rng: np.random.Generator) -> SentArray:
        """Apply the step to what the step before it sends on; called by `send_update` for each reply of each
        round.

        Args:
            sent: The array so far.
            num_parameters: W.
            rng: Seeded by run, client and round.
        """


class Clip(UplinkStep):
    """Scales the parameters' update down to a Euclidean norm; BatchNorm's buffers are sent as they are."""

    clip: Annotated[float, Field(gt=0)]
    """The largest norm that passes unchanged."""

    def apply(self, sent: SentArray, num_parameters: int, rng: np.random.Generator) -> SentArray:
        """Scale the update down to at most that norm; one that is not finite stays as it is."""
        sent = replace(sent, clip=self.clip)
        parameters = sent.update[:num_parameters]
        # In float64: a sum of millions of float32 squares would lose the digits that decide whether to clip.
        norm = float(np.sqrt(np.square(parameters, dtype=np.float64).sum()))
        if not np.isfinite(norm) or norm <= self.clip:
            return sent
        scaled = sent.update.copy()
        scaled[:num_parameters] *= np.float32(self.clip / norm)
        return replace(sent, update=scaled)


class Noise(UplinkStep):
    """Adds independent Gaussian noise to each parameter: the Gaussian mechanism, at the client.

    Source: McMahan, Ramage, Talwar, Zhang, Learning Differentially Private Recurrent Language Models, ICLR
    2018, arXiv:1710.06963, Algorithm 1, whose noise the server adds to a sum. What it costs: `ledger`.
    """

    noise: Annotated[float, Field(ge=0)]
    """The noise multiplier: standard deviation in units of the clip before it. 0 changes nothing."""

    def apply(self, sent: SentArray, num_parameters: int, rng: np.random.Generator) -> SentArray:
        """Add noise to the update; of one that is not finite, which no clip bounds, only NaN is sent."""
        if not self.noise:
            return sent
        if sent.clip is None:
            raise ValueError("noise needs a clip before it")
        noisy = sent.update.copy()
        if np.isfinite(noisy[:num_parameters]).all():
            scale = np.float32(self.noise * sent.clip)
            noisy[:num_parameters] += scale * rng.standard_normal(num_parameters, np.float32)
        else:
            noisy[:num_parameters] = np.nan
        return replace(sent, update=noisy)


class TopK(UplinkStep):
    """Sends the parameters of the largest magnitude; what is not sent is added to the next round's update.

    Source: Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, NeurIPS 2018, arXiv:1809.07599, Algorithm 1.
    """

    topk: Annotated[float, Field(gt=0, le=1)]
    """Share of the parameters that are sent, rounded up; 1 changes nothing."""

    def apply(self, sent: SentArray, num_parameters: int, rng: np.random.Generator) -> SentArray:
        """Select the largest entries, of equal ones the first; the rest becomes the residual."""
        count = ceil(self.topk * num_parameters)
        due = sent.update[:num_parameters]
        if sent.residual is not None:
            due = due + sent.residual
        if count == num_parameters or not np.isfinite(due).all():
            return sent
        # Encoded and decoded again, here and in `Quantise`: what is counted is what the server gets.
        data = pack_places(find_largest_places(due, count), num_parameters)
        places = unpack_places(data, num_parameters, count)
        update = sent.update.copy()
        update[:num_parameters] = 0
        update[places] = due[places]
        buffers = update[num_parameters:]
        num_bytes = len(data) + due[places].nbytes + buffers.nbytes
        residual = due - update[:num_parameters]
        return replace(sent, update=update, num_bytes=num_bytes, places=places, residual=residual)


class Quantise(UplinkStep):
    """Rounds the parameters that are sent to a few levels, at random and without bias."""

    quantise: Annotated[int, Field(ge=1, le=8, strict=True)]
    """Bits of a parameter. Each 512 of them have their own levels, which take 8 bytes more."""

    def apply(self, sent: SentArray, num_parameters: int, rng: np.random.Generator) -> SentArray:
        """Round the update; one that is not finite stays as it is."""
        places: Places | slice = slice(num_parameters) if sent.places is None else sent.places
        values = sent.update[places]
        if not np.isfinite(values).all():
            return sent
        data = quantise_values(values, self.quantise, rng)
        update = sent.update.copy()
        update[places] = dequantise_values(data, self.quantise, len(values))
        buffers = update[num_parameters:]
        which = b"" if sent.places is None else pack_places(sent.places, num_parameters)
        return replace(sent, update=update, num_bytes=len(which) + len(data) + buffers.nbytes)


STEPS: Mapping[str, type[UplinkStep]] = {"clip": Clip, "noise": Noise, "topk": TopK, "quantise": Quantise}
"""Steps by their keys, in the only order that they may stand in."""


def _parse_step(given: object) -> object:
    """Parse a step from a mapping with one key of `STEPS`.

    Raises:
        ValueError: it is no such mapping.
    """
    if isinstance(given, UplinkStep):
        return given
    if not isinstance(given, Mapping) or len(given) != 1 or next(iter(given)) not in STEPS:
        keys = ", ".join(STEPS)
        raise ValueError(f"{given!r} is not a step; expected one key of {keys}, as in {{clip: 1.0}}")
    return STEPS[next(iter(given))].model_validate(given)


def check_step_order(uplink: "Sequence[Step]") -> "Sequence[Step]":
    """Check that the order of the steps makes sense, and return them.

    Raises:
        ValueError: noise without a clip, a step that stands after one that it must come before, or twice.
    """
    names = [next(iter(type(step).model_fields)) for step in uplink]
    order = list(STEPS)
    for before, after in pairwise(names):
        if order.index(after) < order.index(before):
            raise ValueError(f"{after} after {before} is in the wrong order; expected {', '.join(order)}")
        if after == before != "clip":
            raise ValueError(f"{after} is there twice; leave one out")
    if "noise" in names and "clip" not in names:
        raise ValueError(
            "noise without clip: its size is a multiple of the clip before it; add one, as in "
            "[{clip: 1.0}, {noise: 0.5}]"
        )
    return uplink


Step: TypeAlias = Annotated[Clip | Noise | TopK | Quantise, BeforeValidator(_parse_step)]
Uplink = Annotated[tuple[Step, ...], AfterValidator(check_step_order)]


def find_noise_multiplier(uplink: Sequence[UplinkStep]) -> float:
    """Find the noise multiplier of the steps, 0 without noise."""
    return next((step.noise for step in uplink if isinstance(step, Noise)), 0.0)


def find_clip(uplink: Sequence[UplinkStep]) -> float | None:
    """Find the norm that bounds an update, None if nothing does."""
    # Reversed: the last clip is the one that holds for what is sent.
    return next((step.clip for step in reversed(uplink) if isinstance(step, Clip)), None)


def send_update(
    update: Vector,
    uplink: Sequence[UplinkStep],
    num_parameters: int,
    rng: np.random.Generator,
    residual: Vector | None = None,
) -> SentArray:
    """Send an update through all steps; return it as it reaches the server, and its size.

    Args:
        update: Float32, shape (P,).
        uplink: The steps, in their order.
        num_parameters: W.
        rng: Seeded by run, client and round.
        residual: What earlier rounds did not send, shape (W,); None: nothing.
    """
    sent = SentArray(update, update.nbytes, residual=residual)
    for step in uplink:
        sent = step.apply(sent, num_parameters, rng)
    return sent


def find_largest_places(values: Vector, count: int) -> Places:
    """Find the places of the `count` entries of the largest magnitude, ascending; of equal ones the first."""
    sizes = np.abs(values)
    # Not by a sort, whose order of ties may differ from one processor to another.
    least = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    above = np.flatnonzero(sizes > least)
    ties = np.flatnonzero(sizes == least)[: count - len(above)]
    return np.sort(np.concatenate([above, ties]))

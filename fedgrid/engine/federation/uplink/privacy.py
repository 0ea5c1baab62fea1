"""Differential privacy of a run: its settings, what conflicts with them, and noise that the server adds."""

from collections.abc import Sequence
from hashlib import sha256
from math import sqrt
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.source import UPDATE, Vector
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.federation.uplink.steps import UplinkStep, find_clip, find_noise_multiplier


class Privacy(Section):
    """What an epsilon means, each client's budget, and the server's noise; none may be set without noise."""

    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Of (epsilon, delta)-differential privacy."""
    neighbours: Literal["absent", "replaced"] = "absent"
    """What must be indistinguishable from a client with its data: one whose update is zero, as usual and in
    opacus; or one with any other data, which is twice as far, so that it takes twice the noise."""
    central_noise: Annotated[float, Field(ge=0)] = 0.0
    """Noise multiplier of the Gaussian noise that the server adds to the sum of each group of updates that it
    averages, in units of the uplink's clip. For a server that is trusted, and whose models are not."""
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """The budget of each client: one that cannot pay for another round sends nothing any more; None: none."""

    omitted_defaults = ("epsilon",)


def is_private(uplink: Sequence[UplinkStep], privacy: Privacy) -> bool:
    """Check whether there is noise anywhere, so that epsilons are recorded."""
    return bool(find_noise_multiplier(uplink) or privacy.central_noise)


def find_privacy_problem(
    uplink: Sequence[UplinkStep],
    privacy: Privacy,
    averages_updates: bool,
    model: str,
    inputs: Inputs,
    num_classes: int,
) -> str | None:
    """Find what in a run conflicts with its noise; return one line with what to set, or None if all fits.

    Args:
        uplink: The steps between client and server.
        privacy: The run's settings of privacy.
        averages_updates: The algorithm's trait: whether its models are means of updates.
        model: Name of the model.
        inputs: What an example is.
        num_classes: Number of classes, L.
    """
    if privacy.central_noise and find_clip(uplink) is None:
        return (
            "privacy.central_noise without clip: its size is a multiple of the clip; add one, as in "
            "uplink: [{clip: 1.0}]"
        )
    if privacy.central_noise and find_noise_multiplier(uplink):
        return (
            "privacy.central_noise beside noise in the uplink: clients that add noise need not trust the "
            "server; take one of them"
        )
    if privacy.central_noise and not averages_updates:
        return (
            f"privacy.central_noise = {privacy.central_noise:g}: this algorithm's models are not only means "
            "of updates, so the server's noise would not cover them; take noise in the uplink, or an "
            "algorithm such as fedavg, with aggregate: mean"
        )
    if privacy.epsilon is not None and not find_noise_multiplier(uplink):
        return (
            f"privacy.epsilon = {privacy.epsilon:g} without noise in the uplink: with none nothing is within "
            "a budget, and what the server's noise costs is known after a round only; add it, as in uplink: "
            "[{clip: 1.0}, {noise: 1.0}]"
        )
    if is_private(uplink, privacy) and (buffer := _find_first_buffer(model, inputs, num_classes)):
        return (
            f"model {model} has buffers, as BatchNorm does ({buffer}), which no clip bounds and no noise "
            "covers; take a model without, such as tinyvgg or resnet9"
        )
    return None


def _find_first_buffer(model: str, inputs: Inputs, num_classes: int) -> str | None:
    """Find the name of the model's first buffer, None if it has none."""
    # Imported only here, so that runs without noise are configured without torch, which takes seconds to
    # load.
    from fedgrid.engine.federation.models.flat_vectors import build_layout

    # Buffers come after all parameters in a state vector.
    model_layout = build_layout(model, inputs, num_classes)
    return next(
        (name for name, part, _ in model_layout.slices() if part.start >= model_layout.num_parameters), None
    )


class CentralNoise:
    """The server's noise of one round, and how far each client has moved what was released with it.

    With the shares w_i of a group, the mean moves by at most C w_i / sum(w) if client i's update becomes
    zero; the noise has the standard deviation M C max(w) / sum(w), which for equal weights is that of McMahan
    et al. 2018, Algorithm 1: M C on the sum.
    """

    def __init__(self, multiplier: float, clip: float, seed: int, round_index: int) -> None:
        self._scale = multiplier * clip
        self._multiplier = multiplier
        self._seed = seed
        self._round_index = round_index
        self._released: dict[str, dict[int, float]] = {}

    def __call__(
        self, mean_P: Vector, group: Sequence[int], shares: Sequence[float] | None, output: str
    ) -> Vector:
        """Return a mean with noise. The same mean gets the same noise, and counts once.

        Raises:
            ValueError: it is of something that no clip bounds.
        """
        if output != UPDATE:
            raise ValueError(f"privacy.central_noise cannot cover means of {output}, which no clip bounds")
        weights = [1.0] * len(group) if shares is None else list(shares)
        # The noise is named by the group and its weights, not by a counter: whether a mean was computed
        # before, or comes from the cache, changes no bit, and a mean that is released twice is paid for once.
        name = sha256(repr((list(map(int, group)), weights)).encode()).hexdigest()[:16]
        self._released[name] = {
            client: weight / max(weights) / self._multiplier
            for client, weight in zip(group, weights, strict=True)
        }
        rng = make_generator(self._seed, f"central noise {name}", round_index=self._round_index)
        scale = np.float32(self._scale * max(weights) / sum(weights))
        return np.asarray(mean_P + scale * rng.standard_normal(len(mean_P), np.float32), np.float32)

    def compute_distances(self) -> dict[int, float]:
        """Compute how far each client has moved all that was released, in deviations of the noise."""
        squares: dict[int, float] = {}
        for released in self._released.values():
            for client, distance in released.items():
                squares[client] = squares.get(client, 0.0) + distance**2
        return {client: sqrt(square) for client, square in squares.items()}

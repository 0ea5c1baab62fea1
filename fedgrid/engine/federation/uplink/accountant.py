"""What it costs to send something: squared distances, and the epsilon that they add up to.

Source: Mironov, Renyi Differential Privacy, CSF 2017, arXiv:1702.07476, Corollary 3 (the Gaussian mechanism)
and Proposition 1 (composition); the conversion is Theorem 21 of Balle et al., Hypothesis Testing
Interpretations and Renyi Differential Privacy, AISTATS 2020, arXiv:1905.09982, at the orders that opacus 1.6
has, so that the figures are those of its `RDPAccountant`. What accumulates is the square of the distance that
a client can move what is released, in standard deviations of the noise.

Nothing is amplified by sampling. Clients that add noise send it under their names, so that the server knows
who took part; and `participation` draws a fixed number of clients, not each one independently as the
accountants' model has it. Hence each round counts in full in which a client took part, and no other.

Shapes: K clients of the federation.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.orders import Message, Order, Payload
from fedgrid.engine.federation.uplink.privacy import CentralNoise, Privacy
from fedgrid.engine.federation.uplink.replies import covered
from fedgrid.engine.federation.uplink.steps import UplinkStep, clip_of, noise_of

ORDERS = np.array([1 + tenths / 10 for tenths in range(1, 100)] + list(range(12, 64)))
"""Of the Renyi divergences, as in opacus."""
Spent: TypeAlias = NDArray[np.float64]
"""Squared distances so far, shape (K,); infinite once a client has sent something that no noise covers."""


def epsilon(spent: float, delta: float) -> float:
    """Return the least epsilon at `delta` of a Gaussian mechanism with this squared distance, at `ORDERS`."""
    if not 0 < spent < inf:
        return float(spent)
    divergences = ORDERS * spent / 2
    epsilons = divergences + np.log1p(-1 / ORDERS) - (np.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(epsilons.min()))


@dataclass(frozen=True)
class Accountant:
    """What each thing that a client sends costs in a run with noise (`uplink.ledger` adds it up)."""

    privacy: Privacy = Privacy()
    uplink: Sequence[UplinkStep] = ()
    seed: int = 0
    """Of the run."""
    sends: bool = True
    """Whether clients send anything."""
    message: Message | None = None
    """What clients say about their data before their first round."""
    encoder_updates: Mapping[int, int] = field(default_factory=dict)
    """How many updates of its encoder each client has sent before the first round."""

    def central_noise(self, round_index: int) -> CentralNoise | None:
        """Return the noise of a round's means, None if the server adds none."""
        clip = clip_of(self.uplink)
        if not self.privacy.central_noise or clip is None:
            return None
        return CentralNoise(self.privacy.central_noise, clip, self.seed, round_index)

    @property
    def scale(self) -> float:
        """How far the data of one client can move what is clipped, in clips."""
        return 2.0 if self.privacy.neighbours == "replaced" else 1.0

    def charges(
        self, messages: Mapping[int, Payload], round_index: int, again: Collection[int] = ()
    ) -> dict[int, float]:
        """Return, by client, the squared distance of what it has sent before a round (from 0) trains.

        That is its message, unless the server is trusted, and before the first round its updates of the
        encoder, of which all clients get the mean. The clients of `again` had sent a message before.
        """
        squares: dict[int, float] = {}
        if self.message is not None and not self.privacy.central_noise:
            for client, payload in messages.items():
                squares[client] = self.message.squared_distance(payload, self.scale, again=client in again)
        encoder = None if self.message is None else self.message.encoder
        if encoder is not None and round_index == 0:
            of_update = (self.scale / encoder.noise) ** 2 if encoder.noise else inf
            for client, count in self.encoder_updates.items():
                squares[client] = squares.get(client, 0.0) + count * of_update
        return squares

    @property
    def uncovered(self) -> str:
        """What clients do before they train that no noise covers."""
        encoder = None if self.message is None else self.message.encoder
        if self.encoder_updates and encoder is not None and not encoder.noise:
            return "train the encoder (algorithm.encoder.noise is 0)"
        return "describe their data"

    def distances(self, orders: Iterable[Order], replied: Iterable[int]) -> dict[int, float]:
        """Return, by client, the distance of what it has sent, in standard deviations of its noise."""
        if not self.sends:
            return {}
        by_client, noise = {order.client: order for order in orders}, noise_of(self.uplink)
        distances = {}
        for order in (by_client[client] for client in replied):
            arrays = 1 + len(covered(order.rule, self.uplink))
            distances[order.client] = inf if tells_choice(order) else sqrt(arrays) / noise
        return distances


def tells_choice(order: Order) -> bool:
    """Return whether a client's choice among models depends on its own images."""
    return len(order.candidates) > 1 and order.choose_on != "reference"

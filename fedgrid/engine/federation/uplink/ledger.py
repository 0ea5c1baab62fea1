"""What the clients of a run spend of their privacy in one round, and what they can still pay for.

With a budget (`privacy.epsilon`) a client whose epsilon would rise above it sends nothing any more. Each
client has its own, so a newcomer begins with all of it. A run goes on until its last round: once no client
can pay, its models stay as they are. What a round costs is known before it, since clients add the noise
themselves.

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
from math import inf, isinf, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.contract.orders import Message, Order, Payload
from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.record_names import CLUSTER_EPSILON, EPSILON
from fedgrid.engine.federation.uplink.privacy import CentralNoise, Privacy, is_private
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
    """What each thing that a client sends costs in a run with noise; a `Ledger` adds it up."""

    privacy: Privacy = Privacy()
    uplink: Sequence[UplinkStep] = ()
    seed: int = 0
    """Of the run."""
    sends: bool = True
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
            distances[order.client] = inf if order.tells_fit else sqrt(arrays) / noise
        return distances


class Ledger:
    """Of a round without noise: nothing is counted, and every client can pay."""

    spent_K: Spent | None = None
    """What each client has spent so far; None without noise."""
    noise: CentralNoise | None = None
    """What the server adds to the round's means; None if the clients add noise, or if there is none."""

    def can_pay(self, clients: Sequence[int]) -> Sequence[int]:
        """Return those of `clients` that can pay for one more message."""
        return clients

    def charge(self, messages: Mapping[int, Payload], again: Collection[int]) -> None:
        """Charge what clients have sent before the round trains; `again` had sent a message before."""

    def affordable(self, orders: Sequence[Order]) -> Sequence[Order]:
        """Return the orders that leave their client within its budget.

        Raises:
            FinalError: in the first round, if no client can pay for it.
        """
        return orders

    def settle(self, orders: Sequence[Order], replied: Iterable[int]) -> tuple[str, ...]:
        """Charge the round's updates, once the server has aggregated them; return warnings.

        `replied` are the clients that have sent something, usable or not.
        """
        return ()

    def of_round(self) -> Mapping[str, float]:
        """Return the columns of the round's row, after `settle`."""
        return {}

    def of_clients(self, labels_K: Labels) -> Sequence[Mapping[str, float]]:
        """Return the columns of the clients' rows, by client, after `settle`."""
        return [{}] * len(labels_K)


def ledger_of(accountant: Accountant, spent_K: Spent | None, num_clients: int, round_index: int) -> Ledger:
    """Return the ledger of a round, from 0; `spent_K` is what was spent before it, None before the first."""
    if not is_private(accountant.uplink, accountant.privacy):
        return Ledger()
    return _PrivacyLedger(accountant, spent_K, num_clients, round_index)


class _PrivacyLedger(Ledger):
    """Of a round of a run with noise."""

    def __init__(
        self, accountant: Accountant, spent_K: Spent | None, num_clients: int, round_index: int
    ) -> None:
        self._accountant, self._privacy = accountant, accountant.privacy
        self._round_index, self._is_first = round_index, spent_K is None
        self._was_uncovered = spent_K is not None and bool(np.isinf(spent_K).any())
        self._charges: Mapping[int, float] = {}
        self.spent_K = np.zeros(num_clients) if spent_K is None else spent_K.copy()
        self.noise = accountant.central_noise(round_index)

    def can_pay(self, clients: Sequence[int]) -> Sequence[int]:
        budget, message = self._privacy.epsilon, self._accountant.message
        if budget is None or message is None:
            return clients
        cost = sqrt(message.squared_distance({}, 1.0, again=True))
        return [client for client in clients if self._epsilon_after(client, cost) <= budget]

    def charge(self, messages: Mapping[int, Payload], again: Collection[int]) -> None:
        self._charges = self._accountant.charges(messages, self._round_index, again)
        self._add(self._charges)

    def affordable(self, orders: Sequence[Order]) -> Sequence[Order]:
        budget = self._privacy.epsilon
        if budget is None:
            return orders
        within = self._within(budget, orders)
        if self._is_first and orders and not within:
            costs = self._costs(orders)
            least = min(self._epsilon_after(client, cost) for client, cost in costs.items())
            before = min(self._epsilon_after(client, 0.0) for client in costs)
            advice = "no noise covers what they send" if isinf(least) else "raise the budget or the noise"
            raise FinalError(
                f"privacy.epsilon = {budget:g}: no client can pay for round 1: its epsilon is {before:.3g} "
                f"before it and {least:.3g} after it; {advice}"
            )
        return within

    def settle(self, orders: Sequence[Order], replied: Iterable[int]) -> tuple[str, ...]:
        distances = self._accountant.distances(orders, replied) if self.noise is None else self.noise.spent()
        scale = self._accountant.scale
        self._add({client: (scale * distance) ** 2 for client, distance in distances.items()})
        return (*self._uncovered(orders), *self._exhausted(orders))

    def of_round(self) -> Mapping[str, float]:
        """Return the largest epsilon of any client."""
        return {EPSILON: epsilon(float(self._spent_K.max()), self._privacy.delta)}

    def of_clients(self, labels_K: Labels) -> Sequence[Mapping[str, float]]:
        """Return each client's epsilon, and that of its cluster as one.

        Members of a cluster that each add noise of their own spend the sum of their squares. Under the
        server's noise their distances add up at most, as they do for members of equal weight that took part
        in the same rounds.
        """
        power = 1 if self._privacy.central_noise == 0 else 2
        totals = np.bincount(labels_K, self._spent_K ** (1 / power)) ** power
        delta = self._privacy.delta
        of_clusters = [epsilon(total, delta) for total in totals.tolist()]
        return [
            {EPSILON: epsilon(spent, delta), CLUSTER_EPSILON: of_clusters[label]}
            for spent, label in zip(self._spent_K.tolist(), labels_K.tolist(), strict=True)
        ]

    @property
    def _spent_K(self) -> Spent:
        assert self.spent_K is not None
        return self.spent_K

    def _add(self, squares: Mapping[int, float]) -> None:
        for client, squared in squares.items():
            self._spent_K[client] += squared

    def _costs(self, orders: Sequence[Order]) -> dict[int, float]:
        return self._accountant.distances(orders, [order.client for order in orders])

    def _within(self, budget: float, orders: Sequence[Order]) -> list[Order]:
        costs = self._costs(orders)
        return [
            order
            for order in orders
            if self._epsilon_after(order.client, costs.get(order.client, 0.0)) <= budget
        ]

    def _epsilon_after(self, client: int, distance: float) -> float:
        """Return a client's epsilon once it has moved what is released by this many deviations."""
        squared = float(self._spent_K[client]) + (self._accountant.scale * distance) ** 2
        return epsilon(squared, self._privacy.delta)

    def _uncovered(self, orders: Iterable[Order]) -> Iterable[str]:
        """Warn in the first round of what no noise covers."""
        trusted = self._privacy.central_noise > 0
        if trusted and self._is_first:
            yield "epsilon covers the models, but not which clients share one"
        if self._was_uncovered:
            return
        what = None
        if any(map(isinf, self._charges.values())):
            what = self._accountant.uncovered
        elif not trusted and any(order.tells_fit for order in orders):
            what = "tell how models fit their images"
        if what is not None:
            yield f"clients {what}, which no noise covers: their epsilon is infinite"

    def _exhausted(self, orders: Sequence[Order]) -> Iterable[str]:
        """Warn in the last round that some clients can pay for."""
        budget = self._privacy.epsilon
        if budget is not None and (last := len(orders) - len(self._within(budget, orders))):
            yield (
                f"{last} of the {len(orders)} clients asked have spent their budget of epsilon "
                f"{budget:g}: they send nothing from now on"
            )

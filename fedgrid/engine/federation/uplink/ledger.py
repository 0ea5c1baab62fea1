"""The privacy that the clients of a run spend in one round, and what they can still pay for.

With a budget (`privacy.epsilon`) a client whose epsilon would rise above it sends nothing any more.
Each client has its own, so a newcomer begins with all of it. A run goes on until its last round: once no
client can pay, its models stay as they are. What a round costs is known before it, since clients add the
noise themselves.

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
from fedgrid.engine.federation.uplink.replies import list_covered_outputs
from fedgrid.engine.federation.uplink.steps import UplinkStep, find_clip, find_noise_multiplier

ORDERS = np.array([1 + tenths / 10 for tenths in range(1, 100)] + list(range(12, 64)))
"""Orders of the Renyi divergences, as in opacus."""
Spent: TypeAlias = NDArray[np.float64]
"""Squared distances so far, shape (K,); infinite once a client has sent something that no noise covers."""


def compute_epsilon(spent: float, delta: float) -> float:
    """Compute the least epsilon of a Gaussian mechanism with this squared distance, over all `ORDERS`.

    0 and infinity stay as they are; with `delta` of the usual size nothing is below 0.
    """
    if not 0 < spent < inf:
        return float(spent)
    # Corollary 3 of Mironov: at order a the divergence is a times the squared distance, halved. The next line
    # is Theorem 21 of Balle et al.; any order gives a valid epsilon, so the least is taken.
    divergences = ORDERS * spent / 2
    epsilons = divergences + np.log1p(-1 / ORDERS) - (np.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(epsilons.min()))


@dataclass(frozen=True)
class Accountant:
    """Prices of all that a client sends in a run with noise; a `Ledger` adds them up."""

    privacy: Privacy = Privacy()
    uplink: Sequence[UplinkStep] = ()
    seed: int = 0
    """The run's root seed."""
    sends_updates: bool = True
    """Whether clients send updates at all; an algorithm of local training only has none."""
    message: Message | None = None
    """The message about their data that clients send before their first round; None: they send none."""
    encoder_updates: Mapping[int, int] = field(default_factory=dict)
    """Number of updates of the encoder that each client has sent before the first round."""

    @property
    def scale(self) -> float:
        """Distance that the data of one client can move what is clipped, in clips."""
        # A replaced update can lie on the other side of the ball that the clip draws around zero: twice as
        # far.
        return 2.0 if self.privacy.neighbours == "replaced" else 1.0

    def compute_charges(
        self, messages: Mapping[int, Payload], round_index: int, again: Collection[int] = ()
    ) -> dict[int, float]:
        """Compute the squared distance of what each client has sent before a round trains.

        That is its message, unless the server is trusted, and before the first round its updates of the
        encoder, of which all clients get the mean.

        Args:
            messages: Payload of each client that has sent a message.
            round_index: The round, from 0.
            again: The clients that had sent a message before; by default none.
        """
        if self.message is None:
            return {}
        squares: dict[int, float] = {}
        if not self.privacy.central_noise:
            for client, payload in messages.items():
                squares[client] = self.message.squared_distance(payload, self.scale, again=client in again)
        encoder = self.message.encoder
        if encoder is not None and round_index == 0:
            update_square = (self.scale / encoder.noise) ** 2 if encoder.noise else inf
            for client, count in self.encoder_updates.items():
                squares[client] = squares.get(client, 0.0) + count * update_square
        return squares

    @property
    def uncovered_action(self) -> str:
        """What clients do before they train that no noise covers, as a verb phrase for a warning."""
        encoder = None if self.message is None else self.message.encoder
        if self.encoder_updates and encoder is not None and not encoder.noise:
            return "train the encoder (algorithm.encoder.noise is 0)"
        return "describe their data"

    def compute_distances(self, orders: Iterable[Order]) -> dict[int, float]:
        """Compute the distance of what each client's order has it send, in deviations of its noise.

        An update and the rule's k other arrays are each clipped and noised alone, so their distances add up
        as sqrt(1 + k). A client that only answers sends no update.
        """
        noise = find_noise_multiplier(self.uplink)
        return {
            order.client: inf
            if order.reveals_fit
            else sqrt((order.steps != 0) + len(list_covered_outputs(order.rule, self.uplink))) / noise
            for order in (orders if self.sends_updates else ())
        }


class Ledger:
    """What one round costs each client. Without noise nothing is counted, and every client can pay.

    Its methods are called in this order: `select_payers`, `charge_messages`, `select_affordable` while the
    round is planned, `charge_updates` after the server has aggregated, then `build_round_columns` and
    `build_client_columns` for the records.
    """

    def __init__(
        self, accountant: Accountant, spent_K: Spent | None, num_clients: int, round_index: int
    ) -> None:
        """Begin a round, from 0; `spent_K` is what was spent before it, None before the first."""
        self._accountant = accountant
        self._privacy = accountant.privacy
        self._round_index = round_index
        self._before_K = spent_K
        self._charges: Mapping[int, float] = {}
        self.spent_K: Spent | None = None
        """What each client has spent so far, shape (K,); None without noise."""
        self.noise: CentralNoise | None = None
        """The noise that the server adds to the round's means; None if the clients add theirs, or if there is
        none."""
        if is_private(accountant.uplink, self._privacy):
            # A copy: the state of the round before must stay as it is, because a failed round starts again
            # from it.
            self.spent_K = np.zeros(num_clients) if spent_K is None else spent_K.copy()
        clip = find_clip(accountant.uplink)
        multiplier = self._privacy.central_noise
        if multiplier and clip is not None:
            self.noise = CentralNoise(multiplier, clip, accountant.seed, round_index)

    def select_payers(self, clients: Sequence[int]) -> Sequence[int]:
        """Select those of `clients` that can pay for one more message."""
        message = self._accountant.message
        if self._privacy.epsilon is None or message is None:
            return clients
        cost = message.squared_distance({}, 1.0, again=True)
        return [client for client in clients if self._project_epsilon(client, cost) <= self._privacy.epsilon]

    def charge_messages(self, messages: Mapping[int, Payload], again: Collection[int]) -> None:
        """Charge what clients have sent before the round trains; `again` had sent a message before."""
        self._charges = self._accountant.compute_charges(messages, self._round_index, again)
        self._add_squares(self._charges)

    def select_affordable(self, orders: Sequence[Order]) -> Sequence[Order]:
        """Select the orders that leave their client within its budget.

        Raises:
            FinalError: in the first round, if no client can pay for it.
        """
        budget = self._privacy.epsilon
        if budget is None:
            return orders
        after = self._project_epsilons(orders)
        # Only in round 1 is it a mistake of the user's: later rounds end with clients that have spent their
        # budget.
        if self._before_K is None and min(after.values(), default=0.0) > budget:
            least = min(after.values())
            before = min(self._project_epsilon(client, 0.0) for client in after)
            advice = "no noise covers what they send" if isinf(least) else "raise the budget or the noise"
            raise FinalError(
                f"privacy.epsilon = {budget:g}: no client can pay for round 1: its epsilon is {before:.3g} "
                f"before it and {least:.3g} after it; {advice}"
            )
        return [order for order in orders if after[order.client] <= budget]

    def charge_updates(self, orders: Sequence[Order], replied: Iterable[int]) -> tuple[str, ...]:
        """Charge the round's updates, once the server has aggregated them; return warnings.

        Args:
            orders: Those of the round, within budget.
            replied: The clients that have sent something, usable or not.
        """
        if self.spent_K is None:
            return ()
        if self.noise is None:
            by_client = {order.client: order for order in orders}
            # Noise at the clients: each one that replied pays. Noise at the server: each one in a mean that
            # it released.
            distances = self._accountant.compute_distances([by_client[client] for client in replied])
        else:
            distances = self.noise.compute_distances()
        scale = self._accountant.scale
        self._add_squares({client: (scale * distance) ** 2 for client, distance in distances.items()})
        return (*self._warn_uncovered(orders), *self._warn_exhausted(orders))

    def build_round_columns(self) -> Mapping[str, float]:
        """Build the columns of the round's row, after `charge_updates`: the largest epsilon of any client."""
        if self.spent_K is None:
            return {}
        return {EPSILON: compute_epsilon(float(self.spent_K.max()), self._privacy.delta)}

    def build_client_columns(self, labels_K: Labels) -> Sequence[Mapping[str, float]]:
        """Build the columns of the clients' rows, after `charge_updates`: its epsilon, and that of its
        cluster.

        Members of a cluster that each add noise of their own spend the sum of their squares. Under the
        server's noise their distances add up at most, as they do for members of equal weight that took part
        in the same rounds.
        """
        if self.spent_K is None:
            return [{}] * len(labels_K)
        power = 1 if self._privacy.central_noise == 0 else 2
        totals = np.bincount(labels_K, self.spent_K ** (1 / power)) ** power
        delta = self._privacy.delta
        cluster_epsilons = [compute_epsilon(total, delta) for total in totals.tolist()]
        return [
            {EPSILON: compute_epsilon(spent, delta), CLUSTER_EPSILON: cluster_epsilons[label]}
            for spent, label in zip(self.spent_K.tolist(), labels_K.tolist(), strict=True)
        ]

    def _add_squares(self, squares: Mapping[int, float]) -> None:
        """Add squared distances to what clients have spent; without noise nothing happens."""
        if self.spent_K is not None:
            for client, squared in squares.items():
                self.spent_K[client] += squared

    def _project_epsilon(self, client: int, squared: float) -> float:
        """Compute a client's epsilon after a further release.

        `squared` is the squared distance of the release in deviations of its noise, if neighbours are one
        clip apart.
        """
        assert self.spent_K is not None, "a budget needs noise"
        return compute_epsilon(
            float(self.spent_K[client]) + self._accountant.scale**2 * squared, self._privacy.delta
        )

    def _project_epsilons(self, orders: Sequence[Order]) -> dict[int, float]:
        """Compute each client's epsilon if it sends what its order demands."""
        costs = self._accountant.compute_distances(orders)
        clients = [order.client for order in orders]
        return {client: self._project_epsilon(client, costs.get(client, 0.0) ** 2) for client in clients}

    def _warn_uncovered(self, orders: Iterable[Order]) -> Iterable[str]:
        """Warn in the first round of what no noise covers."""
        trusted = self._privacy.central_noise > 0
        if trusted and self._before_K is None:
            yield "epsilon covers the models, but not which clients share one"
        if self._before_K is not None and np.isinf(self._before_K).any():
            return
        what = None
        if any(map(isinf, self._charges.values())):
            what = self._accountant.uncovered_action
        elif not trusted and any(order.reveals_fit for order in orders):
            what = "tell how models fit their images"
        if what is not None:
            yield f"clients {what}, which no noise covers: their epsilon is infinite"

    def _warn_exhausted(self, orders: Sequence[Order]) -> Iterable[str]:
        """Warn in the last round that some clients can pay for."""
        budget = self._privacy.epsilon
        if budget is None:
            return
        # The next round's orders are not drawn yet, so those of this round stand for them.
        if last := sum(after > budget for after in self._project_epsilons(orders).values()):
            yield (
                f"{last} of the {len(orders)} sampled clients have spent their budget of epsilon "
                f"{budget:g}: they send nothing from now on"
            )

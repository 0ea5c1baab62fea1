"""Which clients are present, sampled and dropped in a round: pure functions of the run's seed."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import floor

from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.contract.encoder import EncoderSettings
from fedgrid.algorithms.contract.orders import Order, Presence
from fedgrid.engine.federation.configuration.run_config import RunConfig, never_held_out, num_held_out
from fedgrid.engine.federation.seeds import generator


@dataclass(frozen=True)
class Attendance:
    """The clients that take part in one round, ascending."""

    present: tuple[int, ...]
    """Those that have joined."""
    newcomers: tuple[int, ...]
    """Those of them whose first round this is: all in the first one."""
    sampled: tuple[int, ...]
    """Those of them that receive an order; at least one."""
    participation: float = 1.0
    """The share that is sampled, in (0, 1]."""
    drops_out: Callable[[int], bool] = lambda client: False

    @property
    def presence(self) -> Presence:
        """Which clients an algorithm may give orders to."""
        return Presence(self.present, self.sampled, self.participation)

    def reached(self, orders: Sequence[Order]) -> list[Order]:
        """Return the orders of the clients that reply."""
        return [order for order in orders if not self.drops_out(order.client)]


@dataclass(frozen=True)
class Participation:
    """Partial participation, newcomers and faults; by default every client takes part in every round."""

    num_clients: int
    seed: int
    participation: float = 1.0
    """Share of the present clients that is sampled, in (0, 1]."""
    dropout: float = 0.0
    """Probability that a sampled client sends no reply, in [0, 1)."""
    joins: Mapping[int, int] = field(default_factory=dict)
    """Newcomers: client -> its first round, from 1."""
    held_out: frozenset[int] = frozenset()
    """Clients that never join."""

    @classmethod
    def of(cls, config: RunConfig, truth_K: Labels) -> "Participation":
        """Return that of a run; `truth_K` are the hidden groups at its start."""
        others = never_held_out(config.joins, config.faults, config.drift)
        count = num_held_out(config.held_out, config.clients)
        held_out = draw_held_out(truth_K, config.root_seed, count, others)
        return cls(
            config.clients,
            config.root_seed,
            config.participation,
            config.dropout,
            config.joins,
            held_out,
        )

    def attendance(self, round_index: int) -> Attendance:
        """Return the clients that take part in a round; `round_index` counts from 0."""
        present = self._present(round_index)
        before = set(self._present(round_index - 1)) if round_index else set()
        newcomers = tuple(client for client in present if client not in before)
        sampled = self._sampled(present, round_index)
        drops_out = partial(self._drops_out, round_index=round_index)
        return Attendance(present, newcomers, sampled, self.participation, drops_out)

    def _present(self, round_index: int) -> tuple[int, ...]:
        return tuple(
            client
            for client in range(self.num_clients)
            if self.joins.get(client, 1) <= round_index + 1 and client not in self.held_out
        )

    def _sampled(self, present: tuple[int, ...], round_index: int) -> tuple[int, ...]:
        size = max(1, floor(self.participation * len(present) + 0.5))
        if size == len(present):
            return present
        rng = generator(self.seed, "participation", round_index=round_index)
        return tuple(sorted(rng.choice(present, size, replace=False).tolist()))

    def _drops_out(self, client: int, *, round_index: int) -> bool:
        if not self.dropout:
            return False
        rng = generator(self.seed, "dropout", client=client, round_index=round_index)
        return bool(rng.random() < self.dropout)


def draw_held_out(truth_K: Labels, seed: int, count: int, others: Collection[int] = ()) -> frozenset[int]:
    """Return `count` clients that never train; none of `others`.

    A hidden group keeps a client that trains, unless too few clients are left then.
    """
    clients = [client for client in range(len(truth_K)) if client not in others]
    drawn = generator(seed, "held out").permutation(clients).tolist()
    last_of_groups = {int(truth_K[client]): client for client in drawn}.values()
    return frozenset(sorted(drawn, key=lambda client: client in last_of_groups)[:count])


def encoder_clients(settings: EncoderSettings, seed: int, present: Sequence[int], index: int) -> list[int]:
    """Return the clients of a federated round of the encoder, ascending; rounds count from 0.

    `present` are the clients that are there in round 1.
    """
    count = max(1, round(settings.participation * len(present)))
    rng = generator(seed, "encoder clients", round_index=index)
    return sorted(rng.permutation(present)[:count].tolist())


def updates_sent(settings: EncoderSettings, seed: int, present: Sequence[int]) -> Mapping[int, int]:
    """Return how many updates of the encoder each client has sent, of those that have sent any."""
    rounds = range(settings.federated)
    return Counter(client for index in rounds for client in encoder_clients(settings, seed, present, index))

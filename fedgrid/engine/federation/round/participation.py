"""Which clients are present, sampled and dropped in a round: pure functions of the run's seed."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import floor

from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.contract.encoder import EncoderSettings
from fedgrid.algorithms.contract.orders import Order, Presence
from fedgrid.engine.federation.configuration.run_config import RunConfig, count_held_out, find_never_held_out
from fedgrid.engine.federation.seeds import make_generator


@dataclass(frozen=True)
class Attendance:
    """The clients that take part in one round, in ascending order."""

    present: tuple[int, ...]
    """The clients that have joined."""
    newcomers: tuple[int, ...]
    """Those of them whose first round this is: all in the first one."""
    sampled: tuple[int, ...]
    """Those of them that may receive an order; at least one."""
    participation: float = 1.0
    """Share of the present clients that is sampled, in (0, 1]."""
    drops_out: Callable[[int], bool] = lambda client: False
    """Whether a client sends no reply."""

    @property
    def presence(self) -> Presence:
        """Which clients an algorithm may give orders to."""
        return Presence(self.present, self.sampled, self.participation)

    def select_reached(self, orders: Sequence[Order]) -> list[Order]:
        """Select the orders of the clients that reply."""
        return [order for order in orders if not self.drops_out(order.client)]


@dataclass(frozen=True)
class Participation:
    """Partial participation, newcomers and dropouts; by default every client takes part in every round."""

    num_clients: int
    """Number of clients of the federation, K."""
    seed: int
    """The run's root seed."""
    participation: float = 1.0
    """Share of the present clients that is sampled, in (0, 1]."""
    dropout: float = 0.0
    """Probability that a sampled client sends no reply, in [0, 1)."""
    joins: Mapping[int, int] = field(default_factory=dict)
    """Newcomers: client -> its first round, from 1."""
    held_out: frozenset[int] = frozenset()
    """Clients that never join."""

    @classmethod
    def from_config(cls, config: RunConfig, truth_K: Labels) -> "Participation":
        """Build the participation of a run; `truth_K` are the hidden groups at its start, shape (K,)."""
        others = find_never_held_out(config.joins, config.faults, config.drift)
        count = count_held_out(config.held_out, config.clients)
        held_out = draw_held_out(truth_K, config.root_seed, count, others)
        return cls(
            config.clients,
            config.root_seed,
            config.participation,
            config.dropout,
            config.joins,
            held_out,
        )

    def draw_attendance(self, round_index: int) -> Attendance:
        """Draw the clients that take part in a round, from 0; the same for the same seed."""
        present = self._find_present(round_index)
        before = set(self._find_present(round_index - 1)) if round_index else set()
        newcomers = tuple(client for client in present if client not in before)
        sampled = self._draw_sample(present, round_index)
        drops_out = partial(self._drops_out, round_index=round_index)
        return Attendance(present, newcomers, sampled, self.participation, drops_out)

    def _find_present(self, round_index: int) -> tuple[int, ...]:
        """List the clients that have joined by a round and are not held out."""
        return tuple(
            client
            for client in range(self.num_clients)
            if self.joins.get(client, 1) <= round_index + 1 and client not in self.held_out
        )

    def _draw_sample(self, present: tuple[int, ...], round_index: int) -> tuple[int, ...]:
        """Draw the clients that may receive an order, ascending."""
        # Half rounds up. `round` goes to the even number: 2.5 clients would be 2, and 3.5 would be 4.
        size = max(1, floor(self.participation * len(present) + 0.5))
        # No draw where all are taken, so that full participation needs no generator.
        if size == len(present):
            return present
        rng = make_generator(self.seed, "participation", round_index=round_index)
        return tuple(sorted(rng.choice(present, size, replace=False).tolist()))

    def _drops_out(self, client: int, *, round_index: int) -> bool:
        """Check whether a client drops out of a round.

        Each client has a draw of its own, which does not depend on the others of the round.
        """
        if not self.dropout:
            return False
        rng = make_generator(self.seed, "dropout", client=client, round_index=round_index)
        return bool(rng.random() < self.dropout)


def draw_held_out(truth_K: Labels, seed: int, count: int, others: Collection[int] = ()) -> frozenset[int]:
    """Draw `count` clients that never train.

    A hidden group keeps a client that trains, unless too few clients are left then.

    Args:
        truth_K: Hidden group of each client, shape (K,).
        seed: The run's root seed.
        count: Number of clients to hold out.
        others: Clients that must not be drawn; by default none.
    """
    clients = [client for client in range(len(truth_K)) if client not in others]
    drawn = make_generator(seed, "held out").permutation(clients).tolist()
    # The last client of each group in the drawn order is sorted to the end, and so held out only when no
    # other is left.
    last_of_groups = {int(truth_K[client]): client for client in drawn}.values()
    return frozenset(sorted(drawn, key=lambda client: client in last_of_groups)[:count])


def draw_encoder_clients(
    settings: EncoderSettings, seed: int, present: Sequence[int], index: int
) -> list[int]:
    """Draw the clients that train the encoder in one of its federated rounds, ascending.

    Args:
        settings: Those of the encoder, with the share of clients in a round.
        seed: The run's root seed.
        present: The clients that are present in round 1 of the run.
        index: The encoder's round, from 0.
    """
    count = max(1, round(settings.participation * len(present)))
    rng = make_generator(seed, "encoder clients", round_index=index)
    return sorted(rng.permutation(present)[:count].tolist())


def count_encoder_updates(settings: EncoderSettings, seed: int, present: Sequence[int]) -> Mapping[int, int]:
    """Count the updates of the encoder that each client sends in all its rounds.

    Clients that send none are left out.
    """
    rounds = range(settings.federated)
    return Counter(
        client for index in rounds for client in draw_encoder_clients(settings, seed, present, index)
    )

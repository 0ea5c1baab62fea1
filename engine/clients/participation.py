"""Which clients are present, sampled and dropped in a round: pure functions of the run's seed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor

from fedgrid.algorithms.contract.orders import Presence
from fedgrid.engine.seeds import generator


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

    def present(self, round_index: int) -> tuple[int, ...]:
        """Return the clients that have joined, ascending; `round_index` counts from 0."""
        return tuple(
            client for client in range(self.num_clients) if self.joins.get(client, 1) <= round_index + 1
        )

    def newcomers(self, round_index: int) -> list[int]:
        """Return the clients whose first round this is, ascending: all that are present in the first one."""
        before = self.present(round_index - 1) if round_index else ()
        return sorted(set(self.present(round_index)) - set(before))

    def sampled(self, round_index: int) -> tuple[int, ...]:
        """Return the present clients that receive an order, ascending; at least one."""
        present = self.present(round_index)
        size = max(1, floor(self.participation * len(present) + 0.5))
        if size == len(present):
            return present
        rng = generator(self.seed, "participation", round_index=round_index)
        return tuple(sorted(rng.choice(present, size, replace=False).tolist()))

    def presence(self, round_index: int) -> Presence:
        """Return which clients an algorithm may give orders to."""
        return Presence(self.present(round_index), self.sampled(round_index), self.participation)

    def dropped(self, round_index: int, asked: Iterable[int]) -> frozenset[int]:
        """Return those of the clients with an order that send nothing back."""
        if not self.dropout:
            return frozenset()
        return frozenset(
            client
            for client in asked
            if generator(self.seed, "dropout", client=client, round_index=round_index).random() < self.dropout
        )

"""Who is there in a round, who takes part, and who drops out: pure functions of the run's seed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor

from fedgrid.algorithms.contract.orders import Presence
from fedgrid.engine.seeds import generator


@dataclass(frozen=True)
class Participation:
    """Partial participation, newcomers and faults; by default everybody takes part in every round."""

    num_clients: int
    seed: int
    participation: float = 1.0
    dropout: float = 0.0
    joins: Mapping[int, int] = field(default_factory=dict)

    def present(self, round_index: int) -> tuple[int, ...]:
        """Return the clients that have joined, ascending."""
        return tuple(
            client for client in range(self.num_clients) if self.joins.get(client, 1) <= round_index + 1
        )

    def sampled(self, round_index: int) -> tuple[int, ...]:
        """Return those of the present clients that are asked, ascending: their share, at least one."""
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

"""The clients of a run that attack or move, and what the records say of them.

Shapes: K clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.clients.messages import ClientData, Moved


@dataclass(frozen=True)
class Changes:
    """The clients of a run that are not as ordinary ones are."""

    moved: Mapping[int, Moved] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    """Attacker -> what it does."""

    @classmethod
    def of(cls, clients: Sequence[ClientData]) -> "Changes":
        """Return those among the clients of a run."""
        return cls(
            {data.client: data.moved for data in clients if data.moved is not None},
            {data.client: data.fault for data in clients if data.fault},
        )

    def truth(self, truth_K: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Return the hidden groups in a round, shape (K,); `truth_K` are those of the start."""
        now_K = truth_K.copy()
        for client, moved in self.moved.items():
            if round_index >= moved.round_index:
                now_K[client] = moved.group
        return now_K

    def begins(self, round_index: int) -> bool:
        """Return whether a client moves in this round."""
        return any(moved.round_index == round_index for moved in self.moved.values())

    def note(self, rows: Sequence[dict[str, Any]], round_index: int) -> None:
        """Put into the rows of `clients.parquet` of a round what moved clients hold now, and who attacks."""
        for row in rows:
            moved = self.moved.get(row["client"])
            if moved is not None and round_index >= moved.round_index:
                row["true_cluster"] = moved.group
                row["train_images"], row["test_images"] = len(moved.train), len(moved.test)
            if self.faults:
                row["fault"] = self.faults.get(row["client"])

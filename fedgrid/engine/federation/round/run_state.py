"""A run between two rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import State
from fedgrid.engine.federation.clients.messages import Memories


@dataclass(frozen=True)
class RunState:
    """A run between two rounds; all that a checkpoint stores."""

    rounds_done: int
    state: State
    memories: Memories = field(default_factory=dict)
    """Client -> what it remembers: the optimizer's state if training keeps it, a local rule's arrays."""
    memory_rounds: Mapping[int, int] = field(default_factory=dict)
    """Client -> the round, counted from 1, that last changed its memory."""
    spent_K: NDArray[np.float64] | None = None
    """What the clients of a run with noise have spent of their privacy (`uplink.ledger.Spent`), shape (K,);
    None without noise."""
    best: NDArray[np.float64] | None = None
    """The round with the best validation score so far, from 1, and the score; None without
    `training.stop_after`."""

    def after_round(
        self,
        state: State,
        memories: Memories,
        spent_K: NDArray[np.float64] | None = None,
        best: NDArray[np.float64] | None = None,
    ) -> "RunState":
        """Return the state after one more round, in which `memories` changed."""
        number = self.rounds_done + 1
        return RunState(
            number,
            state,
            {**self.memories, **memories},
            {**self.memory_rounds, **dict.fromkeys(memories, number)},
            spent_K,
            best,
        )

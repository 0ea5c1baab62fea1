"""The state of a run between two rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import State
from fedgrid.engine.federation.clients.messages import Memories


@dataclass(frozen=True)
class RunState:
    """The state of a run between two rounds; all that a checkpoint stores.

    Everything that a later round depends on and that the configuration does not determine is here, so that a
    resumed run has the bits of an uninterrupted one.
    """

    rounds_done: int
    """Number of rounds that are done."""
    state: State
    """The algorithm's state."""
    memories: Memories = field(default_factory=dict)
    """What each client remembers: the optimizer's state if training keeps it, a local rule's arrays."""
    memory_rounds: Mapping[int, int] = field(default_factory=dict)
    """The round, from 1, that last changed each client's memory; a checkpoint writes only changed ones."""
    spent_K: NDArray[np.float64] | None = None
    """What each client of a run with noise has spent of its privacy (`uplink.ledger.Spent`), shape (K,); None
    without noise."""
    best: NDArray[np.float64] | None = None
    """The round with the best validation score so far, from 1, and the score, shape (2,); None without
    `training.stop_after`."""

    def advance_round(
        self,
        state: State,
        memories: Memories,
        spent_K: NDArray[np.float64] | None = None,
        best: NDArray[np.float64] | None = None,
    ) -> "RunState":
        """Build the state after one more round.

        Args:
            state: The algorithm's, after that round.
            memories: Memories that changed in it, by client.
            spent_K: What clients have spent of their privacy, shape (K,); None without noise.
            best: The best round and its score, shape (2,); None: there is none.
        """
        number = self.rounds_done + 1
        return RunState(
            number,
            state,
            {**self.memories, **memories},
            {**self.memory_rounds, **dict.fromkeys(memories, number)},
            spent_K,
            best,
        )

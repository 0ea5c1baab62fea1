"""What the rounds of a run took, as its folder records it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


@dataclass(frozen=True)
class Times:
    """Sums over the recorded rounds of a run, in whatever session they were run."""

    seconds: float = 0.0
    """Training, testing, clustering and saving; not the waiting for other runs."""
    alone_seconds: float = 0.0
    """What that would have been without the round store."""
    rounds: int = 0
    rounds_computed: float = 0.0
    """Of them what it did not take from the store; a round counts by the share of its clients."""
    peak_memory_mb: float | None = None
    """The most of any round."""

    @property
    def has_taken(self) -> bool:
        """Whether any round was taken from the round store."""
        return self.rounds_computed < self.rounds


def computed_share(timing: Mapping[str, Any]) -> float:
    """Return the share of a round that a run computed: of the clients those that it trained itself.

    All of it where nobody was to be trained, and in earlier versions.
    """
    reached, trained = timing.get("reached_clients"), timing.get("trained_clients")
    return trained / reached if reached and trained is not None else 1.0


def times_of(folder: Path) -> Times:
    """Return the sums of what is recorded in a run's folder, all zero where nothing is.

    Raises:
        OSError, pyarrow.ArrowException: if it cannot be read.
    """
    path = folder / "timings.parquet"
    if not path.exists():
        return Times()
    rows = pq.read_table(path).to_pylist()
    return Times(
        seconds=sum(row["seconds"] for row in rows),
        alone_seconds=sum(_alone_seconds(row) for row in rows),
        rounds=len(rows),
        rounds_computed=sum(map(computed_share, rows)),
        peak_memory_mb=max((peak for row in rows if (peak := row.get("peak_memory_mb"))), default=None),
    )


def _alone_seconds(timing: Mapping[str, Any]) -> float:
    # An earlier version, without a store, did not tell it from what a round took.
    alone = timing.get("alone_seconds")
    return float(timing["seconds"] if alone is None else alone)

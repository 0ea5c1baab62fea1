"""Times of a run's rounds, from the records in its folder."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.engine.runtime.run.records import read_records
from fedgrid.record_columns import TIMINGS, build_schema


@dataclass(frozen=True)
class Times:
    """Seconds, rounds and memory of a run, summed over its recorded rounds and all its sessions."""

    seconds: float = 0.0
    """Training, testing, clustering and saving, without waiting for other runs."""
    uncached_seconds: float = 0.0
    """The same without the round cache."""
    rounds: int = 0
    rounds_computed: float = 0.0
    """Of these, the rounds that were not cache hits; a partial hit counts by the share of its clients."""
    peak_memory_mb: float | None = None
    """Maximum over the rounds; None if none is recorded."""

    @property
    def has_hits(self) -> bool:
        """Whether any round was a cache hit."""
        return self.rounds_computed < self.rounds


def computed_share(timing: Mapping[str, Any]) -> float:
    """Compute the share of a round's clients that the run trained itself.

    It is 1 if no client was to be trained, and in records of an archive.
    """
    reached, trained = timing.get("reached_clients"), timing.get("trained_clients")
    return trained / reached if reached and trained is not None else 1.0


def read_round_ends(folder: Path, numbers: Iterable[int]) -> dict[int, int]:
    """Read the Unix time at which each round ended, in milliseconds, from the records in a run's folder.

    Records of an archive lack these times: their rounds follow one another, a millisecond apart, from the
    time at which the run's configuration was written. So do rounds that end before the one before them did,
    by a clock that was set back.

    Raises:
        DamagedFile: they cannot be read.
    """
    by_number = {row["round"]: row for row in _read_timings(folder)}
    config = folder / "config.json"
    # The configuration is written before the first round, so its time is a lower bound of every round's
    # end.
    last = int(config.stat().st_mtime * 1000) if config.exists() else 0
    ends: dict[int, int] = {}
    for number in sorted(numbers):
        row = by_number.get(number, {})
        ended = row.get("ended_ms")
        if ended is None or (ends and ended < last):
            # Trackers refuse points of a metric whose times go back, so each end comes after the one before
            # it.
            ended = last + 1 + int(1000 * _round_seconds(row))
        ends[number] = last = ended
    return ends


def read_start_ms(folder: Path) -> int | None:
    """Read the Unix time at which a run's first round began, in milliseconds; None before its end.

    Raises:
        DamagedFile: its records cannot be read.
    """
    first = next((row for row in _read_timings(folder) if row["round"] == 1), None)
    return None if first is None else read_round_ends(folder, [1])[1] - int(1000 * _round_seconds(first))


def read_times(folder: Path) -> Times:
    """Sum the times over the records in a run's folder; all are zero without records.

    Raises:
        DamagedFile: they cannot be read.
    """
    rows = _read_timings(folder)
    return Times(
        seconds=sum(row["seconds"] for row in rows),
        uncached_seconds=sum(_uncached_seconds(row) for row in rows),
        rounds=len(rows),
        rounds_computed=sum(map(computed_share, rows)),
        peak_memory_mb=max((peak for row in rows if (peak := row.get("peak_memory_mb"))), default=None),
    )


def _read_timings(folder: Path) -> list[dict[str, Any]]:
    """Read a run's timings, one row a round; no rows before its first record."""
    try:
        return list(read_records(folder, "timings", build_schema(TIMINGS)).to_pylist())
    except FileNotFoundError:
        return []


def _round_seconds(timing: Mapping[str, Any]) -> float:
    """Compute the seconds between a round's start and its end."""
    return float(timing.get("seconds") or 0.0) + float(timing.get("waited_seconds") or 0.0)


def _uncached_seconds(timing: Mapping[str, Any]) -> float:
    """Read the seconds that a round takes without the round cache."""
    # Records of an archive lack it.
    uncached = timing.get("uncached_seconds")
    return float(timing["seconds"] if uncached is None else uncached)

"""How much memory the processes of a run need."""

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from platform import node

UNITS_A_MB = 1e6 if sys.platform == "darwin" else 1e3
"""Of `ru_maxrss`: bytes on macOS, kilobytes elsewhere."""


@dataclass(frozen=True)
class PeakMemory:
    """The most resident memory that a process has had since it started (shared memory included)."""

    process: str
    """Host and process id."""
    megabytes: float


def own_peak() -> PeakMemory:
    """Return this process's."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNITS_A_MB
    return PeakMemory(f"{node()}:{os.getpid()}", peak)


def total(peaks: Iterable[PeakMemory]) -> float:
    """Return the megabytes of all processes together, each counted once, with its highest reading."""
    highest: dict[str, float] = {}
    for peak in peaks:
        highest[peak.process] = max(peak.megabytes, highest.get(peak.process, 0.0))
    return sum(highest.values())

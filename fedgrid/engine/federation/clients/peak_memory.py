"""Peak memory of the processes of a run."""

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from platform import node

UNITS_PER_MB = 1e6 if sys.platform == "darwin" else 1e3
"""`ru_maxrss` is in bytes on macOS, in kilobytes elsewhere."""


@dataclass(frozen=True)
class PeakMemory:
    """The largest resident memory of a process since it started, shared memory included."""

    process: str
    """Host name and process id."""
    megabytes: float


def own_peak() -> PeakMemory:
    """Return the peak of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNITS_PER_MB
    return PeakMemory(f"{node()}:{os.getpid()}", peak)


def total(peaks: Iterable[PeakMemory]) -> float:
    """Return the sum over all processes in megabytes; each counts once, with its largest value."""
    highest: dict[str, float] = {}
    for peak in peaks:
        highest[peak.process] = max(peak.megabytes, highest.get(peak.process, 0.0))
    return sum(highest.values())

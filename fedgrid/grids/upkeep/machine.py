"""What fedgrid finds of this machine: processor, memory, and limits of the system."""

import os
import re
import resource
import shutil
from pathlib import Path

from fedgrid.engine.runtime.clients.machine import BFLOAT16, this_machine
from fedgrid.grids.upkeep.section import Section

MEMORY = Path("/proc/meminfo")
SHARED = Path("/dev/shm")
"""Where Ray keeps its objects: updates and models."""
GIB = 2**30
LEAST_SHARED = 1 * GIB
LEAST_MEMORY = 4 * GIB
"""A driver, Ray, MLflow and two actors take about three."""
LEAST_FILES = 1024
UNKNOWN = "unknown"


def look() -> Section:
    """Return what is found; too little of something is a problem."""
    cpu = this_machine("cpu")
    free, whole = memory()
    return Section(
        {
            "processor": cpu["processor"],
            "cores": f"{os.cpu_count()}, of which this process may use {len(os.sched_getaffinity(0))}",
            "bfloat16 instructions": cpu[BFLOAT16],
            "memory": f"{_gib(free)} free of {_gib(whole)}",
            "shared memory": f"{_gib(_shared())} free in {SHARED}" if SHARED.exists() else f"no {SHARED}",
            "open files": f"at most {_files()}",
        },
        _problems(),
    )


def _problems() -> list[str]:
    found = []
    free, _ = memory()
    if free is not None and free < LEAST_MEMORY:
        found.append(
            f"{_gib(free)} of memory is free; Ray, MLflow and two actors take 3 GiB: close programs, or run "
            "with --in-process"
        )
    if SHARED.exists() and _shared() < LEAST_SHARED:
        found.append(
            f"{_gib(_shared())} is free in {SHARED}, where Ray keeps updates; in a container, start it with "
            "--shm-size=4g"
        )
    if _files() < LEAST_FILES:
        found.append(f"at most {_files()} open files; Ray needs some thousands: ulimit -n 65536")
    return found


def memory() -> tuple[int | None, int | None]:
    """Return the free and the whole memory in bytes, None where the system does not tell."""
    try:
        text = MEMORY.read_text()
    except OSError:
        return None, None
    free, whole = (re.search(rf"^{name}:\s+(\d+) kB", text, re.M) for name in ("MemAvailable", "MemTotal"))
    return (int(free[1]) * 1024 if free else None), (int(whole[1]) * 1024 if whole else None)


def _shared() -> int:
    return shutil.disk_usage(SHARED).free


def _files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _gib(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / GIB:.1f} GiB"

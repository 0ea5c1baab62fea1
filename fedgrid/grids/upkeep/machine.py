"""What of this machine a grid may run short of: cores, memory, open files."""

import os
import re
import resource
import shutil
from pathlib import Path

from fedgrid.grids.upkeep.section import GIB, Section

MEMORY = Path("/proc/meminfo")
SHARED = Path("/dev/shm")
"""Where Ray keeps its objects: updates and models."""
LEAST_SHARED = 1 * GIB
LEAST_MEMORY = 4 * GIB
"""A driver, Ray, MLflow and two actors take about three."""
LEAST_FILES = 1024


def look() -> Section:
    """Return what there is; too little of something is a problem."""
    section = Section({"cores": f"this process may use {len(os.sched_getaffinity(0))} of {os.cpu_count()}"})
    memory, files = available_memory(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if memory is not None:
        section.facts["memory"] = f"{memory / GIB:.1f} GiB free"
        if memory < LEAST_MEMORY:
            section.problems.append(
                f"{memory / GIB:.1f} GiB of memory is free; Ray, MLflow and two actors take 3 GiB: close "
                "programs, or run with --in-process"
            )
    if SHARED.exists():
        shared = shutil.disk_usage(SHARED).free
        section.facts["shared memory"] = f"{shared / GIB:.1f} GiB free in {SHARED}"
        if shared < LEAST_SHARED:
            section.problems.append(
                f"{shared / GIB:.1f} GiB is free in {SHARED}, where Ray keeps updates; in a container, start "
                "it with --shm-size=4g"
            )
    section.facts["open files"] = f"at most {files}"
    if files < LEAST_FILES:
        section.problems.append(f"at most {files} open files; Ray needs some thousands: ulimit -n 65536")
    return section


def available_memory() -> int | None:
    """Return the bytes of main memory that programs can get; None where the system does not tell."""
    try:
        line = re.search(r"^MemAvailable:\s+(\d+) kB", MEMORY.read_text(), re.M)
    except OSError:
        return None
    return int(line[1]) * 1024 if line else None

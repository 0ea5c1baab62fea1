"""What fedgrid finds of this machine: processor, memory, GPUs, and limits of the system."""

import os
import re
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path

from fedgrid.engine.clients.machine import BFLOAT16, driver, this_machine

MEMORY = Path("/proc/meminfo")
SHARED = Path("/dev/shm")
"""Where Ray keeps its objects: updates and models."""
GIB = 2**30
LEAST_SHARED = 1 * GIB
LEAST_MEMORY = 4 * GIB
"""A driver, Ray, MLflow and two actors take about three."""
LEAST_FILES = 1024
UNKNOWN = "unknown"


def facts() -> Mapping[str, str]:
    """Return name -> what was found."""
    cpu = this_machine("cpu")
    free, whole = memory()
    return {
        "processor": cpu["processor"],
        "cores": f"{os.cpu_count()}, of which this process may use {len(os.sched_getaffinity(0))}",
        "bfloat16 instructions": cpu[BFLOAT16],
        "memory": f"{_gib(free)} free of {_gib(whole)}",
        "shared memory": f"{_gib(_shared())} free in {SHARED}" if SHARED.exists() else f"no {SHARED}",
        "open files": f"at most {_files()}",
        "GPUs": _gpus(),
    }


def problems() -> list[str]:
    """Return what of it is too little, each with the next step."""
    found = []
    free, _ = memory()
    if free is not None and free < LEAST_MEMORY:
        found.append(
            f"machine: {_gib(free)} of memory is free; Ray, MLflow and two actors take 3 GiB: close "
            "programs, or run with --in-process"
        )
    if SHARED.exists() and _shared() < LEAST_SHARED:
        found.append(
            f"machine: {_gib(_shared())} is free in {SHARED}, where Ray keeps updates; in a container, "
            "start it with --shm-size=4g"
        )
    if _files() < LEAST_FILES:
        found.append(f"machine: at most {_files()} open files; Ray needs some thousands: ulimit -n 65536")
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


def _gpus() -> str:
    import torch

    if not torch.cuda.is_available():
        return f"none that torch can use (torch {torch.__version__}, driver {driver()})"
    names = [torch.cuda.get_device_properties(place) for place in range(torch.cuda.device_count())]
    each = ", ".join(f"{one.name} {_gib(one.total_memory)}" for one in names)
    return f"{each}; driver {driver()}, CUDA {torch.version.cuda}"


def _gib(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / GIB:.1f} GiB"

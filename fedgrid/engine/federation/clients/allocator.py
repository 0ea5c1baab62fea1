"""Memory that training frees stays with the process: the next batch asks for as much."""

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of `malloc.h`."""
TRIM_ABOVE, MAP_ABOVE = 512 << 20, 32 << 20
"""Bytes: free memory at the heap's end that stays; the size from which a block is mapped apart."""


@cache
def keep_freed_memory() -> bool:
    """Set the thresholds of glibc's malloc, for this process; return whether it took them.

    By default each batch's activations go back to the system and come again as page faults, up to a quarter
    of the time of training. Other C libraries are left alone. No number depends on it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS and Windows have no such function.
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, TRIM_ABOVE)) and bool(mallopt(M_MMAP_THRESHOLD, MAP_ABOVE))

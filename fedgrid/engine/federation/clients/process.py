"""The process that trains: settings that change its bits, memory that it keeps, and its peak memory."""

import ctypes
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from platform import node


@contextmanager
def fix_numerics(tf32: bool) -> Iterator[None]:
    """Set everything in torch that changes bits and is global to the process, inside the block.

    One thread: the last bits of a convolution depend on the number of threads, and a run's numbers must not
    depend on where its clients run; more cores serve more actors. On a GPU: TF32 as configured, and only
    those algorithms of cuDNN that are deterministic, so that a round that is computed again has the same
    bits.
    """
    import torch

    cudnn = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    threads = torch.get_num_threads()
    # torch's type hints lack this attribute.
    conv = cudnn.conv  # type: ignore[attr-defined]
    before = conv.fp32_precision, matmul.fp32_precision, cudnn.deterministic, cudnn.benchmark
    precision = "tf32" if tf32 else "ieee"

    def set_backends(convolutions: str, products: str, deterministic: bool, benchmark: bool) -> None:
        """Set the precision of convolutions and products, and cuDNN's choice of algorithms."""
        conv.fp32_precision, matmul.fp32_precision = convolutions, products
        cudnn.deterministic, cudnn.benchmark = deterministic, benchmark

    torch.set_num_threads(1)
    set_backends(precision, precision, deterministic=True, benchmark=False)
    try:
        yield
    finally:
        set_backends(*before)
        torch.set_num_threads(threads)


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
    trim_threshold, mmap_threshold = -1, -3  # Of `malloc.h`.
    # Free memory at the heap's end that stays, then the size from which a block is mapped apart.
    return bool(mallopt(trim_threshold, 512 << 20)) and bool(mallopt(mmap_threshold, 32 << 20))


@dataclass(frozen=True)
class PeakMemory:
    """The largest resident memory of a process since it started, shared memory included."""

    process: str
    """Host name and process id."""
    megabytes: float


def measure_own_peak() -> PeakMemory:
    """Measure the peak memory of this process."""
    # In bytes on macOS, in kilobytes elsewhere.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return PeakMemory(f"{node()}:{os.getpid()}", peak)


def sum_megabytes(peaks: Iterable[PeakMemory]) -> float:
    """Sum the peaks of all processes in megabytes; each process counts once, with its largest value."""
    highest: dict[str, float] = {}
    for peak in peaks:
        highest[peak.process] = max(peak.megabytes, highest.get(peak.process, 0.0))
    return sum(highest.values())

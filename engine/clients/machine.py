"""What the numbers of a training depend on beside its code: the library that computes, and the hardware."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/version")
UNKNOWN = "unknown"

Machine = Mapping[str, str]
"""Name -> version, model or setting, as in `torch build` -> `2.4.0+cpu`. Machines alike have equal values."""


def this_machine(device: str) -> Machine:
    """Return what training on `device`, as torch calls it, depends on here.

    Of a GPU: its model, the driver, CUDA, cuDNN, and what `fixed_numerics` sets for every run. TF32 is a
    setting of the run.
    """
    import numpy
    import torch

    machine = {
        "device": device,
        "torch build": torch.__version__,
        "numpy": numpy.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
    }
    if not device.startswith("cuda"):
        return machine
    return machine | {
        "GPU": torch.cuda.get_device_name(0),
        "driver": driver(),
        "CUDA": str(torch.version.cuda),
        "cuDNN": f"{torch.backends.cudnn.version()}, deterministic",  # type: ignore[no-untyped-call]
    }


def driver(file: Path = DRIVER) -> str:
    """Return the version of NVIDIA's driver, `unknown` where the kernel does not tell."""
    try:
        found = re.search(r"\s(\d+(?:\.\d+)+)\s", file.read_text())
    except OSError:
        return UNKNOWN
    return found[1] if found else UNKNOWN


@contextmanager
def fixed_numerics(tf32: bool) -> Iterator[None]:
    """Set everything in torch that changes bits and is global to the process, inside the block.

    One thread: the last bits of a convolution depend on their number, and a run's numbers must not depend on
    where its clients run; more cores serve more actors. On a GPU: TF32 as asked, and only those algorithms of
    cuDNN that are deterministic, so that a round that is computed again has the same bits.
    """
    import torch

    cudnn, matmul, threads = torch.backends.cudnn, torch.backends.cuda.matmul, torch.get_num_threads()
    conv = cudnn.conv  # type: ignore[attr-defined]
    before = conv.fp32_precision, matmul.fp32_precision, cudnn.deterministic, cudnn.benchmark
    precision = "tf32" if tf32 else "ieee"

    def put(convolutions: str, products: str, deterministic: bool, benchmark: bool) -> None:
        conv.fp32_precision, matmul.fp32_precision = convolutions, products
        cudnn.deterministic, cudnn.benchmark = deterministic, benchmark

    torch.set_num_threads(1)
    put(precision, precision, deterministic=True, benchmark=False)
    try:
        yield
    finally:
        put(*before)
        torch.set_num_threads(threads)

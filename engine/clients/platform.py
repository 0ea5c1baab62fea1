"""What the bits of training depend on besides a run's setup: libraries, processor, GPU and their flags."""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

DRIVER = Path("/proc/driver/nvidia/version")
UNKNOWN = "unknown"


def describe(device: str, tf32: bool) -> dict[str, str]:
    """Return the facts of this process: name -> text. Equal facts are expected to give equal bits.

    Of a GPU: its model, the driver, CUDA, cuDNN and the flags that `fixed_numerics` sets.

    Args:
        device: kind of device that clients train on, as torch calls it.
        tf32: `training.tf32`.
    """
    import torch

    facts = {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "device": device,
    }
    if device == "cpu":
        return facts
    return facts | {
        "gpu": torch.cuda.get_device_name(device),
        "driver": driver(),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "tf32": "on" if tf32 else "off",
        "cudnn_deterministic": "on",
        "cudnn_benchmark": "off",
    }


def driver(file: Path = DRIVER) -> str:
    """Return the version of NVIDIA's driver, `unknown` where the kernel does not tell."""
    try:
        found = re.search(r"\s(\d+(?:\.\d+)+)\s", file.read_text())
    except OSError:
        return UNKNOWN
    return found[1] if found else UNKNOWN


def of_all(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the facts of several processes as one: values that differ stand side by side."""
    names = dict.fromkeys(name for each in facts for name in each)
    return {name: " and ".join(sorted({each.get(name, UNKNOWN) for each in facts})) for name in names}


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

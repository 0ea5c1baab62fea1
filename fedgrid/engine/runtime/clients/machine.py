"""The machine that trains: its libraries and its hardware, on which the last bits of a training depend."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgrid.engine.federation.clients.pool import Machine

DRIVER = Path("/proc/driver/nvidia/version")
CPUINFO = Path("/proc/cpuinfo")
PATHS = ("MKL_CBWR", "OPENBLAS_CORETYPE", "ONEDNN_MAX_CPU_ISA")
"""Variables by which a user chooses the instructions of the libraries."""
UNKNOWN, EMULATED = "unknown", "emulated"
BFLOAT16 = "bfloat16"
"""Key of a machine's instructions for bfloat16, and the precision's name in `training.precision`."""
KERNELS = re.compile("bf16|fp16|avx10|avx_ne_convert")
"""Instruction sets by which oneDNN chooses its kernels for bfloat16, as `torch.cpu` names them."""


def describe_machine(device: str) -> Machine:
    """Describe what training on `device`, as torch calls it, depends on here.

    Of a processor: maker and family, the instruction set of torch's own kernels, that of NumPy's BLAS, and
    what the environment demands of MKL, OpenBLAS and oneDNN; and `bfloat16`, the extensions by which oneDNN
    chooses its kernels for bfloat16. Two models with the same ones count as equal, whatever their caches. Of
    a GPU: its model, the driver, CUDA, cuDNN, and what `fix_numerics` sets for every run. TF32 is a setting
    of the run.
    """
    import numpy
    import torch

    machine = {
        "device": device,
        "torch build": torch.__version__,
        "numpy": numpy.__version__,
        "processor": _describe_processor(),
        BFLOAT16: _find_kernels(),
    }
    if not device.startswith("cuda"):
        return machine
    return machine | {
        BFLOAT16: "GPU" if torch.cuda.is_bf16_supported(including_emulation=False) else EMULATED,
        "GPU": torch.cuda.get_device_name(0),
        "driver": find_driver_version(),
        "CUDA": str(torch.version.cuda),
        "cuDNN": f"{torch.backends.cudnn.version()}, deterministic",  # type: ignore[no-untyped-call]
    }


def _describe_processor() -> str:
    """Describe the processor, and the instructions that the numerical libraries choose on it."""
    import torch
    from threadpoolctl import threadpool_info

    blas = sorted(
        {str(library["architecture"]) for library in threadpool_info() if "architecture" in library}
    )
    chosen = [f"{name}={os.environ[name]}" for name in PATHS if name in os.environ]
    return ", ".join([_find_maker(), torch.backends.cpu.get_cpu_capability(), *blas, *chosen])


def _find_maker(file: Path = CPUINFO) -> str:
    """Find the maker and the family of the processor."""
    try:
        about = dict(re.findall(r"^(vendor_id|cpu family)\s*: (.*)$", file.read_text(), re.MULTILINE))
    except OSError:
        about = {}
    return " ".join(about.values()) or platform.processor() or UNKNOWN


def _find_kernels() -> str:
    """Find this processor's extensions for bfloat16, as in `amx_bf16, avx512_bf16`."""
    import torch

    # Older versions of torch lack this function.
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    has = sorted(name for name, is_here in capabilities.items() if is_here and KERNELS.search(name))
    return (", ".join(has) or EMULATED) if capabilities else UNKNOWN


def select_relevant_machines(machines: Sequence[Machine], precision: str) -> list[Machine]:
    """Reduce machines to what a run of this precision depends on; equal ones count once."""
    relevant = [
        {name: value for name, value in machine.items() if precision == BFLOAT16 or name != BFLOAT16}
        for machine in machines
    ]
    return [machine for place, machine in enumerate(relevant) if machine not in relevant[:place]]


def explain_slow_precision(machines: Sequence[Machine], precision: str) -> str | None:
    """Explain in one line that a machine computes slowly in a precision; None if none does."""
    if precision != BFLOAT16 or all(machine.get(BFLOAT16) != EMULATED for machine in machines):
        return None
    return (
        "training.precision = bfloat16: the device has no instructions for it and emulates them, which may "
        "be slower than float32; choose float32, or nodes with AVX512_BF16, AMX or a GPU from Ampere on"
    )


def find_driver_version(file: Path = DRIVER) -> str:
    """Find the version of NVIDIA's driver, `unknown` where the kernel does not give it."""
    try:
        number = re.search(r"\s(\d+(?:\.\d+)+)\s", file.read_text())
    except OSError:
        return UNKNOWN
    return number[1] if number else UNKNOWN

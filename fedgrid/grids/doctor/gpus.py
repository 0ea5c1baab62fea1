"""Which GPUs are here, and why one cannot be used; each is opened for a moment, as a client actor does.

Source of the drivers that a build of torch needs: NVIDIA's "CUDA Compatibility".
"""

import os

import torch

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.machine import driver
from fedgrid.engine.runtime.clients.placement import Request
from fedgrid.grids.doctor.machine import GIB, Findings, granted_gpus
from fedgrid.grids.ray_cluster.gpus import open_here
from fedgrid.grids.ray_cluster.nodes import listed_gpus, usable_gpus, why

NEEDED_DRIVER = {"11": "450", "12": "525", "13": "580"}
"""CUDA's major version that torch is built for -> the oldest driver, by minor version compatibility."""
LEAST_FREE = 1 * GIB
ORDER = "CUDA_DEVICE_ORDER"


def look_at_gpus() -> Findings:
    """Return what torch needs, what is here, and why a GPU cannot be used."""
    section = Findings({"torch": _build_of_torch(), "driver": driver()})
    listed = listed_gpus()
    if not listed:
        section.facts["GPUs"] = "none; grids train on the CPU"
        if granted := granted_gpus():
            section.problems.append(
                f"Slurm has granted {granted} here, but the driver lists none: ask the site, or ask for none"
            )
    elif not usable_gpus(listed):
        section.problems.append(
            f"{listed} GPU{'s are' if listed > 1 else ' is'} here that torch cannot use: {why()}; update the "
            "driver, install a torch built for the CUDA that it has, or train with --gpus-per-actor 0"
        )
    else:
        _open_gpus(section)
    return section


def _build_of_torch() -> str:
    if torch.version.cuda is not None:
        needed = NEEDED_DRIVER.get(torch.version.cuda.partition(".")[0])
        needs = f", which needs driver {needed} or later" if needed else ""
        return f"{torch.__version__}, built for CUDA {torch.version.cuda}{needs}"
    if torch.version.hip is not None:
        return f"{torch.__version__}, built for ROCm {torch.version.hip}"
    return f"{torch.__version__}, built for CPUs"


def _open_gpus(section: Findings) -> None:
    try:
        gpus = open_here(Request())
    except ConfigError as error:
        section.problems.append(str(error))
        return
    section.facts["opened"] = ", ".join(
        f"{gpu.name} ({gpu.model}) with {gpu.free / GIB:.1f} of {gpu.total / GIB:.1f} GiB for clients"
        for gpu in gpus
    )
    section.problems += [
        f"{gpu.name} has {gpu.free / GIB:.1f} GiB free: nvidia-smi shows who has the rest; hide it with "
        "CUDA_VISIBLE_DEVICES, or wait"
        for gpu in gpus
        if gpu.free < LEAST_FREE
    ]
    if len({gpu.model for gpu in gpus}) > 1 and ORDER not in os.environ:
        section.facts["order"] = (
            f"the GPUs differ, and CUDA numbers the fastest first; {ORDER}=PCI_BUS_ID numbers them as "
            "nvidia-smi does"
        )

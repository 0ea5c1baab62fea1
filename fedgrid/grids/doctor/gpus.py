"""Which GPUs are here, and why torch cannot use them.

Source of the drivers that a build of torch needs: NVIDIA's "CUDA Compatibility".
"""

import torch

from fedgrid.engine.runtime.clients.machine import driver
from fedgrid.grids.doctor.machine import GIB, Findings, granted_gpus
from fedgrid.grids.ray_cluster.nodes import listed_gpus, usable_gpus, why

NEEDED_DRIVER = {"11": "450", "12": "525", "13": "580"}
"""CUDA's major version that torch is built for -> the oldest driver, by minor version compatibility."""


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
        gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        section.facts["GPUs"] = ", ".join(f"{one.name} with {one.total_memory / GIB:.1f} GiB" for one in gpus)
    return section


def _build_of_torch() -> str:
    if torch.version.cuda is not None:
        needed = NEEDED_DRIVER.get(torch.version.cuda.partition(".")[0])
        needs = f", which needs driver {needed} or later" if needed else ""
        return f"{torch.__version__}, built for CUDA {torch.version.cuda}{needs}"
    if torch.version.hip is not None:
        return f"{torch.__version__}, built for ROCm {torch.version.hip}"
    return f"{torch.__version__}, built for CPUs"

"""Whether the GPUs of this machine can be used: torch's build against the driver, memory, modes, MIG, MPS.

The driver is asked (NVML, by the copy that Ray brings); if all is well, processes open the GPUs for a moment.
Sources: NVIDIA's "CUDA Compatibility" for the drivers that a build needs, "Multi-Process Service" for the
place of MPS' pipes.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.gpu_errors import telling
from fedgrid.engine.runtime.clients.placement import Request
from fedgrid.grids.ray_cluster.gpus import open_here
from fedgrid.grids.ray_cluster.nodes import PART, why
from fedgrid.grids.upkeep.section import Section
from fedgrid.grids.upkeep.slurm import granted_gpus

NEEDED_DRIVER = {"11": "450", "12": "525", "13": "580"}
"""CUDA's major version that torch is built for -> the oldest driver, by minor version compatibility."""
COMPUTE_MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}
PROHIBITED, EXCLUSIVE, DEFAULT = "prohibited", "exclusive", "default"
GIB = 2**30
LEAST_FREE = 1 * GIB
"""A CUDA context takes 0.3 to 0.5 GiB, a small model little."""
MPS_PIPES = "/tmp/nvidia-mps"
SHOWN, ORDER, PIPES = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY"
KERNELS = re.compile(r"(sm|compute)_(\d+)")


@dataclass(frozen=True)
class Card:
    """A GPU as the driver describes it."""

    index: int
    name: str
    uuid: str
    free: int | None
    """Bytes; None where the driver does not tell."""
    total: int | None
    compute_mode: str
    parts: tuple[str, ...] | None
    """Names of its parts; None: MIG is off."""

    @property
    def is_shown(self) -> bool:
        """Whether the environment shows it, or a part of it, to this process."""
        shown = os.environ.get(SHOWN)
        if shown is None:
            return True
        names = [name.strip() for name in shown.split(",") if name.strip()]
        known = (self.uuid, *(self.parts or ()))
        return any(
            name == str(self.index) or (not name.isdecimal() and any(one.startswith(name) for one in known))
            for name in names
        )


def look() -> Section:
    """Return what is found."""
    found = Section({"torch": _built()})
    driver, cards = _driver_and_cards()
    found.facts["driver"] = driver
    if not cards:
        found.facts["GPUs"] = f"{_by_torch()}; grids train on the CPU" if not _usable() else _by_torch()
        if (granted := granted_gpus()) and not _usable():
            found.problems.append(
                f"Slurm has granted {granted} here, but the driver {driver}: ask the site, or ask for none"
            )
        return found
    found.facts["MPS"] = f"on, pipes in {_mps()}" if _mps() else "off"
    for card in cards:
        found.facts[f"GPU {card.index}"] = _described(card)
    shown = [card for card in cards if card.is_shown]
    if not shown:
        found.facts["GPUs"] = f"{SHOWN} shows none of them: grids train on the CPU"
        return found
    if not _usable():
        found.problems.append(_unusable(len(shown)))
    else:
        _ask_cuda(found)
    for card in shown:
        found.problems += _problems(card)
    if not found.problems:
        _open(found)
    if len({card.name for card in shown}) > 1 and ORDER not in os.environ:
        found.facts["order"] = (
            f"the GPUs differ, and CUDA numbers the fastest first; {ORDER}=PCI_BUS_ID numbers them as above"
        )
    return found


def _ask_cuda(found: Section) -> None:
    try:
        found.facts["CUDA sees"] = _by_torch()
        found.problems += _without_kernels()
    except (RuntimeError, AssertionError) as error:
        cause = telling(error)
        found.facts["CUDA sees"] = f"nothing ({cause})"
        # Tells which of the GPUs it is.
        _open(found)
        found.problems = found.problems or [f"CUDA does not start here: {cause}; nvidia-smi says more"]


def _open(found: Section) -> None:
    """Have a process open each GPU, as clients do: what stops it is known then, and what it may take."""
    try:
        opened = open_here(Request())
    except ConfigError as error:
        found.problems.append(str(error))
    else:
        found.facts["opened"] = ", ".join(f"{gpu.name} with {_gib(gpu.free)} for clients" for gpu in opened)


def _built() -> str:
    if torch.version.cuda is not None:
        needed = NEEDED_DRIVER.get(torch.version.cuda.partition(".")[0])
        needs = f", which needs driver {needed} or later" if needed else ""
        return f"{torch.__version__}, built for CUDA {torch.version.cuda}{needs}"
    if torch.version.hip is not None:
        return f"{torch.__version__}, built for ROCm {torch.version.hip}"
    return f"{torch.__version__}, built for CPUs"


def _driver_and_cards() -> tuple[str, Sequence[Card]]:
    """Return the driver's version and its GPUs; none where there is no driver, or it does not answer."""
    nvml = _nvml()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return f"does not answer ({error})", ()
    try:
        version, cuda = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion()
        cards = [_card(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        return f"{version}, made for CUDA {cuda // 1000}.{cuda % 1000 // 10}", cards
    except nvml.NVMLError as error:
        return f"does not answer ({error}); nvidia-smi says more", ()
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, index: int) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _told(nvml, "nvmlDeviceGetMemoryInfo", handle)
    mode = _told(nvml, "nvmlDeviceGetComputeMode", handle)
    return Card(
        index,
        nvml.nvmlDeviceGetName(handle),
        nvml.nvmlDeviceGetUUID(handle),
        memory and memory.free,
        memory and memory.total,
        "unknown" if mode is None else COMPUTE_MODES.get(mode, str(mode)),
        _parts(nvml, handle),
    )


def _parts(nvml: Any, handle: object) -> tuple[str, ...] | None:
    mode = _told(nvml, "nvmlDeviceGetMigMode", handle)
    if mode is None or not mode[0]:
        return None
    places = range(_told(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
    parts = [_told(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place) for place in places]
    return tuple(nvml.nvmlDeviceGetUUID(part) for part in parts if part is not None)


def _told(nvml: Any, name: str, *of: object) -> Any:
    """Return what the driver tells of a GPU; None where this GPU has no such thing, or the user no right."""
    try:
        return getattr(nvml, name)(*of)
    except nvml.NVMLError:
        return None


def _nvml() -> Any:
    from ray._private.thirdparty import pynvml

    return pynvml


def _usable() -> bool:
    return torch.cuda.is_available()


def _by_torch() -> str:
    if not _usable():
        return "none that torch can use"
    count = torch.cuda.device_count()
    each = (torch.cuda.get_device_properties(place) for place in range(count))
    return ", ".join(f"{place}: {one.name} (sm_{one.major}{one.minor})" for place, one in enumerate(each))


def _described(card: Card) -> str:
    memory = "memory not told" if card.total is None else f"{_gib(card.free)} free of {_gib(card.total)}"
    mig = "" if card.parts is None else f", MIG with {len(card.parts)} parts"
    hidden = "" if card.is_shown else f", hidden by {SHOWN}"
    return f"{card.name}, {memory}, compute mode {card.compute_mode}{mig}{hidden}"


def _problems(card: Card) -> list[str]:
    found, name = [], f"GPU {card.index}"
    if card.compute_mode == PROHIBITED:
        found.append(
            f"{name} is in compute mode prohibited: nobody may use it; `nvidia-smi -i {card.index} -c 0` "
            f"(root), or hide it with {SHOWN}"
        )
    if card.compute_mode == EXCLUSIVE and not _mps():
        found.append(
            f"{name} is in exclusive mode: one process may use it, and clients are several; `nvidia-smi -i "
            f"{card.index} -c 0` (root), MPS, or --gpus-per-actor 1"
        )
    if card.parts is None and card.free is not None and card.free < LEAST_FREE:
        found.append(
            f"{name} has {_gib(card.free)} free, and a client's context alone takes half of one: nvidia-smi "
            f"shows who has the rest; hide it with {SHOWN}, or wait"
        )
    if card.parts == ():
        found.append(f"{name} has MIG on and no part: `nvidia-smi mig` (root) makes some, or switch MIG off")
    elif card.parts and PART not in os.environ.get(SHOWN, ""):
        found.append(
            f"{name} has {len(card.parts)} parts (MIG), of which CUDA shows a process one: name those to "
            f"use, {SHOWN}={','.join(card.parts)}"
        )
    return found


def _unusable(count: int) -> str:
    here = f"{count} GPU{'s are' if count > 1 else ' is'} here, but torch"
    if torch.version.cuda is None:
        return f"{here} {torch.__version__} is built for CPUs; install one that is built for CUDA"
    return (
        f"{here} cannot use {'them' if count > 1 else 'it'}: {why()}; update the driver, install a torch "
        "built for what the driver has, or train with --gpus-per-actor 0"
    )


def _without_kernels() -> list[str]:
    """Return a line for each GPU that torch's build has no code for."""
    built = [(kind, int(number)) for kind, number in KERNELS.findall(" ".join(torch.cuda.get_arch_list()))]
    found = []
    for place in range(torch.cuda.device_count() if built else 0):
        major, minor = torch.cuda.get_device_capability(place)
        runs = (
            # Code of a generation runs on its later members; intermediate code on all that are newer.
            number // 10 == major and number % 10 <= minor if kind == "sm" else number <= 10 * major + minor
            for kind, number in built
        )
        if not any(runs):
            has = ", ".join(f"{kind}_{number}" for kind, number in built)
            found.append(
                f"CUDA's GPU {place} is an sm_{major}{minor}, for which torch {torch.__version__} has no "
                f"kernels ({has}); install a torch that has"
            )
    return found


def _mps() -> str | None:
    """Return where the pipes of MPS' daemon are, None if there are none."""
    place = Path(os.environ.get(PIPES, MPS_PIPES))
    return str(place) if (place / "control").exists() else None


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / GIB:.1f} GiB"

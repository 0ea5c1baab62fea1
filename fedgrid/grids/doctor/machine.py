"""Describe versions, cores, memory, open files and GPUs of this machine, and what a Slurm job has of them."""

import os
import re
import resource
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from platform import platform, python_version

import torch

from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.clients.machine import find_driver_version
from fedgrid.engine.runtime.plugins.active import load_installed
from fedgrid.grids.commit import find_version, read_commit
from fedgrid.grids.ray_cluster.nodes import count_listed_gpus, count_usable_gpus, explain_unusable_gpus
from fedgrid.sealed_json import LAYOUT

PACKAGES = ("torch", "torchvision", "ray", "mlflow", "numpy", "scipy", "scikit-learn", "hdbscan", "optuna")
GIB = 2**30
MEMORY = Path("/proc/meminfo")
SHARED_MEMORY = Path("/dev/shm")
"""Where Ray keeps its objects: updates and models."""
LEAST_SHARED = 1 * GIB
LEAST_MEMORY = 4 * GIB
"""Free bytes of main memory below which memory is missing: a driver, Ray, MLflow and two actors take about
three GiB."""
LEAST_FILES = 1024
GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass
class DoctorSection:
    """Findings about one thing: facts by name, and what is missing, a line each."""

    facts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def describe_versions() -> DoctorSection:
    """Describe the versions of fedgrid, Python, packages and installed plugins."""
    plugins = ", ".join(plugin.source.name for plugin in load_installed())
    formats = f"format {FORMAT} of runs, layout {LAYOUT}"
    return DoctorSection(
        {
            "fedgrid": f"{find_version('fedgrid')}, commit {read_commit()}, {formats}",
            "python": f"{python_version()} on {platform()}",
            "packages": ", ".join(f"{name} {find_version(name)}" for name in PACKAGES),
            "installed plugins": plugins or "none",
        }
    )


def describe_machine() -> DoctorSection:
    """Describe what this process may use of the machine."""
    # A batch system or a container may grant fewer cores than the machine has.
    section = DoctorSection(
        {"cores": f"this process may use {len(os.sched_getaffinity(0))} of {os.cpu_count()}"}
    )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if (memory := read_available_memory()) is not None:
        section.facts["memory"] = f"{memory / GIB:.1f} GiB free"
        if memory < LEAST_MEMORY:
            section.missing.append(_describe_lack("memory", memory, LEAST_MEMORY))
    if SHARED_MEMORY.exists():
        shared = shutil.disk_usage(SHARED_MEMORY).free
        section.facts["shared memory"] = f"{shared / GIB:.1f} GiB free in {SHARED_MEMORY}"
        if shared < LEAST_SHARED:
            section.missing.append(_describe_lack(f"shared memory in {SHARED_MEMORY}", shared, LEAST_SHARED))
    section.facts["open files"] = f"at most {files}"
    if files < LEAST_FILES:
        section.missing.append(f"open files: at most {files}, of {LEAST_FILES} (ulimit -n)")
    return section


def _describe_lack(what: str, free: int, least: int) -> str:
    """Describe what there is too little of."""
    return f"{what}: {free / GIB:.1f} GiB free, of {least // GIB}"


def read_available_memory() -> int | None:
    """Read the bytes of main memory that programs can get; None where the system does not tell."""
    try:
        line = re.search(r"^MemAvailable:\s+(\d+) kB", MEMORY.read_text(), re.M)
    except OSError:
        return None
    return int(line[1]) * 1024 if line else None


def describe_gpus() -> DoctorSection:
    """Describe the GPUs that torch can use, and why it cannot use those that are here."""
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPUs"
    if torch.version.hip:
        built = f"ROCm {torch.version.hip}"
    section = DoctorSection(
        {"torch": f"{torch.__version__}, built for {built}", "driver": find_driver_version()}
    )
    listed, granted = count_listed_gpus(), _read_number("SLURM_GPUS_ON_NODE")
    if not listed:
        section.facts["GPUs"] = "none"
        if granted:
            section.missing.append(f"the {granted} GPUs that Slurm has granted here: the driver lists none")
    elif not count_usable_gpus(listed):
        section.missing.append(f"a GPU that torch can use, of {listed} here: {explain_unusable_gpus()}")
    else:
        gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        section.facts["GPUs"] = ", ".join(f"{one.name} with {one.total_memory / GIB:.1f} GiB" for one in gpus)
    return section


def describe_job() -> DoctorSection:
    """Describe what a job of Slurm has on this node, and what of it this process cannot use."""
    if (job := os.environ.get("SLURM_JOB_ID")) is None:
        return DoctorSection({"job": "none"})
    node = os.environ.get("SLURMD_NODENAME")
    section = DoctorSection(
        {"job": f"{job}, on {count_nodes()} nodes", "node": node or "this machine is none of the job's"}
    )
    if node is None:
        return section
    tasks, usable = _read_number("SLURM_CPUS_PER_TASK") or 1, len(os.sched_getaffinity(0))
    section.facts["CPUs"] = f"{tasks} a task; this process may use {usable}"
    if usable < tasks:
        section.missing.append(f"CPUs: this process may use {usable} of the {tasks} of its task")
    granted, shown = _read_number("SLURM_GPUS_ON_NODE"), os.environ.get(GPU_VARIABLE)
    setting = f"{GPU_VARIABLE} is not set" if shown is None else f"{GPU_VARIABLE}={shown}"
    section.facts["GPUs"] = f"{granted} on this node; {setting}"
    # Without the variable, or with another number of GPUs, a run would use those of other jobs or leave some
    # idle.
    if granted and len([name for name in (shown or "").split(",") if name]) != granted:
        section.missing.append(f"GPUs: {setting}, of {granted} granted on this node")
    # Slurm sets the memory by node or by CPU, depending on the option of the job; both are in MiB.
    by_cpu = _read_number("SLURM_MEM_PER_CPU") * (_read_number("SLURM_CPUS_ON_NODE") or 1)
    memory = (_read_number("SLURM_MEM_PER_NODE") or by_cpu) * 2**20
    section.facts["memory"] = f"{memory / GIB:.1f} GiB on this node" if memory else "the site's default"
    if 0 < memory < LEAST_MEMORY:
        section.missing.append(f"memory: {memory / GIB:.1f} GiB granted, of {LEAST_MEMORY // GIB}")
    return section


def count_nodes() -> int:
    """Count the nodes of the Slurm job; 1 outside one."""
    return _read_number("SLURM_JOB_NUM_NODES") or 1


def _read_number(name: str) -> int:
    """Read the number in a variable of the environment; 0 without one."""
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else 0

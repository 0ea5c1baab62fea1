"""Versions; what a grid may run short of: cores, memory, open files; and what a job of Slurm has granted."""

import os
import re
import resource
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from platform import platform, python_version

from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.integrity.commit import commit, version_of
from fedgrid.engine.runtime.plugins.active import installed
from fedgrid.sealed_json import LAYOUT

PACKAGES = ("torch", "torchvision", "ray", "mlflow", "numpy", "scipy", "scikit-learn", "hdbscan", "optuna")
GIB = 2**30
MEMORY = Path("/proc/meminfo")
SHARED = Path("/dev/shm")
"""Where Ray keeps its objects: updates and models."""
LEAST_SHARED = 1 * GIB
LEAST_MEMORY = 4 * GIB
"""A driver, Ray, MLflow and two actors take about three."""
LEAST_FILES = 1024
SHOWN = "CUDA_VISIBLE_DEVICES"


@dataclass
class Findings:
    """Facts, each with a name; and what must be fixed, each in one line with the next step."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def look_at_versions() -> Findings:
    """Return the versions of fedgrid, Python, packages and installed plugins."""
    plugins = ", ".join(plugin.source.name for plugin in installed())
    facts = {
        "fedgrid": f"{version_of('fedgrid')}, commit {commit()}, format {FORMAT} of runs, layout {LAYOUT}",
        "python": f"{python_version()} on {platform()}",
        "packages": ", ".join(f"{name} {version_of(name)}" for name in PACKAGES),
        "installed plugins": plugins or "none",
    }
    return Findings(facts)


def look_at_machine() -> Findings:
    """Return what there is; too little of something is a problem."""
    section = Findings({"cores": f"this process may use {len(os.sched_getaffinity(0))} of {os.cpu_count()}"})
    memory, files = available_memory(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if memory is not None:
        section.facts["memory"] = f"{memory / GIB:.1f} GiB free"
        if memory < LEAST_MEMORY:
            section.problems.append(
                f"{memory / GIB:.1f} GiB of memory is free; Ray, MLflow and two actors take 3 GiB: close "
                "programs, or run with --in-process"
            )
    if SHARED.exists():
        shared = shutil.disk_usage(SHARED).free
        section.facts["shared memory"] = f"{shared / GIB:.1f} GiB free in {SHARED}"
        if shared < LEAST_SHARED:
            section.problems.append(
                f"{shared / GIB:.1f} GiB is free in {SHARED}, where Ray keeps updates; in a container, start "
                "it with --shm-size=4g"
            )
    section.facts["open files"] = f"at most {files}"
    if files < LEAST_FILES:
        section.problems.append(f"at most {files} open files; Ray needs some thousands: ulimit -n 65536")
    return section


def available_memory() -> int | None:
    """Return the bytes of main memory that programs can get; None where the system does not tell."""
    try:
        line = re.search(r"^MemAvailable:\s+(\d+) kB", MEMORY.read_text(), re.M)
    except OSError:
        return None
    return int(line[1]) * 1024 if line else None


def num_nodes() -> int:
    """Return how many nodes the job has; 1 outside one."""
    return _number("SLURM_JOB_NUM_NODES") or 1


def granted_gpus() -> int:
    """Return how many GPUs of this node the job has; 0 outside one."""
    return _number("SLURM_GPUS_ON_NODE") or 0


def look_at_job() -> Findings:
    """Return what the job has here; outside a job one line."""
    job, node = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURMD_NODENAME")
    if job is None:
        here = shutil.which("sbatch") is not None
        text = "outside a job; `sbatch clusters/slurm.sh GRID` starts one" if here else "not here"
        return Findings({"job": text})
    section = Findings({"job": f"{job}, on {num_nodes()} nodes"})
    if node is None:
        section.facts["nodes"] = "this is none of them: `srun --overlap fedgrid doctor` looks there"
    else:
        section.facts["nodes"] = f"this is {node}"
        _cpus(section)
        _gpus(section)
        _memory(section)
    return section


def _cpus(section: Findings) -> None:
    asked, may_use = _number("SLURM_CPUS_PER_TASK") or 1, len(os.sched_getaffinity(0))
    section.facts["CPUs"] = f"{asked} a task; this process may use {may_use}"
    if may_use < asked:
        section.problems.append(
            f"this process may use {may_use} of its {asked} CPUs: start it with srun --overlap "
            f"--cpus-per-task={asked}, as clusters/slurm.sh does"
        )


def _gpus(section: Findings) -> None:
    granted, shown = granted_gpus(), os.environ.get(SHOWN)
    setting = f"{SHOWN} is not set" if shown is None else f"{SHOWN}={shown}"
    section.facts["GPUs"] = f"{granted} on this node; {setting}"
    if granted and len([name for name in (shown or "").split(",") if name]) != granted:
        section.problems.append(
            f"Slurm has granted {granted} GPUs on this node, and {setting}: start it in the job's script, or "
            f"in a step with --gpus-per-task={granted}; if that is the script, ask the site about its "
            "gres.conf"
        )


def _memory(section: Findings) -> None:
    by_cpu = (_number("SLURM_MEM_PER_CPU") or 0) * (_number("SLURM_CPUS_ON_NODE") or 1)
    granted = _number("SLURM_MEM_PER_NODE") or by_cpu
    section.facts["memory"] = f"{granted / 1024:.1f} GiB on this node" if granted else "the site's default"
    if 0 < granted * 2**20 < LEAST_MEMORY:
        section.problems.append(
            f"{granted / 1024:.1f} GiB of memory are granted; Ray, MLflow and two actors take 3: ask for "
            "more with #SBATCH --mem=8G"
        )


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None

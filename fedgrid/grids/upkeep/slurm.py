"""Whether a process has what Slurm has granted its job."""

import os
import shutil

from fedgrid.grids.upkeep.section import Section

LEAST_MEMORY = 4096
"""MiB: a driver, Ray, MLflow and two actors take about three GiB."""
SHOWN = "CUDA_VISIBLE_DEVICES"


def num_nodes() -> int:
    """Return how many nodes the job has; 1 outside one."""
    return _number("SLURM_JOB_NUM_NODES") or 1


def granted_gpus() -> int:
    """Return how many GPUs of this node the job has; 0 outside one."""
    return _number("SLURM_GPUS_ON_NODE") or 0


def look() -> Section:
    """Return what the job has here; outside a job one line."""
    job, node = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURMD_NODENAME")
    if job is None:
        here = shutil.which("sbatch") is not None
        text = "outside a job; `sbatch clusters/slurm.sh GRID` starts one" if here else "not here"
        return Section({"job": text})
    section = Section({"job": f"{job}, on {num_nodes()} nodes"})
    if node is None:
        section.facts["nodes"] = "this is none of them: `srun --overlap fedgrid doctor` looks there"
    else:
        section.facts["nodes"] = f"this is {node}"
        _cpus(section)
        _gpus(section)
        _memory(section)
    return section


def _cpus(section: Section) -> None:
    asked, may_use = _number("SLURM_CPUS_PER_TASK") or 1, len(os.sched_getaffinity(0))
    section.facts["CPUs"] = f"{asked} a task; this process may use {may_use}"
    if may_use < asked:
        section.problems.append(
            f"this process may use {may_use} of its {asked} CPUs: start it with srun --overlap "
            f"--cpus-per-task={asked}, as clusters/slurm.sh does"
        )


def _gpus(section: Section) -> None:
    granted, shown = granted_gpus(), os.environ.get(SHOWN)
    told = f"{SHOWN} is not set" if shown is None else f"{SHOWN}={shown}"
    section.facts["GPUs"] = f"{granted} on this node; {told}"
    if granted and len([name for name in (shown or "").split(",") if name]) != granted:
        section.problems.append(
            f"Slurm has granted {granted} GPUs on this node, and {told}: start it in the job's script, or in "
            f"a step with --gpus-per-task={granted}; if that is the script, ask the site about its gres.conf"
        )


def _memory(section: Section) -> None:
    by_cpu = (_number("SLURM_MEM_PER_CPU") or 0) * (_number("SLURM_CPUS_ON_NODE") or 1)
    granted = _number("SLURM_MEM_PER_NODE") or by_cpu
    section.facts["memory"] = f"{granted / 1024:.1f} GiB on this node" if granted else "the site's default"
    if 0 < granted < LEAST_MEMORY:
        section.problems.append(
            f"{granted / 1024:.1f} GiB of memory are granted; Ray, MLflow and two actors take 3: ask for "
            "more with #SBATCH --mem=8G"
        )


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None

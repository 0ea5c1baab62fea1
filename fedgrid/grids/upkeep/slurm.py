"""What Slurm has granted, if this process is in a job of it."""

import os
import re
import shutil
from collections.abc import Mapping
from subprocess import DEVNULL, PIPE, SubprocessError, run

from fedgrid.grids.upkeep.section import Section

SECONDS = 5.0
"""How long to wait for Slurm's controller."""
FIELD = re.compile(r"(?:^|\s)([A-Z]\w*(?:/\w+)?)=(\S*)")
LEAST_MEMORY = 4096
"""MiB: a driver, Ray, MLflow and two actors take about three GiB."""
SHOWN = "CUDA_VISIBLE_DEVICES"


def job() -> str | None:
    """Return the number of the job that this process is in."""
    return os.environ.get("SLURM_JOB_ID")


def num_nodes() -> int:
    """Return how many nodes the job has; 1 outside one."""
    return _number("SLURM_JOB_NUM_NODES") or 1


def granted_gpus() -> int:
    """Return how many GPUs of this node the job has; 0 outside one."""
    return _number("SLURM_GPUS_ON_NODE") or 0


def look() -> Section:
    """Return what is found; without Slurm one line."""
    number = job()
    if number is None:
        here = shutil.which("sbatch") is not None
        text = "outside a job; `sbatch clusters/slurm.sh GRID` starts one" if here else "not here"
        return Section({"job": text})
    told = _told(number)
    found = Section()
    restarts = _number("SLURM_RESTART_COUNT") or 0
    again = f", requeued {restarts} time{'s' * (restarts > 1)}" if restarts else ""
    found.facts["job"] = f"{number}, partition {os.environ.get('SLURM_JOB_PARTITION', 'unknown')}{again}"
    nodes, name = os.environ.get("SLURM_JOB_NODELIST", "unknown"), os.environ.get("SLURMD_NODENAME")
    place = f"this is {name}" if name else "not this machine: `srun --overlap fedgrid doctor` looks there"
    found.facts["nodes"] = f"{num_nodes()}: {nodes}; {place}"
    if name:
        _cpus(found)
        _gpus(found)
        _memory(found)
    _limits(found, told)
    return found


def _cpus(found: Section) -> None:
    asked, may_use = _number("SLURM_CPUS_PER_TASK"), len(os.sched_getaffinity(0))
    granted = os.environ.get("SLURM_CPUS_ON_NODE", "unknown")
    found.facts["CPUs"] = f"{asked or 1} a task, {granted} on this node; this process may use {may_use}"
    if asked and may_use < asked:
        found.problems.append(
            f"this process may use {may_use} of its {asked} CPUs: start it with srun --overlap "
            f"--cpus-per-task={asked}, as clusters/slurm.sh does"
        )


def _gpus(found: Section) -> None:
    granted, shown = granted_gpus(), os.environ.get(SHOWN)
    named = [name for name in (shown or "").split(",") if name]
    told = f"{SHOWN} is not set" if shown is None else f"{SHOWN}={shown}"
    found.facts["GPUs"] = f"{granted} on this node; {told}"
    if granted and len(named) != granted:
        found.problems.append(
            f"Slurm has granted {granted} GPUs on this node, and {told}: start it in the job's script, or in "
            f"a step with --gpus-per-task={granted}; if that is the script, ask the site about its gres.conf"
        )


def _memory(found: Section) -> None:
    node, cpu = _number("SLURM_MEM_PER_NODE"), _number("SLURM_MEM_PER_CPU")
    cpus = _number("SLURM_CPUS_ON_NODE") or 1
    granted = node or (cpu and cpu * cpus)
    if not granted:
        found.facts["memory"] = "all of the node, or the site's default"
        return
    found.facts["memory"] = f"{granted / 1024:.1f} GiB on this node"
    if granted < LEAST_MEMORY:
        found.problems.append(
            f"{granted / 1024:.1f} GiB of memory are granted; Ray, MLflow and two actors take 3: ask for "
            "more with #SBATCH --mem=8G"
        )


def _limits(found: Section, told: Mapping[str, str]) -> None:
    if not told:
        found.facts["time limit"] = "not known: `scontrol show job` does not answer"
        return
    found.facts["time limit"] = f"{told.get('TimeLimit', 'unknown')}, until {told.get('EndTime', 'unknown')}"
    requeued = told.get("Requeue") == "1"
    found.facts["requeue"] = (
        "on: after a node fails the job starts again" if requeued else "off: after a node fails, submit again"
    )


def _told(number: str) -> Mapping[str, str]:
    """Return what Slurm's controller says of a job, empty if it says nothing."""
    command = ["scontrol", "--oneliner", "show", "job", number]
    try:
        done = run(command, stdout=PIPE, stderr=DEVNULL, stdin=DEVNULL, timeout=SECONDS, text=True)
    except (OSError, SubprocessError):
        return {}
    return dict(FIELD.findall(done.stdout)) if done.returncode == 0 else {}


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None

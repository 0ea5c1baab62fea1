"""`fedgrid doctor`: what fedgrid finds here, to paste into a bug report. Starts no Ray, writes nothing.

GPUs are opened for a moment, as a client actor opens them. Source of the drivers that a build of torch needs:
NVIDIA's "CUDA Compatibility".
"""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from platform import platform, python_version

import torch
from rich.console import Console
from rich.text import Text

from fedgrid.engine.federation.errors import ConfigError, FedgridError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.clients.machine import driver
from fedgrid.engine.runtime.clients.placement import Request
from fedgrid.engine.runtime.integrity.commit import commit, version_of
from fedgrid.engine.runtime.plugins.active import installed
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.ray_cluster.gpus import open_here
from fedgrid.grids.ray_cluster.nodes import listed_gpus, usable_gpus, why
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.upkeep import reach
from fedgrid.grids.upkeep.machine import GIB, Findings, granted_gpus, look_at_job, look_at_machine
from fedgrid.redaction import printable, redacted

PACKAGES = ("torch", "torchvision", "ray", "mlflow", "numpy", "scipy", "scikit-learn", "hdbscan", "optuna")
SETTINGS = ("FEDGRID_", "RAY_", "MLFLOW_", "OMP_", "CUDA_", "TUNE_", "PYTORCH_", "SLURM_JOB_", "NVIDIA_")
"""How the names of environment variables begin that change what fedgrid does."""


NEEDED_DRIVER = {"11": "450", "12": "525", "13": "580"}
"""CUDA's major version that torch is built for -> the oldest driver, by minor version compatibility."""
LEAST_FREE = 1 * GIB
ORDER = "CUDA_DEVICE_ORDER"


def run_doctor(storage: str, as_json: bool, console: Console) -> bool:
    """Print what is found here, without secrets; return whether all is well."""
    sections = examine(storage)
    problems = [f"{title}: {text}" for title, part in sections.items() for text in part.problems]
    if as_json:
        facts = {title: part.facts for title, part in sections.items()}
        print(json.dumps({**facts, "problems": problems}, indent=2))
        return not problems
    say = partial(print_plain, console)
    for title, part in sections.items():
        console.print(Text(title, "bold"))
        width = max(map(len, part.facts), default=0)
        for name, value in part.facts.items():
            say(f"  {name:<{width}}  {value}")
    say()
    for problem in problems:
        console.print(Text.assemble(("problem:", "bold red"), " ", problem), soft_wrap=True)
    say(f"{len(problems)} to fix." if problems else "No problem found.")
    return not problems


def examine(storage: str) -> Mapping[str, Findings]:
    """Return what is found here, by title."""
    # Before the libraries that are asked below set variables of their own.
    settings = _environment()
    looks: Mapping[str, Callable[[], Findings]] = {
        "fedgrid": _versions,
        "machine": look_at_machine,
        "GPUs": look_at_gpus,
        "Slurm": look_at_job,
        "Ray": reach.ray,
        "storage": partial(reach.storage, storage),
        "MLflow": partial(reach.mlflow, storage),
        "environment": lambda: settings,
    }
    return {title: _section(look) for title, look in looks.items()}


def _section(look: Callable[[], Findings]) -> Findings:
    """Return what `look` returns; if it raises an error of ours, that is the finding, and a problem."""
    try:
        section = look()
    except (FedgridError, TrackerFailed, OSError) as error:
        section = Findings({"problem": str(error)}, [str(error)])
    facts = {name: _clean(text) for name, text in section.facts.items()}
    return Findings(facts, [_clean(text) for text in section.problems])


def _versions() -> Findings:
    plugins = ", ".join(plugin.source.name for plugin in installed())
    facts = {
        "fedgrid": f"{version_of('fedgrid')}, commit {commit()}, format {FORMAT} of runs",
        "python": f"{python_version()} on {platform()}",
        "packages": ", ".join(f"{name} {version_of(name)}" for name in PACKAGES),
        "installed plugins": plugins or "none",
    }
    return Findings(facts)


def _environment() -> Findings:
    """Return the variables that matter; `redacted` knows a secret by its name."""
    names = sorted(name for name in os.environ if name.startswith(SETTINGS))
    pairs = (redacted(f"{name}={os.environ[name]}").partition("=") for name in names)
    return Findings({name: value for name, _, value in pairs} or {"variables": "none is set"})


def _clean(text: str) -> str:
    return printable(redacted(" ".join(text.split())))


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

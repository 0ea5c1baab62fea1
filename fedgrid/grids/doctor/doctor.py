"""`fedgrid doctor`: what fedgrid finds here, to paste into a bug report. Starts no Ray, writes nothing."""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial

from rich.console import Console
from rich.text import Text

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.doctor.cluster import look_at_ray
from fedgrid.grids.doctor.gpus import look_at_gpus
from fedgrid.grids.doctor.machine import Findings, look_at_job, look_at_machine, look_at_versions
from fedgrid.grids.doctor.stores import look_at_mlflow, look_at_storage
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.redaction import redacted

SETTINGS = ("FEDGRID_", "RAY_", "MLFLOW_", "OMP_", "CUDA_", "TUNE_", "PYTORCH_", "SLURM_JOB_", "NVIDIA_")
"""How the names of environment variables begin that change what fedgrid does."""


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
        "fedgrid": look_at_versions,
        "machine": look_at_machine,
        "GPUs": look_at_gpus,
        "Slurm": look_at_job,
        "Ray": look_at_ray,
        "storage": partial(look_at_storage, storage),
        "MLflow": partial(look_at_mlflow, storage),
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


def _environment() -> Findings:
    """Return the variables that matter; `redacted` knows a secret by its name."""
    names = sorted(name for name in os.environ if name.startswith(SETTINGS))
    pairs = (redacted(f"{name}={os.environ[name]}").partition("=") for name in names)
    return Findings({name: value for name, _, value in pairs} or {"variables": "none is set"})


def _clean(text: str) -> str:
    return redacted(" ".join(text.split()))

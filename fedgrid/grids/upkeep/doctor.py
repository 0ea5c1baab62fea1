"""`fedgrid doctor`: what fedgrid finds here, to paste into a bug report. Starts no Ray, writes nothing."""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from platform import platform, python_version

from rich.console import Console
from rich.text import Text

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.integrity.commit import commit, version_of
from fedgrid.engine.runtime.plugins.active import installed
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.upkeep import gpus, machine, reach, slurm
from fedgrid.grids.upkeep.section import Section
from fedgrid.redaction import printable, redacted

PACKAGES = ("torch", "torchvision", "ray", "mlflow", "numpy", "scipy", "scikit-learn", "hdbscan", "optuna")
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


def examine(storage: str) -> Mapping[str, Section]:
    """Return what is found here, by title."""
    # Before the libraries that are asked below set variables of their own.
    settings = _environment()
    looks: Mapping[str, Callable[[], Section]] = {
        "fedgrid": _versions,
        "machine": machine.look,
        "GPUs": gpus.look,
        "Slurm": slurm.look,
        "Ray": reach.ray,
        "storage": partial(reach.storage, storage),
        "MLflow": partial(reach.mlflow, storage),
        "environment": lambda: settings,
    }
    return {title: _section(look) for title, look in looks.items()}


def _section(look: Callable[[], Section]) -> Section:
    """Return what `look` returns; if it raises an error of ours, that is the finding, and a problem."""
    try:
        section = look()
    except (FedgridError, TrackerFailed, OSError) as error:
        section = Section({"problem": str(error)}, [str(error)])
    facts = {name: _clean(text) for name, text in section.facts.items()}
    return Section(facts, [_clean(text) for text in section.problems])


def _versions() -> Section:
    plugins = ", ".join(plugin.source.name for plugin in installed())
    facts = {
        "fedgrid": f"{version_of('fedgrid')}, commit {commit()}, format {FORMAT} of runs",
        "python": f"{python_version()} on {platform()}",
        "packages": ", ".join(f"{name} {version_of(name)}" for name in PACKAGES),
        "installed plugins": plugins or "none",
    }
    return Section(facts)


def _environment() -> Section:
    """Return the variables that matter; `redacted` knows a secret by its name."""
    names = sorted(name for name in os.environ if name.startswith(SETTINGS))
    pairs = (redacted(f"{name}={os.environ[name]}").partition("=") for name in names)
    return Section({name: value for name, _, value in pairs} or {"variables": "none is set"})


def _clean(text: str) -> str:
    return printable(redacted(" ".join(text.split())))

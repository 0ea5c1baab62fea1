"""`fedgrid doctor`: what fedgrid finds here, to paste into a bug report. Starts no Ray, writes nothing."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from platform import platform, python_version

from rich.console import Console
from rich.text import Text

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.integrity.commit import commit, version_of
from fedgrid.engine.runtime.plugins.installed import installed
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.upkeep import gpus, machine, reach, slurm
from fedgrid.grids.upkeep.section import Section
from fedgrid.redaction import printable, redacted
from fedgrid.tracking.mlflow.store import TrackingError

PACKAGES = ("torch", "torchvision", "ray", "mlflow", "numpy", "scipy", "scikit-learn", "hdbscan", "optuna")
SETTINGS = ("FEDGRID_", "RAY_", "MLFLOW_", "OMP_", "CUDA_", "TUNE_", "PYTORCH_", "SLURM_JOB_", "NVIDIA_")
"""How the names of environment variables begin that change what fedgrid does."""


@dataclass
class Findings:
    """Section -> name -> what was found; and what is wrong, each with the next step."""

    sections: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, section: str, look: Callable[[], Section]) -> None:
        """Add what `look` returns; if it raises an error of ours, that is the finding, and a problem."""
        try:
            found = look()
        except (FedgridError, TrackingError, OSError) as error:
            found = Section({"problem": str(error)}, [str(error)])
        self.sections[section] = {name: _clean(text) for name, text in found.facts.items()}
        self.problems += [f"{section}: {_clean(text)}" for text in found.problems]


def run_doctor(storage: str, as_json: bool, console: Console) -> bool:
    """Print what is found here, without secrets; return whether all is well."""
    found = examine(storage)
    if as_json:
        print(json.dumps({**found.sections, "problems": found.problems}, indent=2))
        return not found.problems
    say = partial(print_plain, console)
    for title, values in found.sections.items():
        console.print(Text(title, "bold"))
        width = max(map(len, values), default=0)
        for name, value in values.items():
            say(f"  {name:<{width}}  {value}")
    say()
    for problem in found.problems:
        console.print(Text.assemble(("problem:", "bold red"), " ", problem), soft_wrap=True)
    say("No problem found." if not found.problems else f"{len(found.problems)} to fix.")
    return not found.problems


def examine(storage: str) -> Findings:
    """Return what is found here."""
    found = Findings()
    # Before the libraries that are asked below set variables of their own.
    settings = _environment()
    found.add("fedgrid", _versions)
    found.add("machine", machine.look)
    found.add("GPUs", gpus.look)
    found.add("Slurm", slurm.look)
    found.add("Ray", reach.ray)
    found.add("storage", lambda: reach.storage(storage))
    found.add("MLflow", lambda: reach.mlflow(storage))
    found.add("environment", lambda: settings)
    return found


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

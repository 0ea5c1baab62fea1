"""Print what fedgrid finds here, to paste into a bug report. Starts no Ray, writes nothing."""

import json
import os
from collections.abc import Callable, Mapping
from functools import partial

from rich.console import Console
from rich.text import Text

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.display.text_table import print_pairs
from fedgrid.grids.doctor.machine import (
    DoctorSection,
    describe_gpus,
    describe_job,
    describe_machine,
    describe_versions,
)
from fedgrid.grids.doctor.places import describe_mlflow, describe_ray, describe_storage
from fedgrid.redaction import redact_secrets

VARIABLE_PREFIXES = (
    "FEDGRID_",
    "RAY_",
    "MLFLOW_",
    "OMP_",
    "CUDA_",
    "TUNE_",
    "PYTORCH_",
    "SLURM_JOB_",
    "NVIDIA_",
)
"""Beginnings of the names of environment variables that change what fedgrid does."""


def run_doctor(storage: str, as_json: bool, console: Console) -> bool:
    """Print what is found here, without secrets; return whether nothing is missing.

    Args:
        storage: path or URI of the storage.
        as_json: whether one JSON object is printed in place of text.
        console: where text is printed.
    """
    sections = examine_machine(storage)
    missing = [f"{title}: {text}" for title, section in sections.items() for text in section.missing]
    if as_json:
        facts = {title: section.facts for title, section in sections.items()}
        print(json.dumps({**facts, "missing": missing}, indent=2))
        return not missing
    say = partial(print_plain, console)
    for title, section in sections.items():
        console.print(Text(title, "bold"))
        print_pairs(console, section.facts, "  ")
    say()
    for text in missing:
        console.print(Text.assemble(("missing:", "bold red"), " ", text), soft_wrap=True)
    if not missing:
        say("Nothing is missing.")
    return not missing


def examine_machine(storage: str) -> Mapping[str, DoctorSection]:
    """Examine this machine and storage: title -> facts and what is missing."""
    # First, because libraries that are used below set variables of their own.
    settings = _describe_environment()
    descriptions: Mapping[str, Callable[[], DoctorSection]] = {
        "fedgrid": describe_versions,
        "machine": describe_machine,
        "GPUs": describe_gpus,
        "Slurm": describe_job,
        "Ray": describe_ray,
        "storage": partial(describe_storage, storage),
        "MLflow": partial(describe_mlflow, storage),
        "environment": lambda: settings,
    }
    return {title: _build_section(describe) for title, describe in descriptions.items()}


def _build_section(describe: Callable[[], DoctorSection]) -> DoctorSection:
    """Call `describe` and remove secrets from its result; an error of fedgrid's becomes what is missing."""
    try:
        section = describe()
    except (FedgridError, OSError) as error:
        # A broken part is what the user wants to see; the other sections are printed all the same.
        section = DoctorSection({}, [str(error)])
    facts = {name: _clean_text(text) for name, text in section.facts.items()}
    return DoctorSection(facts, [_clean_text(text) for text in section.missing])


def _describe_environment() -> DoctorSection:
    """Describe the variables that matter; `redact_secrets` recognises a secret by its name."""
    names = sorted(name for name in os.environ if name.startswith(VARIABLE_PREFIXES))
    pairs = (redact_secrets(f"{name}={os.environ[name]}").partition("=") for name in names)
    return DoctorSection({name: value for name, _, value in pairs} or {"variables": "none is set"})


def _clean_text(text: str) -> str:
    """Put a text on one line, without secrets."""
    return redact_secrets(" ".join(text.split()))

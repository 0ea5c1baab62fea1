"""What a run's rounds were made with, in addition to its configuration: images, code, versions and machine.

A run's manifest lists parts: from which round on, and with what. A run whose images have changed is refused.
Other code, versions or machines may give other bits, so that a run goes on with them only if the user accepts
it; that starts a new part.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version_tuple
from types import ModuleType
from typing import TYPE_CHECKING

from pydantic import BaseModel

from fedgrid.engine.federation.errors import PLUGIN_MODULE, ConfigError, DataError
from fedgrid.engine.runtime.integrity.code import ROOTS, SOURCES
from fedgrid.engine.runtime.storage.format import load_manifest
from fedgrid.manifest import CODE, Parts, ProvenancePart

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm

IMAGES, PYTHON = "images", "python"
PACKAGES = ("fedgrid", "torch", "numpy", "scipy", "scikit-learn", "hdbscan")
"""Distributions whose version a run's numbers may depend on."""
ACCEPT = "--accept-changes continues and notes it, --fresh starts over"
"""The choices of a user whose run was made with something else."""

MadeWith = Mapping[str, str]
"""Digest, version or model by name: `images`, `code`, `python`, packages, and those of a `Machine`."""


def collect_made_with(
    algorithm: Algorithm, images: str, machines: Sequence[Mapping[str, str]] = ({},)
) -> MadeWith:
    """Collect the images, code, versions and machine that a round computed here would have.

    Args:
        algorithm: The run's algorithm.
        images: Digest of the run's data set.
        machines: Those that train, each kind once; by default only what this process can see.
    """
    names = sorted({name for machine in machines for name in machine})
    # Several kinds of machines train only with `--accept-changes`.
    machine_values = {
        name: " and ".join(sorted({machine.get(name, "none") for machine in machines})) for name in names
    }
    parts = vars(algorithm.settings).values()
    kinds = [type(value) for value in parts if isinstance(value, BaseModel)]
    code = digest_run_code(type(algorithm), *kinds)
    packages = find_versions(*PACKAGES, *algorithm.traits.packages)
    return {IMAGES: images, CODE: code, **packages, **machine_values}


def extend_parts(
    run: str, before: Parts, now: MadeWith, rounds_done: int, *, accept: bool
) -> tuple[Parts, list[str]]:
    """Extend the parts of a run that goes on with `now`; return them, and what to note in its log.

    Args:
        run: The run's name, for messages.
        before: The parts of the rounds so far; empty if they are missing.
        now: What the next rounds are made with.
        rounds_done: Number of rounds so far.
        accept: Whether changes other than of the images are accepted.

    Raises:
        DataError: the images have changed.
        ConfigError: something else has, and is not accepted.
    """
    # There are no rounds, so what an earlier attempt noted does not matter.
    if rounds_done == 0:
        return (ProvenancePart(1, now),), []
    differences = (
        describe_differences(before[-1].made_with, now)
        if before
        else ["what they were made with is not known"]
    )
    if not differences:
        return before, []
    what = f"rounds 1 to {rounds_done} of {run}: {'; '.join(differences)}"
    if before:
        check_images(run, before[-1].made_with, now)
    if not accept:
        raise ConfigError(f"{what}: {ACCEPT}")
    # Parts of rounds that are run again, as after damage, go.
    earlier = tuple(part for part in before if part.from_round <= rounds_done)
    return (*earlier, ProvenancePart(rounds_done + 1, now)), [f"{what}: accepted"]


def check_images(run: str, before: MadeWith, now: MadeWith) -> None:
    """Check that the images are those of before.

    Raises:
        DataError: they are not.
    """
    if before.get(IMAGES) != now[IMAGES]:
        raise DataError(
            f"{run} was trained on images other than those its data set has now (digest "
            f"{before.get(IMAGES, 'none')[:8]} then, {now[IMAGES][:8]} now): restore those, give the new "
            "data set another name, or start over with --fresh"
        )


def describe_differences(before: MadeWith, now: MadeWith) -> list[str]:
    """Describe the differences between entries that both have."""
    return [
        f"made with other {name}"
        if name in (IMAGES, CODE)
        else f"made with {name} {before[name]}, now {now[name]}"
        for name in before
        if name in now and before[name] != now[name]
    ]


def load_parts(folder: Path) -> Parts:
    """Load what the run in a folder was made with, empty if there is no run.

    Raises:
        OtherVersion, DamagedFile, UnreadableFile: its manifest cannot be used.
    """
    try:
        return load_manifest(folder).made_with
    except FileNotFoundError:
        return ()


@cache
def find_versions(*packages: str) -> dict[str, str]:
    """Find the versions of Python, without its last number, and of distributions, `none` for missing ones."""
    numbers = {PYTHON: ".".join(python_version_tuple()[:2])}
    for name in packages or PACKAGES:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "none"
    return numbers


@cache
def digest_run_code(*classes: type) -> str:
    """Compute the digest of the code of ours that a run executes: of its algorithm, of parts of settings."""
    return SOURCES.digest_modules({*ROOTS, *find_modules(*classes)})


def find_modules(*classes: type) -> set[str]:
    """Find the names of the modules in which classes and their bases are written.

    The imports of a plugin's module are not followed; modules of ours from which it takes something are
    added.
    """
    names = {base.__module__ for kind in classes for base in kind.__mro__}
    plugins = [sys.modules[name] for name in names if name.startswith(PLUGIN_MODULE)]
    values = [value for plugin in plugins for value in vars(plugin).values()]
    taken = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in values
    }
    return names | {name for name in taken if isinstance(name, str)}

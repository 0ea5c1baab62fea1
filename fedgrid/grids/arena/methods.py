"""The methods of an arena: which there are, and how each is fine-tuned under the two protocols."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgrid.algorithms.averaging.fedopt import FedOptSettings, OwnAdaptationSettings
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError, unknown
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import read_source
from fedgrid.tracking.verdicts.outcomes import Protocol, Told

COMMON = {"server_learning_rate": {"low": 0.5, "high": 2.0, "log": True}}
"""What every method that averages can tune, beside its own settings: some have none."""


def parse_methods(texts: Sequence[str]) -> list[str]:
    """Return the methods that a command line names, several between commas.

    Raises:
        ConfigError: there is no such algorithm.
    """
    named = [one.strip() for text in texts for one in text.split(",") if one.strip()]
    for method in named:
        if method not in ALGORITHMS:
            raise unknown("algorithm", method, ALGORITHMS)
    return named


def default(method: str) -> dict[str, Any]:
    """Return a method's section with what its entry sets in the arena, if it says so."""
    return {"name": method, **(ALGORITHMS[method].arena or {})}


def title_of(method: str) -> str:
    """Return what papers call a method."""
    return ALGORITHMS[method].title


def told_of(method: str) -> Told:
    """Return what a method is told of the hidden groups."""
    return ALGORITHMS[method].told


def is_reference(method: str) -> bool:
    """Return whether a method is neither tuned nor ranked."""
    return ALGORITHMS[method].is_reference


def methods_of(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the algorithms of plugins in use, without references.

    Raises:
        ConfigError: a file has none.
    """
    methods: list[str] = []
    for file in files:
        digest = read_source(file).digest
        mine = [name for name in active.titles(digest) if name not in active.references(digest)]
        if not mine:
            raise ConfigError(f"--with {file}: it has no ALGORITHMS; `fedgrid init` writes a file that has")
        methods += mine
    return tuple(methods)


def space_of(method: str, rounds: int) -> dict[str, Any]:
    """Return the space of a method: its own, and what all that average have."""
    entry = ALGORITHMS[method]
    return {**entry.space(rounds), **(COMMON if isinstance(entry.settings, FedOptSettings) else {})}


def budget_key(method: str) -> str | None:
    """Return the setting that says how many steps a client takes before a test; None if there is none."""
    settings = ALGORITHMS[method].settings
    key = "adapt_steps" if isinstance(settings, OwnAdaptationSettings) else "fine_tune"
    return key if hasattr(settings, key) else None


def plays(method: str, protocol: Protocol) -> bool:
    """Return whether a method has rows under a protocol; references have, as they are."""
    return protocol == "served" or budget_key(method) is not None or ALGORITHMS[method].is_reference


def adapt_settings(method: str, protocol: Protocol, budget: int) -> dict[str, Any]:
    """Return what a protocol sets: the same `budget` of steps for all, or none.

    A method that is defined by its own steps keeps these where the others take none.
    """
    key = budget_key(method)
    if key is None or (protocol == "served" and key != "fine_tune"):
        return {}
    return {key: 0 if protocol == "served" else budget}

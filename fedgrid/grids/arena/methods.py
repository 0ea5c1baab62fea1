"""The methods of an arena, and how each is fine-tuned under the two protocols."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgrid.algorithms.averaging.fedopt import OwnAdaptationSettings
from fedgrid.algorithms.registry import ALGORITHMS, NAMES_IN_PAPERS
from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import read_source
from fedgrid.grids.presets.yaml_file import split_at_commas
from fedgrid.tracking.verdicts.outcomes import Protocol


def parse_methods(texts: Sequence[str]) -> list[str]:
    """Parse the methods that a command line names, several between commas.

    Raises:
        ConfigError: There is no such algorithm.
    """
    named = [name for text in texts for name in split_at_commas(text, f"--algorithms {text}")]
    for method in named:
        if method not in ALGORITHMS:
            raise unknown_name_error("algorithm", method, ALGORITHMS, NAMES_IN_PAPERS)
    return named


def list_members() -> list[str]:
    """List the methods whose entries say that they are in the arena."""
    return [name for name, entry in ALGORITHMS.items() if entry.arena is not None]


def default_section(method: str) -> dict[str, Any]:
    """Build a method's section, with the settings that its entry has for the arena."""
    return {"name": method, **(ALGORITHMS[method].arena or {})}


def find_own_methods(files: Sequence[Path]) -> tuple[str, ...]:
    """Find the algorithms of plugins in use, without references.

    Raises:
        ConfigError: A file has none.
    """
    methods: list[str] = []
    for file in files:
        digest = read_source(file).digest
        mine = [name for name in active.find_titles(digest) if name not in active.find_references(digest)]
        if not mine:
            raise ConfigError(f"--with {file}: it has no ALGORITHMS; `fedgrid init` writes a file that has")
        methods += mine
    return tuple(methods)


def find_comparable_method(methods: Sequence[str]) -> str:
    """Find the first method with a rival that knows as much about the groups, or else the first method."""
    counts = Counter(ALGORITHMS[method].told for method in methods)
    return next((one for one in methods if counts[ALGORITHMS[one].told] > 1), methods[0])


def group_count_settings(method: str, number: int) -> dict[str, int]:
    """Build the setting that gives a method the number of groups; empty if it does not need one."""
    entry = ALGORITHMS[method]
    if entry.told != "number":
        return {}
    return {"num_clusters" if hasattr(entry.settings, "num_clusters") else "clusterer.num_clusters": number}


def find_tuned_space(method: str, rounds: int) -> dict[str, Any]:
    """Find what is tuned of a method: its own settings, without the number of groups and the server's rate.

    All methods that average have the same rate, so that none is better for having drawn a larger one.
    """
    space = ALGORITHMS[method].build_space(rounds)
    return {
        # Only the key of the number of groups matters here; the number is any.
        key: values
        for key, values in space.items()
        if key not in ("server_learning_rate", *group_count_settings(method, 2))
    }


def find_budget_key(method: str) -> str | None:
    """Find the setting of how many steps a client takes before a test; None if there is none."""
    settings = ALGORITHMS[method].settings
    key = "adapt_steps" if isinstance(settings, OwnAdaptationSettings) else "fine_tune"
    return key if hasattr(settings, key) else None


def has_rows(method: str, protocol: Protocol) -> bool:
    """Check whether a method has rows under a protocol; references have, as they are."""
    return protocol == "served" or find_budget_key(method) is not None or ALGORITHMS[method].is_reference


def build_adapt_settings(method: str, protocol: Protocol, budget: int) -> dict[str, Any]:
    """Build what a protocol sets: the same number of steps for all, or none.

    A method that is defined by its own steps keeps these where the others take none.
    """
    key = find_budget_key(method)
    if key is None or (protocol == "served" and key != "fine_tune"):
        return {}
    return {key: 0 if protocol == "served" else budget}

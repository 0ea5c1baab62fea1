"""The algorithm that a run's configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.engine.runtime.plugins import active

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm
    from fedgrid.algorithms.contract.entry import AlgorithmEntry
    from fedgrid.engine.federation.configuration.run_config import AlgorithmSection, RunConfig


def build_algorithm(config: RunConfig) -> Algorithm:
    """Create the configured algorithm; activates the run's plugins, in place of their other versions.

    Its settings are parsed once in a process, not once per run that has them.

    Raises:
        ConfigError: if a plugin of the run is missing in this process.
    """
    active.activate_plugins(config.plugin_digests)
    return _create_once(ALGORITHMS.get(config.algorithm.name), config.algorithm)


@lru_cache
def _create_once(entry: AlgorithmEntry | None, section: AlgorithmSection) -> Algorithm:
    """Create the algorithm, or take that of an earlier call.

    `entry` distinguishes versions of a plugin that define the same name.
    """
    return create_algorithm(section.name, section.settings)


def list_own_columns(config: RunConfig) -> frozenset[str]:
    """List the columns of a run that not all records have.

    Those of a plugin that is not loaded are left out.
    """
    entry = ALGORITHMS.get(config.algorithm.name)
    traits = None if entry is None else _create_once(entry, config.algorithm).traits
    return config.columns(traits) | set(list_own_numbers(config))


def list_own_numbers(config: RunConfig) -> tuple[str, ...]:
    """List the numbers of a round that the algorithm's entry and its `local` declare, as
    `list_own_columns`.
    """
    name = config.algorithm.name
    local = config.algorithm.settings.get("local")
    declared = [ALGORITHMS[name].numbers] if name in ALGORITHMS else []
    if isinstance(local, Mapping) and local.get("name") in LOCAL_METHODS:
        declared.append(LOCAL_METHODS[local["name"]].numbers)
    return tuple(dict.fromkeys(number.name for numbers in declared for number in numbers))

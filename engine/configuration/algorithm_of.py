"""The algorithm that a run's configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedgrid.algorithms.registry import ALGORITHMS, create
from fedgrid.engine.disturbances.faults import FAULT
from fedgrid.engine.partition.scenarios import CENTRALISED
from fedgrid.engine.plugins import active
from fedgrid.engine.uplink.accountant import EPSILON
from fedgrid.engine.uplink.privacy import is_private

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm
    from fedgrid.engine.configuration.run_config import RunConfig


def algorithm_of(config: RunConfig) -> Algorithm:
    """Return the configured algorithm; activates the run's plugins, in place of their other versions.

    Raises:
        ConfigError: if a plugin of the run is not known to this process.
    """
    active.activate(config.plugin_digests)
    return create(*name_and_settings(config.algorithm))


def own_columns(config: RunConfig) -> frozenset[str]:
    """Return the columns of a run that not all records have.

    They are the algorithm's own, `fault` under attack, `epsilon` with noise, `centralised` for its norms.
    None of a plugin's that is not loaded.
    """
    name, settings = name_and_settings(config.algorithm)
    own = create(name, settings).traits.columns if name in ALGORITHMS else frozenset()
    attacked = {FAULT} if config.faults.clients else set()
    private = {EPSILON} if is_private(config.uplink, config.privacy) else set()
    centralised = {CENTRALISED} if config.split.kind == CENTRALISED else set()
    return own | attacked | private | centralised


def name_and_settings(algorithm: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the parts of `RunConfig.algorithm`."""
    return algorithm["name"], {key: value for key, value in algorithm.items() if key != "name"}

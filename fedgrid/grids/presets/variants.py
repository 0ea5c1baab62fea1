"""Variants of an algorithm: runs of a grid that differ in its settings only, and how these are named.

Three Briggs with three thresholds are variants: `threshold 0.3`, `threshold 0.4`, `threshold 0.5`.
"""

from collections.abc import Sequence

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.presets.axis_keys import SETTING, axis_keys, value_text

UNSET = "null"


def variant_settings(configs: Sequence[RunConfig], prefix: str = SETTING) -> tuple[str, ...]:
    """Return the keys with this prefix in which runs of one name differ, as `algorithm.threshold`."""
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(config.name, []).append(config)
    keys = [key for key in axis_keys(configs) if key.startswith(prefix)]
    differing: dict[str, None] = {}
    for group in groups.values():
        if len(group) > 1:
            several = (key for key in keys if len({value_text(run, key) for run in group}) > 1)
            differing |= dict.fromkeys(several)
    return tuple(key for key in keys if key in differing)


def variant_of(config: RunConfig, settings: Sequence[str]) -> str:
    """Return a run's values of these settings, as in `round 6, threshold 0.4`; empty if it has none."""
    values = {key.removeprefix(SETTING): value_text(config, key) for key in settings}
    return ", ".join(f"{key} {value}" for key, value in values.items() if value not in (None, UNSET))

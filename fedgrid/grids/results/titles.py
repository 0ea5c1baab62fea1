"""What tables call a run's algorithm: its title, and the settings that tell it from others of that title."""

from collections.abc import Mapping, Sequence

from fedgrid.algorithms import registry
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.presets.axis_keys import AXES, SETTING, axis_keys
from fedgrid.grids.results.axes import settings_of, values_of

UNSET = (None, "null")
PLUGIN = "plugin"


def titles(configs: Sequence[RunConfig], axes: Sequence[str]) -> list[str]:
    """Return a title for each run: `BCL`, or `BCL (threshold 0.1)` where another BCL differs in no axis.

    `axes` are the grid's further axes, as of `further_axes`. Several versions of a plugin show its digest.
    """
    settings = [key for key in axis_keys(configs) if key.startswith(SETTING)]
    alike = (*AXES, *(axis for axis in axes if not axis.startswith(SETTING)))
    common = _common_plugins(configs)
    values = [
        {**of_settings, PLUGIN: _versions(config, common[config.algorithm["name"]])}
        for config, of_settings in zip(configs, settings_of(configs, settings), strict=True)
    ]
    shown = _differing([tuple(values_of(config, alike).values()) for config in configs], values)
    found = []
    for config, of_run in zip(configs, values, strict=True):
        title = registry.title(config.algorithm["name"])
        words = [f"{key.removeprefix(SETTING)} {of_run[key]}" for key in shown if of_run[key] not in UNSET]
        found.append(f"{title} ({', '.join(words)})" if words else title)
    return found


def _common_plugins(configs: Sequence[RunConfig]) -> dict[str, set[str]]:
    """Return, by algorithm, the digests of the plugins that all of its runs have."""
    common: dict[str, set[str]] = {}
    for config in configs:
        digests = set(config.plugin_digests)
        common[config.algorithm["name"]] = common.get(config.algorithm["name"], digests) & digests
    return common


def _versions(config: RunConfig, common: set[str]) -> str | None:
    """Return the first digits of the digests of a run's plugins that are not `common`, None if all are."""
    return "+".join(digest[:6] for digest in config.plugin_digests if digest not in common) or None


def _differing(
    cells: Sequence[tuple[str | None, ...]], values: Sequence[Mapping[str, str | None]]
) -> list[str]:
    """Return the settings in which runs of one cell differ."""
    groups: dict[tuple[str | None, ...], list[Mapping[str, str | None]]] = {}
    for cell, of_run in zip(cells, values, strict=True):
        groups.setdefault(cell, []).append(of_run)
    differing: dict[str, None] = {}
    for group in groups.values():
        differing |= dict.fromkeys(key for key in group[0] if len({of_run[key] for of_run in group}) > 1)
    return list(differing)

"""What tables call a run's algorithm: its title, and the settings that tell it from others of that title."""

from collections.abc import Mapping, Sequence

from fedgrid.algorithms import registry
from fedgrid.engine.run_config import PLUGINS, RunConfig
from fedgrid.tracking.mlflow.runs import flatten

CELL = ("dataset", "overlap", "balance", "clients", "seed")
"""What runs that are compared with one another have in common."""
UNSET = "None"


def titles(configs: Sequence[RunConfig]) -> list[str]:
    """Return a title a run: `BCL`, or `BCL (threshold 0.1)` where another BCL shares scenario and seed."""
    common = _common_plugins(configs)
    values = [_values(config, common[config.algorithm["name"]]) for config in configs]
    told = _differing(configs, values)
    found = []
    for config, of_run in zip(configs, values, strict=True):
        title = registry.title(config.algorithm["name"])
        settings = [
            f"{key.removeprefix('algorithm.')} {of_run[key]}"
            for key in told
            if of_run.get(key, UNSET) != UNSET
        ]
        found.append(f"{title} ({', '.join(settings)})" if settings else title)
    return found


def _common_plugins(configs: Sequence[RunConfig]) -> dict[str, set[str]]:
    """Return, by algorithm, the digests of the plugins that all of its runs have."""
    common: dict[str, set[str]] = {}
    for config in configs:
        digests = set(config.plugin_digests)
        common[config.algorithm["name"]] = common.get(config.algorithm["name"], digests) & digests
    return common


def _values(config: RunConfig, common: set[str]) -> dict[str, str]:
    """Return all keys of a run as text; of plugins that are not `common` the first digits of the digests."""
    values = flatten(config.model_dump(mode="json", exclude={PLUGINS}))
    plugins = "+".join(digest[:6] for digest in config.plugin_digests if digest not in common)
    return {**values, "plugin": plugins} if plugins else dict(values)


def _differing(configs: Sequence[RunConfig], values: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the keys in which runs of one algorithm differ that share a scenario and a seed."""
    groups: dict[tuple[object, ...], list[Mapping[str, str]]] = {}
    for config, of_run in zip(configs, values, strict=True):
        shared = (*(getattr(config, axis) for axis in CELL), config.algorithm["name"])
        groups.setdefault(shared, []).append(of_run)
    differing: dict[str, None] = {}
    for group in groups.values():
        for key in dict.fromkeys(key for of_run in group for key in of_run):
            if len({of_run.get(key) for of_run in group}) > 1:
                differing[key] = None
    return list(differing)

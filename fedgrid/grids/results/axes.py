"""The further axes of a grid: keys in which its runs differ, besides `AXES`, by their configurations.

They are read from the configurations and not from the preset, so that a grid that was extended, imported or
launched several times under one name has the axes of all its runs.
"""

from collections.abc import Mapping, Sequence
from math import prod

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.presets.axis_keys import (
    ALGORITHM,
    AXES,
    SETTING_PREFIX,
    UNSET,
    Values,
    find_variant_settings,
    format_axis_values,
    list_distinct_keys,
    list_value_words,
)

SEED, DATASET = "seed", "dataset"
PLUGIN = "plugin"
SCENARIO = tuple(axis for axis in AXES if axis not in (SEED, ALGORITHM))


def find_further_axes(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """Find the keys besides `AXES` that are axes of a grid with these runs.

    A key is one if runs of one scenario and algorithm differ in it, unless an earlier axis determines its
    value, as where an override sets a learning rate for each model. Settings of an algorithm are axes only if
    every combination of their values is run; otherwise they are variants of the algorithm. The data set is
    one too if two of them have the same short name, as `folder:a/data` and `folder:b/data`.
    """
    differing = _find_differing_keys(configs)
    keys = [key for key in list_distinct_keys(configs) if key.partition(".")[0] in differing]
    settings = [key for key in keys if key.startswith(SETTING_PREFIX)]
    others = [key for key in keys if not key.startswith(SETTING_PREFIX) and key not in AXES]
    runs = [format_axis_values(config, (*AXES, *others)) for config in configs] if others else []
    keys_so_far: list[str] = []
    for key in others:
        # Axes found so far are held fixed, so that a key which one of them determines is no axis of its
        # own.
        if _has_different_values(runs, (*SCENARIO, ALGORITHM, *keys_so_far), key):
            keys_so_far.append(key)
    if len({config.dataset for config in configs}) > len({config.short_dataset for config in configs}):
        # Tables show short names, which do not tell these data sets apart.
        keys_so_far.insert(0, DATASET)
    return (*keys_so_far, *(_find_setting_axes(configs, (*AXES, *keys_so_far), settings) if settings else ()))


def find_naming_keys(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """Find the keys that tell apart runs of the same name, for `format_run_name`.

    They are its further axes, and the settings by which variants of an algorithm differ.
    """
    return tuple(dict.fromkeys((*find_further_axes(configs), *find_variant_settings(configs))))


def settings_by_run(configs: Sequence[RunConfig], settings: Sequence[str]) -> list[Values]:
    """Read each run's values of some settings of its algorithm; computed once for each algorithm."""
    by_algorithm: dict[str, Values] = {}
    values = []
    for config in configs:
        # Thousands of runs share a few algorithms, and flattening the settings of each run would take
        # seconds.
        algorithm = repr(config.algorithm)
        if algorithm not in by_algorithm:
            by_algorithm[algorithm] = format_axis_values(config, settings)
        values.append(by_algorithm[algorithm])
    return values


def format_run_name(config: RunConfig, axes: Sequence[str]) -> str:
    """Format a run's name with its values of the grid's further `axes`, which tell runs of a name apart."""
    words = ", ".join(list_value_words(config, axes))
    return f"{config.name} ({words})" if words else config.name


def _find_differing_keys(configs: Sequence[RunConfig]) -> set[str]:
    """Find the keys at the top of a configuration in which runs differ, often a few."""
    names = set(RunConfig.model_fields) if configs else set()
    return {
        name
        for name in names
        if any(getattr(config, name) != getattr(configs[0], name) for config in configs)
    }


def _find_setting_axes(
    configs: Sequence[RunConfig], alike: Sequence[str], settings: Sequence[str]
) -> tuple[str, ...]:
    """Find the settings that are axes: runs alike in all other keys have all combinations of their values."""
    groups: dict[tuple[str | None, ...], list[Values]] = {}
    for config, values in zip(configs, settings_by_run(configs, settings), strict=True):
        group = tuple(format_axis_values(config, alike).values())
        groups.setdefault(group, []).append(values)
    complete: dict[str, None] = {}
    for members in groups.values():
        counts = {key: len({values[key] for values in members}) for key in settings}
        # Runs that were chosen one by one, as by a search, have no grid of values to plot along.
        if prod(counts.values()) == len(members):
            complete |= dict.fromkeys(key for key, count in counts.items() if count > 1)
    return tuple(complete)


def _has_different_values(runs: Sequence[Values], alike: Sequence[str], key: str) -> bool:
    """Check whether runs that are alike in some axes have different values of `key`."""
    seen: dict[tuple[str | None, ...], str | None] = {}
    return any(seen.setdefault(tuple(run[axis] for axis in alike), run[key]) != run[key] for run in runs)


def build_algorithm_names(configs: Sequence[RunConfig], axes: Sequence[str]) -> list[str]:
    """Build `Run.algorithm` of each run: `briggs`, or with settings that are no axes.

    As in `briggs (threshold 0.1)`, where another briggs differs from it in nothing else. `axes` are the
    grid's further axes, as of `find_further_axes`. Several versions of a plugin show its digest.
    """
    settings = [key for key in list_distinct_keys(configs) if key.startswith(SETTING_PREFIX)]
    alike = (*AXES, *(axis for axis in axes if not axis.startswith(SETTING_PREFIX)))
    common = _common_plugins(configs)
    values = settings_by_run(configs, settings)
    cells = [tuple(format_axis_values(config, alike).values()) for config in configs]
    versions = [{PLUGIN: _other_plugin_versions(config, common[config.algorithm.name])} for config in configs]
    shown = _differing_settings(cells, values)
    # Of runs with the same settings: a setting may name something of another plugin.
    same = [(*cell, *own.values()) for cell, own in zip(cells, values, strict=True)]
    is_versioned = bool(_differing_settings(same, versions))
    names = []
    for config, version in zip(configs, versions, strict=True):
        method = config.algorithm.name
        words = list_value_words(config, shown, UNSET)
        words += [f"{PLUGIN} {version[PLUGIN]}"] if is_versioned and version[PLUGIN] else []
        names.append(f"{method} ({', '.join(words)})" if words else method)
    return names


def _common_plugins(configs: Sequence[RunConfig]) -> dict[str, set[str]]:
    """Find, by algorithm, the digests of the plugins that all of its runs have."""
    common: dict[str, set[str]] = {}
    for config in configs:
        digests = set(config.plugin_digests)
        common[config.algorithm.name] = common.get(config.algorithm.name, digests) & digests
    return common


def _other_plugin_versions(config: RunConfig, common: set[str]) -> str | None:
    """Format the first digits of the digests of a run's plugins that are not `common`, None if all are."""
    return "+".join(digest[:6] for digest in config.plugin_digests if digest not in common) or None


def _differing_settings(
    cells: Sequence[tuple[str | None, ...]], values: Sequence[Mapping[str, str | None]]
) -> list[str]:
    """Find the settings in which runs of one cell differ."""
    groups: dict[tuple[str | None, ...], list[Mapping[str, str | None]]] = {}
    for cell, own in zip(cells, values, strict=True):
        groups.setdefault(cell, []).append(own)
    differing: dict[str, None] = {}
    for group in groups.values():
        differing |= dict.fromkeys(key for key in group[0] if len({own[key] for own in group}) > 1)
    return list(differing)

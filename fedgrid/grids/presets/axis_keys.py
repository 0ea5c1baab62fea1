"""The one place that defines what a grid's axes are: any key of a run's configuration.

The keys are read from `RunConfig`, its sections and the settings of the registered algorithms, so that a new
field there is an axis at once. Everything else that uses axes (presets, filters, run order, MLflow tags,
tables and figures of a report) takes them from here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import PLUGINS_KEY, RunConfig
from fedgrid.engine.federation.dealing.kinds import KINDS, list_own_kinds
from fedgrid.engine.federation.errors import ConfigError, suggest_name, unknown_key_error
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.validation import find_section
from fedgrid.grids.presets.nested_values import find_value
from fedgrid.tracking.scoring.selection import format_value

AXES = ("dataset", "split", "clients", "seed", "algorithm")
"""Axes that every grid has, which make up a run's name, in the order of the runs; the last varies fastest."""

ALGORITHM, SPLIT = "algorithm", "split"
SECTIONS = {
    name: tuple(field.annotation.model_fields)
    for name, field in RunConfig.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section) and name != ALGORITHM
}
"""Section of a run, but for `algorithm` -> the keys that fedgrid gives it. A plugin's split has further
ones.
"""

SPLIT_KIND = f"{SPLIT}.kind"
"""Key of the kind of a split, whose axis is `SPLIT`."""
SETTING_PREFIX = f"{ALGORITHM}."
"""Prefix of the axes that are settings of an algorithm."""
Values: TypeAlias = Mapping[str, str | None]
"""Axis -> value as text."""


def list_axis_keys(configs: Iterable[RunConfig] = ()) -> tuple[str, ...]:
    """List every key that can be an axis, with dots: `dataset`, `training.rounds`, `algorithm.cooldown`.

    Args:
        configs: finished or planned runs, which have all settings of their algorithms; default: none. Keys
            of an algorithm that is not registered, because its plugin is not loaded, come last.
    """
    configs = list(configs)
    registered = _list_registered_keys(tuple(ALGORITHMS.values()))
    # One for each distinct section: a grid may have thousands of runs of one algorithm.
    unregistered = {repr(run.algorithm): run for run in configs if run.algorithm.name not in ALGORITHMS}
    unregistered_settings = (
        SETTING_PREFIX + key for run in unregistered.values() for key in _list_leaves(run.algorithm.settings)
    )
    split_fields = [kind.fields for kind in list_own_kinds()]
    split_fields += [tuple(run.split.model_extra or ()) for run in configs]
    plugin_split_keys = (f"{SPLIT}.{key}" for keys in split_fields for key in keys)
    return tuple(dict.fromkeys((*registered, *plugin_split_keys, *unregistered_settings)))


@lru_cache
def _list_registered_keys(algorithms: tuple[AlgorithmEntry, ...]) -> tuple[str, ...]:
    """List the keys of a run with these algorithms; cached, because reading all schemas takes a while."""
    keys: dict[str, None] = {}
    # Digests of plugins follow from the other keys: nobody varies them.
    for name in (field for field in RunConfig.model_fields if field != PLUGINS_KEY):
        # A section is no axis, its keys are. `split` is both: its value is the kind of the split, which
        # therefore is no axis again as `split.kind`.
        if name in AXES or name not in SECTIONS:
            keys[name] = None
        inner = (f"{name}.{key}" for key in SECTIONS.get(name, ()))
        keys |= dict.fromkeys(key for key in inner if key != SPLIT_KIND)
        if name == ALGORITHM:
            for entry in algorithms:
                keys |= dict.fromkeys(SETTING_PREFIX + key for key in _list_leaves(entry.settings))
    return tuple(keys)


def check_axis_key(key: str) -> None:
    """Check that `key` can be an axis.

    Raises:
        ConfigError: if it is no key of a run, or a section; names the closest key.
    """
    if key in list_axis_keys():
        return
    if key in SECTIONS:
        raise ConfigError(f"axis '{key}' is a section; name one of its keys, as in {key}.{SECTIONS[key][0]}")
    section, dot, rest = key.partition(".")
    if dot and section in (*SECTIONS, ALGORITHM):
        prefix = f"{section}."
        keys = (axis.removeprefix(prefix) for axis in list_axis_keys() if axis.startswith(prefix))
        raise unknown_key_error(rest, section, keys)
    # Of several keys with one last part the shortest is suggested: it is the last to be written here.
    inner = {axis.rpartition(".")[2]: axis for axis in sorted(list_axis_keys(), key=len, reverse=True)}
    top = (axis for axis in list_axis_keys() if not axis.startswith(SETTING_PREFIX))
    raise ConfigError(
        f"unknown axis '{key}'; {suggest_name(key, list_axis_keys(), nested_keys=inner)}allowed: any key of "
        "a run: "
        f"{', '.join(top)}, {SETTING_PREFIX}SETTING"
    )


def takes_list(key: str) -> bool:
    """Check whether a list can be one value of a key, as `[5, 10]` for `split.sizes`."""
    section, _, rest = key.partition(".")
    models: Iterable[BaseModel | type[BaseModel]] = [RunConfig]
    # Settings of algorithms and of plugins' splits are in models of their own.
    if section == ALGORITHM:
        models = [entry.settings for entry in ALGORITHMS.values()]
    elif section == SPLIT:
        models = [Split, *(kind.rule for kind in list_own_kinds())]
    path = rest.split(".") if section in (ALGORITHM, SPLIT) else key.split(".")
    sections = (find_section(model, tuple(path[:-1])) for model in models)
    fields = (section.model_fields.get(path[-1]) for section in sections if section is not None)
    return any(_has_list(field.annotation) for field in fields if field is not None)


def _has_list(annotation: Any) -> bool:
    """Check whether an annotation is a list or tuple, or a union with one."""
    kind = get_origin(annotation) or annotation
    return kind in (list, tuple) or (kind is not dict and any(map(_has_list, get_args(annotation))))


def sort_axes(axes: Iterable[str]) -> tuple[str, ...]:
    """List `AXES`, all of them, and the further ones of `axes`, as given, before seed and algorithm."""
    further = [axis for axis in axes if axis not in AXES]
    last = ("seed", ALGORITHM)
    return (*(axis for axis in AXES if axis not in last), *further, *last)


def format_axis_value(config: RunConfig, key: str) -> str | None:
    """Format a run's value of an axis; None if the run has no such key."""
    value = _find_value(config, key)
    return format_value(value[0]) if value else None


def read_axis_value(config: RunConfig, key: str) -> Any:
    """Read a run's value of an axis as it stands in JSON; None if there is none."""
    value = _find_value(config, key)
    return to_jsonable_python(value[0]) if value else None


def read_json_values(config: RunConfig, keys: Iterable[str]) -> dict[str, Any]:
    """Read a run's values of those keys that it has, as they stand in JSON."""
    return {key: to_jsonable_python(value[0]) for key in keys if (value := _find_value(config, key))}


def format_axis_values(config: RunConfig, axes: Sequence[str]) -> Values:
    """Format a run's values of several axes."""
    return {axis: format_axis_value(config, axis) for axis in axes}


def list_axis_pairs(config: RunConfig, axes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """List axis and value for the axes that a run has, as in `tracking.scoring.run.Run.axes`."""
    return tuple(
        (axis, value) for axis, value in format_axis_values(config, axes).items() if value is not None
    )


def find_default(config: RunConfig, key: str) -> Any:
    """Find the default of a key outside of `algorithm`: that of the kind of split, else that of the
    schema.
    """
    section, _, name = key.partition(".")
    is_registered = section == SPLIT and config.split.kind in KINDS
    defaults = KINDS[config.split.kind].DEFAULTS if is_registered else {}
    if name in defaults or (section == SPLIT and name not in Split.model_fields):
        return to_jsonable_python(defaults.get(name))
    fields = type(getattr(config, section)).model_fields if name else RunConfig.model_fields
    return to_jsonable_python(fields[name or section].get_default(call_default_factory=True))


def find_variant_settings(configs: Sequence[RunConfig], prefix: str = SETTING_PREFIX) -> tuple[str, ...]:
    """Find the keys with this prefix in which runs of one name differ, as `algorithm.threshold`.

    Args:
        configs: the runs.
        prefix: a section and a dot, as `split.`; default: `algorithm.`.
    """
    groups: dict[str, dict[str, RunConfig]] = {}
    for config in configs:
        # Runs with equal sections are represented by one of them: a grid may have thousands of runs.
        groups.setdefault(config.name, {})[repr(getattr(config, prefix.rstrip(".")))] = config
    keys = [key for key in list_axis_keys(configs) if key.startswith(prefix)]
    differing: dict[str, None] = {}
    for group in groups.values():
        if len(group) > 1:
            several = (
                key for key in keys if len({format_axis_value(run, key) for run in group.values()}) > 1
            )
            differing |= dict.fromkeys(several)
    return tuple(key for key in keys if key in differing)


def format_variant(config: RunConfig, settings: Sequence[str]) -> str:
    """Format a run's values of these settings, as in `round 6, threshold 0.4`; empty if it has none."""
    values = {key.removeprefix(SETTING_PREFIX): format_axis_value(config, key) for key in settings}
    # A setting that is None is formatted as JSON has it: null.
    return ", ".join(f"{key} {value}" for key, value in values.items() if value not in (None, "null"))


def _find_value(config: RunConfig, key: str) -> tuple[Any] | None:
    """Find a run's value of a key, alone in a tuple; None if there is none."""
    if key == ALGORITHM:
        return (config.algorithm.name,)
    if key == SPLIT:
        return (config.split.kind,)
    # A setting that is not stored has its default; a plugin's algorithm has none here unless it is loaded.
    entry = ALGORITHMS.get(config.algorithm.name)
    path = key.split(".")
    return find_value(config, path) or (find_value({ALGORITHM: entry.settings}, path) if entry else None)


def _list_leaves(settings: BaseModel | Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """List the keys of settings with dots, without the sections themselves."""
    for name, value in settings.items() if isinstance(settings, Mapping) else settings:
        if isinstance(value, BaseModel | Mapping):
            yield from _list_leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name

"""The one place that defines what a grid's axes are: any key of a run's configuration.

The keys are read from `RunConfig`, its sections and the settings of the registered algorithms, so that a new
field there is an axis at once. Everything else that uses axes (presets, filters, run order, MLflow tags,
tables and figures of a report) takes them from here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import PLUGINS_KEY, RunConfig
from fedgrid.engine.federation.dealing.kinds import list_own_kinds
from fedgrid.engine.federation.errors import ConfigError, suggest_name, unknown_key_error
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.sections import (
    find_fields,
    find_section,
    list_classes,
    list_fields,
    list_registered_classes,
)
from fedgrid.grids.presets.nested_values import find_value, set_value
from fedgrid.tracking.scoring.selection import find_choice_key, format_value

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
UNSET = (None, "null")
"""Values of a setting, as text, that names leave out."""
Values: TypeAlias = Mapping[str, str | None]
"""Axis -> value as text."""


def list_axis_keys(configs: Sequence[RunConfig] = ()) -> tuple[str, ...]:
    """List every key that can be an axis, with dots: `dataset`, `training.rounds`, `algorithm.cooldown`.

    A setting that is itself a section, such as `algorithm.aggregate`, is one, and so are its keys.

    Args:
        configs: finished or planned runs, which have all settings of their algorithms; default: none. Keys
            of what is not registered, because its plugin is not loaded, come last.
    """
    keys, _ = _collect_keys(configs)
    return tuple(keys)


def list_distinct_keys(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """List the keys of `list_axis_keys` without those that say the same of these runs as others.

    Of a setting that is a section, these are its keys, as `algorithm.clusterer.num_clusters`. A choice, such
    as `algorithm.aggregate`, is one key where runs of one algorithm choose several of its names, since the
    settings of one mean nothing to the other.
    """
    keys, choices = _collect_keys(configs)
    sections = {key.rpartition(".")[0] for key in keys} & keys.keys() - {*AXES}
    # Runs with equal sections are represented by one of them: a grid may have thousands of runs.
    distinct = {
        top: {(run.algorithm.name, repr(getattr(run, top))): run for run in configs}.values()
        for top in {choice.partition(".")[0] for choice in choices}
    }
    whole = {choice for choice in choices if _has_several_names(distinct[choice.partition(".")[0]], choice)}
    return tuple(
        key
        for key in keys
        if (key in whole or key not in sections) and not any(is_within(key, choice) for choice in whole)
    )


def is_setting(key: str) -> bool:
    """Check whether a key is a setting of an algorithm."""
    return key.startswith(SETTING_PREFIX)


def is_within(key: str, section: str) -> bool:
    """Check whether a key is one of a section, as `algorithm.local.mu` of `algorithm.local`."""
    return key.startswith(f"{section}.")


def join_keys(axes: Iterable[str], naming: Collection[str]) -> tuple[str, ...]:
    """Join axes, as typed, and the keys that tell runs apart.

    Of an axis that is a choice whose settings are among these keys, or a setting of one, the keys are enough.
    """
    own = (axis for axis in axes if not any(is_within(axis, key) or is_within(key, axis) for key in naming))
    return tuple(dict.fromkeys((*own, *naming)))


def _has_several_names(configs: Iterable[RunConfig], choice: str) -> bool:
    """Check whether runs of one algorithm choose different names."""
    names: dict[str, str] = {}
    return any(
        names.setdefault(run.algorithm.name, name) != name
        for run in configs
        for name in [_read_choice_name(run, choice)]
    )


def _read_choice_name(config: RunConfig, choice: str) -> str:
    """Read the name of what a run chooses: of `uplink`, the kinds of its steps; empty if it is nothing."""
    value = read_axis_value(config, choice)
    if isinstance(value, list):
        return " ".join(key for step in value for key in step)
    key = find_choice_key(value) if isinstance(value, Mapping) else None
    return "" if key is None else str(value[key])


def _collect_keys(configs: Sequence[RunConfig]) -> tuple[dict[str, None], dict[str, None]]:
    """Collect the keys of `list_axis_keys`, in order, and those of them that are choices."""
    registered, choices = _list_registered_keys(tuple(ALGORITHMS.values()), list_registered_classes())
    keys, choices = dict(registered), dict(choices)
    split_fields = [kind.fields for kind in list_own_kinds()]
    split_fields += [tuple(run.split.model_extra or ()) for run in configs]
    keys |= dict.fromkeys(f"{SPLIT}.{key}" for fields in split_fields for key in fields)
    # One for each distinct section: a grid may have thousands of runs of one algorithm.
    for section in {repr(run.algorithm): run.algorithm for run in configs}.values():
        for key, value in section.settings.items():
            is_chosen = isinstance(value, Mapping) and isinstance(value.get("name"), str)
            if section.name not in ALGORITHMS or is_chosen:
                keys |= dict.fromkeys(_list_stored_keys({key: value}, SETTING_PREFIX))
            if section.name not in ALGORITHMS and is_chosen:
                choices[SETTING_PREFIX + key] = None
    return keys, choices


@lru_cache
def _list_registered_keys(
    algorithms: tuple[AlgorithmEntry, ...], classes: tuple[type[BaseModel], ...]
) -> tuple[dict[str, None], dict[str, None]]:
    """List the keys of a run with these algorithms, and those of them that are choices.

    Cached, because reading all schemas takes a while.

    Args:
        algorithms: the registered ones.
        classes: the registered classes of choices; they decide which keys there are.
    """
    keys: dict[str, None] = {}
    choices: dict[str, None] = {}
    # Digests of plugins follow from the other keys: nobody varies them.
    for name in (field for field in RunConfig.model_fields if field != PLUGINS_KEY):
        # A section of a run is no axis, its keys are. `split` is both: its value is the kind of the split,
        # which therefore is no axis again as `split.kind`.
        if name in AXES or name not in SECTIONS:
            keys[name] = None
        parts = list_classes(RunConfig.model_fields[name].annotation)
        if name == ALGORITHM:
            parts = tuple(dict.fromkeys(type(entry.settings) for entry in algorithms))
        elif len(parts) > 1:
            choices[name] = None
        for part in parts:
            for key, is_choice in _iterate_keys(part, f"{name}."):
                keys[key] = None
                if is_choice:
                    choices[key] = None
    del keys[SPLIT_KIND]
    return keys, choices


def _iterate_keys(
    section: type[BaseModel], prefix: str, above: tuple[type[BaseModel], ...] = ()
) -> Iterator[tuple[str, bool]]:
    """Iterate over the keys of a section and of those within it, and whether each is a choice.

    Args:
        section: its class.
        prefix: what its keys begin with.
        above: the classes that it is in, whose keys are not repeated. Default: none.
    """
    for name, field in section.model_fields.items():
        parts = list_classes(field.annotation)
        yield prefix + name, len(parts) > 1
        for part in parts:
            if part not in above:
                yield from _iterate_keys(part, f"{prefix}{name}.", (*above, part))


def check_axis_key(key: str) -> None:
    """Check that `key` can be an axis.

    Raises:
        ConfigError: if it is no key of a run, or a section; names the closest key.
    """
    keys = list_axis_keys()
    if key in keys:
        return
    if key in SECTIONS:
        raise ConfigError(f"axis '{key}' is a section; name one of its keys, as in {key}.{SECTIONS[key][0]}")
    section = key.rpartition(".")[0]
    while section:
        if own := [axis.removeprefix(f"{section}.") for axis in keys if is_within(axis, section)]:
            raise unknown_key_error(key.removeprefix(f"{section}."), section, own)
        section = section.rpartition(".")[0]
    # Of several keys with one last part the shortest is suggested: it is the last to be written here.
    inner = {axis.rpartition(".")[2]: axis for axis in sorted(keys, key=len, reverse=True)}
    top = (axis for axis in keys if not axis.startswith(SETTING_PREFIX))
    raise ConfigError(
        f"unknown axis '{key}'; {suggest_name(key, keys, nested_keys=inner)}allowed: any key of "
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
    path = tuple(rest.split(".") if section in (ALGORITHM, SPLIT) else key.split("."))
    return any(_has_list(field.annotation) for model in models for field in find_fields(model, path))


def set_key(values: Mapping[str, Any], path: Sequence[str], value: Any, source: str) -> dict[str, Any]:
    """Set a key of a run in a copy of its values, as `set_value` does.

    A choice that is given by its name alone, as `aggregate: krum`, gets its settings beside the name. In a
    list of steps, as `uplink`, the step of that key is replaced, or put into its place.

    Raises:
        ConfigError: if a key on the path has a plain value.
    """
    keys = list_axis_keys()
    for length in range(1, len(path)):
        part, name = ".".join(path[:length]), find_value(values, path[:length])
        if name is not None and isinstance(name[0], str) and f"{part}.name" in keys:
            values = set_value(values, path[:length], {"name": name[0]}, source)
    *parents, last = path
    part = ".".join(parents)
    order = [key.removeprefix(f"{part}.") for key in keys if is_within(key, part)]
    [steps] = find_value(values, parents) or ([],)
    is_list = isinstance(steps, list) and all(isinstance(step, Mapping) for step in steps)
    if order and takes_list(part) and is_list:
        if not any(last in step for step in steps):
            later = order[order.index(last) :] if last in order else []
            place = next((at for at, step in enumerate(steps) if step.keys() & later), len(steps))
            steps = [*steps[:place], {last: value}, *steps[place:]]
        path, value = parents, [{last: value} if last in step else step for step in steps]
    return set_value(values, path, value, source)


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
    keys = [key for key in list_distinct_keys(configs) if key.startswith(prefix)]
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
    return ", ".join(list_value_words(config, settings, UNSET))


def list_value_words(
    config: RunConfig, keys: Iterable[str], left_out: Collection[str | None] = (None,)
) -> list[str]:
    """List a run's values of these keys as words: `threshold 0.4`, `aggregate krum (keep 0.8)`.

    Settings of a choice follow its name, unless this is the one that the algorithm has by default, as the
    clusterer of `ocfl-hdbscan`.

    Args:
        config: the run.
        keys: the keys.
        left_out: values, as text, that are not listed. Default: keys that the run lacks.
    """
    words: dict[str, list[str]] = {}
    for key in keys:
        part, _, inner = key.rpartition(".")
        value, name = format_axis_value(config, key), _find_unusual_name(config, part)
        if name is not None:
            chosen = words.setdefault(f"{part.removeprefix(SETTING_PREFIX)} {name}", [])
            chosen += [f"{inner} {value}"] if inner != "name" and value not in UNSET else []
        elif value not in left_out:
            words[f"{key.removeprefix(SETTING_PREFIX)} {value}"] = []
    return [f"{text} ({', '.join(chosen)})" if chosen else text for text, chosen in words.items()]


def _find_unusual_name(config: RunConfig, part: str) -> str | None:
    """Find the name that a run chooses in a part of its settings; None if it is the algorithm's default."""
    entry = ALGORITHMS.get(config.algorithm.name)
    path = [*part.split("."), "name"]
    if not part.startswith(SETTING_PREFIX) or entry is None:
        return None
    stored, usual = find_value(config, path), find_value({ALGORITHM: entry.settings}, path)
    return stored[0] if stored and stored != usual and isinstance(stored[0], str) else None


def _find_value(config: RunConfig, key: str) -> tuple[Any] | None:
    """Find a run's value of a key, alone in a tuple; None if there is none."""
    if key == ALGORITHM:
        return (config.algorithm.name,)
    if key == SPLIT:
        return (config.split.kind,)
    path = key.split(".")
    if (value := find_value(config, path)) is not None:
        return value
    if path[0] != ALGORITHM:
        steps = find_value(config, path[:-1])
        if steps is None or not isinstance(steps[0], tuple):
            return None
        # A step may stand there twice.
        values = [one[0] for step in steps[0] if (one := find_value(step, path[-1:])) is not None]
        return (values[0] if len(values) == 1 else values,) if values else None
    # A setting that is not stored has its default; a plugin's algorithm has none here unless it is loaded.
    entry = ALGORITHMS.get(config.algorithm.name)
    if entry is None:
        return None
    section = find_section(entry.settings, tuple(path[1:-1]), config.algorithm.settings)
    if section is None or path[-1] not in list_fields(section):
        return None
    is_class = isinstance(section, type)
    return (section.model_fields[path[-1]].default if is_class else getattr(section, path[-1]),)


def _list_stored_keys(settings: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """List the keys of stored settings with dots; of a section without a name, only those within it."""
    for name, value in settings.items():
        if not isinstance(value, Mapping) or isinstance(value.get("name"), str):
            yield prefix + name
        if isinstance(value, Mapping):
            yield from _list_stored_keys(value, f"{prefix}{name}.")

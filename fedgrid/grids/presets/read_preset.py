"""Read and check a preset's YAML: keys of a run, axes, seeds, filter, exclude, overrides, base."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import SETTABLE_KEYS, RunConfig
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.errors import ConfigError, unknown_key_error
from fedgrid.engine.runtime.configuration.complete import DEFAULTS, INNER
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.user_files import expand_path
from fedgrid.grids.presets import preset_files
from fedgrid.grids.presets.axes import Axes, Choice, GivenValue, Override, Preset, parse_axis, parse_choice
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SECTIONS, SPLIT, SPLIT_KIND, check_axis_key
from fedgrid.grids.presets.nested_values import find_value, set_value
from fedgrid.grids.presets.yaml_file import Place, YamlFile, format_yaml, prefix_errors, suggest_axis

SETTINGS_EXAMPLES = {ALGORITHM: "{cooldown: 40}", SPLIT: "{draws: 100}"}
"""Axis whose settings an override's `then` may set -> an example of them."""
OVERRIDABLE = tuple(key for key in SETTABLE_KEYS if key not in AXES or key in SETTINGS_EXAMPLES)
"""Keys that an override's `then` may set."""


def build_default_axes() -> dict[str, tuple[GivenValue, ...]]:
    """Build the axes of an empty file, with one default value each."""
    return {axis: (GivenValue(DEFAULTS[axis], is_default=True),) for axis in AXES}


def read_preset(file: YamlFile, trail: tuple[str, ...]) -> Preset:
    """Read the content of a file on top of its base.

    Args:
        file: the file.
        trail: names of the files that led here through `base`, itself last.

    Raises:
        ConfigError: for a key that does not exist, with its line.
    """
    for key in file.values:
        if key not in preset_files.PRESET_KEYS:
            with prefix_errors(Place(file, (key,))):
                if key == preset_files.SEARCH_KEY:
                    raise ConfigError(f"this file is a search: `fedgrid search {trail[-1]}` runs it")
                if key == "name":
                    raise ConfigError("a grid has the name of its file, or that of --name; leave out the key")
                if key.partition(".")[0] in (*SECTIONS, ALGORITHM):
                    raise build_dotted_key_error(key, file.values[key])
                raise unknown_key_error(key, "", preset_files.PRESET_KEYS, nested_keys=INNER)
    # The base and the plugins come first: axes and filters may name what they define.
    base = _read_base(file, trail)
    _use_plugins(file, trail)
    # A value that the file gives to all runs replaces an axis of its base.
    axes = {axis: values for axis, values in base.axes.items() if not _is_fixed(axis, file)} | _read_axes(
        file
    )
    chosen = base.filter
    if "filter" in file.values:
        place = Place(file, ("filter",))
        _require_keys("filter", file.values["filter"], tuple(axes), place)
        chosen = parse_choice(file.values["filter"], axes, place)
    source = f"preset {trail[-1]}"
    if trail[-1] not in preset_files.list_presets():
        # FEDGRID_SOURCE names the place of a file that was sent to a cluster.
        source = os.environ.get("FEDGRID_SOURCE") or str(Path(trail[-1]).resolve())
    return replace(
        base,
        axes=axes,
        fixed={**base.fixed, **_read_fixed(file)},
        overrides=(*base.overrides, *_read_overrides(file, axes)),
        excluded=(*base.excluded, *_read_excluded(file, axes)),
        filter=chosen,
        name=Path(trail[-1]).stem,
        text=file.text,
        source=source,
    )


def build_dotted_key_error(key: str, value: Any, owner: str = "a file") -> ConfigError:
    """Build the error for `training.rounds: 5` at the top of a file or run.

    Args:
        key: the key with a dot.
        value: its value.
        of: what the key stands in, for the message; default: a file.

    Raises:
        ConfigError: the key does not exist at all; names the nearest.
    """
    section, _, inner = key.partition(".")
    if key in (SPLIT_KIND, f"{ALGORITHM}.name"):  # They stand for their whole section.
        return ConfigError(f"'{key}' is no key of {owner}; write `{section}: {format_yaml(value)}`")
    check_axis_key(key)
    if isinstance(value, list):
        return ConfigError(f"'{key}' is no key of {owner}; {suggest_axis(key, value)}")
    named = {"name": "NAME"} if section == ALGORITHM else {}
    nested = set_value(named, inner.split("."), value, key)
    return ConfigError(f"'{key}' is no key of {owner}; write `{section}: {format_yaml(nested)}`")


def _read_base(file: YamlFile, trail: tuple[str, ...]) -> Preset:
    """Read the base of a file; without one, the defaults."""
    if "base" not in file.values:
        return Preset(build_default_axes())
    name = str(file.values["base"])
    if name not in preset_files.list_presets():
        sibling = os.path.normpath(Path(trail[-1]).parent / expand_path(name, "base"))
        # A file next to this one wins over a file of the working folder, but not over a preset's name.
        name = sibling if preset_files.is_path(sibling) else name
    with prefix_errors(Place(file, ("base",))):
        if name in trail:
            raise ConfigError(f"base = {name}: that file is based on this one; name another")
        opened = preset_files.open_preset(name)
    return read_preset(opened, (*trail, name))


def _use_plugins(file: YamlFile, trail: tuple[str, ...]) -> None:
    """Load the plugins that a file names, relative to its folder; its other keys may need them."""
    given = file.values.get("plugins", [])
    place = Place(file, ("plugins",))
    if not (isinstance(given, list) and all(isinstance(name, str) for name in given)):
        raise ConfigError(f"{place}: plugins = {given!r}: expected a list of files, as in [my_algorithms.py]")
    for index, name in enumerate(given):
        with prefix_errors(place.locate_part(index)):
            own = Path(trail[-1])
            active.add_grid_plugin(own.parent / expand_path(name, "plugin"), own)


def _read_axes(file: YamlFile) -> dict[str, tuple[GivenValue, ...]]:
    """Read the axes of a file: `AXES` at its top, and any key of a run under `axes`."""
    place = Place(file, (preset_files.AXES_KEY,))
    listed = file.values.get(preset_files.AXES_KEY, {})
    _require_keys(preset_files.AXES_KEY, listed, ("seed", "training.rounds"), place)
    given: list[tuple[str, Any, Place]] = []
    for key in (*AXES, preset_files.SEEDS):
        value = file.values.get(key)
        where = Place(file, (key,))
        if key == SPLIT and isinstance(value, Mapping):  # Its other keys are of all its kinds.
            given += [(key, value["kind"], where.locate_part("kind"))] if "kind" in value else []
        elif key in file.values:
            given.append((key, value, where))
    given += [(str(key), values, place.locate_part(str(key))) for key, values in listed.items()]
    axes: dict[str, tuple[GivenValue, ...]] = {}
    keys: dict[str, str] = {}
    for key, values, where in given:
        axis = "seed" if key == preset_files.SEEDS else key
        with prefix_errors(where):
            check_axis_key(axis)
            if values is None and axis in AXES:
                raise ConfigError(f"{key} has no value; give one, or leave it out for {DEFAULTS[axis]}")
            if axis in keys:
                raise ConfigError(f"{keys[axis]} and {key} both give values of one axis; leave one out")
            if _is_fixed(axis, file):
                raise ConfigError(f"{axis} has a value outside of axes too; leave one out")
        keys[axis] = key
        axes[axis] = parse_axis(axis, values, where)
    return axes


def _is_fixed(axis: str, file: YamlFile) -> bool:
    """Check whether a file gives an axis one value for all runs, such as `training: {rounds: 5}`."""
    return axis not in AXES and find_value(file.values, axis.split(".")) is not None


def _read_fixed(file: YamlFile) -> dict[str, GivenValue]:
    """Read the keys that all runs share, each with its value and line."""
    fixed = {}
    for key, value in file.values.items():
        place = Place(file, (key,))
        if key == SPLIT and isinstance(value, Mapping):
            rest = {name: inner for name, inner in value.items() if name != "kind"}
            for kind, inner in rest.items():
                # `majority` is a kind and, with a number, a setting.
                if kind in KINDS and isinstance(inner, Mapping):
                    meant = f"split: {format_yaml({'kind': kind, **inner})}"
                    raise ConfigError(
                        f"{place.locate_part(kind)}: '{kind}' is a kind of split; did you mean `{meant}`?"
                    )
            fixed[key] = GivenValue(rest, place)
        elif key in RunConfig.model_fields and key not in AXES:
            fixed[key] = GivenValue(value, place)
            if key in SECTIONS:
                _require_keys(key, value, SECTIONS[key], place)
    return fixed


def _read_excluded(file: YamlFile, axes: Axes) -> tuple[Choice, ...]:
    """Read the combinations of axis values that `exclude` lists."""
    given = file.values.get(preset_files.EXCLUDE, [])
    place = Place(file, (preset_files.EXCLUDE,))
    if not isinstance(given, list):
        raise ConfigError(f"{place}: exclude = {given!r}: expected a list, as in [{{clients: 30, seed: 4}}]")
    for index, entry in enumerate(given):
        _require_keys(preset_files.EXCLUDE, entry, tuple(axes), place.locate_part(index))
        if not entry:
            raise ConfigError(
                f"{place.locate_part(index)}: exclude has an entry without an axis; allowed: "
                f"{', '.join(axes)}"
            )
    return tuple(parse_choice(entry, axes, place.locate_part(index)) for index, entry in enumerate(given))


def _read_overrides(file: YamlFile, axes: Axes) -> tuple[Override, ...]:
    """Read the overrides that a file lists: `when` selects runs by their axes, `then` sets their keys."""
    given = file.values.get("overrides", [])
    place = Place(file, ("overrides",))
    if not isinstance(given, list):
        raise ConfigError(f"{place}: overrides = {given!r}: expected a list of when: {{...}} then: {{...}}")
    return tuple(_read_override(entry, axes, place.locate_part(index)) for index, entry in enumerate(given))


def _read_override(entry: Any, axes: Axes, place: Place) -> Override:
    """Read and check one override."""
    _require_keys("overrides", entry, ("when", "then"), place)
    for key in entry:
        if key not in ("when", "then"):
            with prefix_errors(place.locate_part(str(key))):
                raise unknown_key_error(str(key), "overrides", ("when", "then"))
    for key, allowed in (("when", tuple(axes)), ("then", OVERRIDABLE)):
        if not entry.get(key):
            raise ConfigError(f"{place}: an override needs {key}: with keys such as {', '.join(allowed)}")
        _require_keys(key, entry[key], allowed, place.locate_part(key))
    _check_then(entry["then"], axes, place.locate_part("then"))
    return Override(
        parse_choice(entry["when"], axes, place.locate_part("when")), entry["then"], place.locate_part("then")
    )


def _check_then(then: Mapping[Any, Any], axes: Axes, place: Place) -> None:
    """Check the keys of `then`: existing ones, and none that is an axis of the grid."""
    for key, value in then.items():
        with prefix_errors(place.locate_part(str(key))):
            if key in AXES and key not in OVERRIDABLE:
                raise ConfigError(f"{key} in then: an axis cannot change; allowed: {', '.join(OVERRIDABLE)}")
            if key not in OVERRIDABLE:
                raise unknown_key_error(str(key), "then", OVERRIDABLE, nested_keys=INNER)
            if key in SETTINGS_EXAMPLES and (
                not isinstance(value, Mapping) or {"name", "kind"} & value.keys()
            ):
                raise ConfigError(
                    f"then.{key} = {value!r}: expected settings only, as in {SETTINGS_EXAMPLES[key]}"
                )
        if key in SECTIONS:
            _require_keys(f"then.{key}", value, SECTIONS[key], place.locate_part(str(key)))
    for axis in axes:
        if axis not in AXES and find_value(then, path := axis.split(".")):
            raise ConfigError(
                f"{place.locate_part(*path)}: {axis} in then: an axis of this grid cannot change; leave it "
                "out"
            )


def _require_keys(name: str, value: Any, keys: Sequence[str], place: Place) -> None:
    """Check that a value is a mapping; the message names the first of its allowed `keys`."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: {name} = {value!r}: expected keys such as {', '.join(keys[:3])}")

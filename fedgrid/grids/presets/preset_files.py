"""Reads and checks a preset's YAML: keys of a run, axes, seeds, filter, exclude, overrides, base."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import SETTABLE, RunConfig
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.errors import ConfigError, unknown, unknown_key
from fedgrid.engine.runtime.configuration.complete import DEFAULTS, INNER
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.presets.axes import Axes, Choice, Item, choose, items
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, KIND, SECTIONS, SPLIT, check_axis_key, has
from fedgrid.grids.presets.changes import with_value
from fedgrid.grids.presets.expand import Description
from fedgrid.grids.presets.overrides import read_overrides, require_keys
from fedgrid.grids.presets.yaml_file import Place, YamlFile, as_axis, at, in_one_line, read_yaml

SEEDS, AXES_KEY, EXCLUDE = "seeds", "axes", "exclude"
SEARCH = "search"
"""The key of a search's file that holds its space; a grid has none."""
NAMES = (KIND, f"{ALGORITHM}.name")
"""Keys that stand for their whole section."""
KEYS = (
    *SETTABLE,
    *(SEEDS, AXES_KEY, "filter", EXCLUDE, "overrides", "base", "plugins"),
)
"""Keys that a file may have."""

PRESETS = files("fedgrid.grids") / "presets"


@dataclass(frozen=True)
class Preset:
    """The content of a file and of its base."""

    description: Description
    filter: Choice


def preset_names() -> list[str]:
    """Return the names of the presets that come with fedgrid, quickstart first, then by the alphabet."""
    names = [Path(entry.name).stem for entry in PRESETS.iterdir() if entry.name.endswith(".yaml")]
    return sorted(names, key=lambda name: (name != "quickstart", name))


def source(name: str) -> str:
    """Return the text of a preset's file."""
    return (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")


def comment(text: str) -> str:
    """Return the comment at the top of a file, on one line."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.removeprefix("#").strip() for line in lines)


def is_path(what: str) -> bool:
    """Return whether `what` names a file, not a preset."""
    if what in preset_names():
        return False
    try:
        return Path(what).suffix in (".yaml", ".yml") or Path(what).is_file()
    except OSError:
        # Too long for the name of a file.
        return False


def file_meant(what: str) -> str | None:
    """Return the file whose ending `what` leaves out, None if there is none."""
    return next((file for file in (f"{what}.yaml", f"{what}.yml") if os.path.isfile(file)), None)


def _no_preset(what: str) -> ConfigError:
    """Return the error for what is no preset; it may be a file without its ending, or a data set."""
    if file := file_meant(what):
        return ConfigError(f"unknown preset '{what}'; did you mean the file {file}?")
    if what in DATASETS or what.startswith(("folder:", "npz:")):
        return ConfigError(
            f"'{what}' is a data set, no preset: fedgrid run --dataset {what} --algorithm fedavg"
        )
    if what in ALGORITHMS:
        return ConfigError(f"'{what}' is an algorithm, no preset: fedgrid run --algorithm {what}")
    return unknown("preset", what, preset_names())


def open_preset(what: str) -> YamlFile:
    """Return the file of a preset, or one of the user's.

    Raises:
        ConfigError: if there is none, or it cannot be read.
    """
    if what in preset_names():
        return YamlFile(f"{what}.yaml", (PRESETS / f"{what}.yaml").read_bytes())
    if not is_path(what):
        raise _no_preset(what)
    try:
        return read_yaml(Path(what))
    except FileNotFoundError as error:
        stem = Path(what).stem
        near = f"did you mean the preset {stem}? " if stem in preset_names() else ""
        raise ConfigError(f"no file {what}; {near}presets: {', '.join(preset_names())}") from error
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror}") from error


def defaults() -> dict[str, tuple[Item, ...]]:
    """Return the axes of an empty file, with one default value each."""
    return {axis: items(axis, DEFAULTS[axis]) for axis in AXES}


def read_preset(file: YamlFile, trail: tuple[str, ...]) -> Preset:
    """Return the content of a file on top of its base; `trail` names the files that led here, itself last.

    Raises:
        ConfigError: for a key that does not exist, with its line.
    """
    for key in file.values:
        if key not in KEYS:
            with at(Place(file, (key,))):
                if key == SEARCH:
                    raise ConfigError(f"this file is a search: `fedgrid search {trail[-1]}` runs it")
                if key == "name":
                    raise ConfigError("a grid has the name of its file, or that of --name; leave out the key")
                if key.partition(".")[0] in (*SECTIONS, ALGORITHM):
                    raise _dotted(key, file.values[key])
                raise unknown_key(key, "", KEYS, inner=INNER)
    base = _base(file, trail)
    _use_plugins(file, trail)
    inherited = base.description.axes.items()
    axes = {axis: values for axis, values in inherited if not _is_fixed(axis, file)} | _axes(file)
    overrides = read_overrides(file.values.get("overrides", []), axes, Place(file, ("overrides",)))
    description = Description(
        axes,
        {**base.description.fixed, **_fixed(file)},
        (*base.description.overrides, *overrides),
        excluded=(*base.description.excluded, *_excluded(file, axes)),
    )
    return Preset(description, _filter(file, axes) if "filter" in file.values else base.filter)


def _dotted(key: str, value: Any) -> ConfigError:
    """Return the error for `training.rounds: 5` at the top of a file.

    Raises:
        ConfigError: the section has no such key.
    """
    section, _, inner = key.partition(".")
    if key in NAMES:
        return ConfigError(f"'{key}' is no key of a file; write `{section}: {in_one_line(value)}`")
    check_axis_key(key)
    if isinstance(value, list):
        return ConfigError(f"'{key}' is no key of a file; {as_axis(key, value)}")
    named = {"name": "NAME"} if section == ALGORITHM else {}
    nested = with_value(named, inner.split("."), value, key)
    return ConfigError(f"'{key}' is no key of a file; write `{section}: {in_one_line(nested)}`")


def _base(file: YamlFile, trail: tuple[str, ...]) -> Preset:
    if "base" not in file.values:
        return Preset(Description(defaults(), {}), {})
    name = str(file.values["base"])
    if name not in preset_names():
        beside = os.path.normpath(Path(trail[-1]).parent / name)
        name = beside if is_path(beside) else name
    with at(Place(file, ("base",))):
        if name in trail:
            raise ConfigError(f"base = {name}: that file is based on this one; name another")
        opened = open_preset(name)
    return read_preset(opened, (*trail, name))


def _use_plugins(file: YamlFile, trail: tuple[str, ...]) -> None:
    """Use the plugins that a file names, relative to its folder: what it says besides may need them."""
    given, place = file.values.get("plugins", []), Place(file, ("plugins",))
    if not (isinstance(given, list) and all(isinstance(name, str) for name in given)):
        with at(place):
            raise ConfigError(f"plugins = {given!r}: expected a list of files, as in [my_algorithms.py]")
    for index, name in enumerate(given):
        with at(place.under(index)):
            active.add(Path(trail[-1]).parent / name)


def _axes(file: YamlFile) -> dict[str, tuple[Item, ...]]:
    """Return the axes of a file: `AXES` at its top, and any key of a run under `axes`."""
    place = Place(file, (AXES_KEY,))
    listed = file.values.get(AXES_KEY, {})
    require_keys(AXES_KEY, listed, ("seed", "training.rounds"), place)
    given = [(key, file.values[key], Place(file, (key,))) for key in (*AXES, SEEDS) if key in file.values]
    given = [each for each in map(_kinds, given) if each is not None]
    given += [(str(key), values, place.under(str(key))) for key, values in listed.items()]
    found: dict[str, tuple[str, tuple[Item, ...]]] = {}
    for key, values, where in given:
        axis = "seed" if key == SEEDS else key
        with at(where):
            check_axis_key(axis)
            if values is None and axis in AXES:
                raise ConfigError(f"{key} has no value; give one, or leave it out for {DEFAULTS[axis]}")
            if axis in found:
                raise ConfigError(f"{found[axis][0]} and {key} both give values of one axis; leave one out")
            if _is_fixed(axis, file):
                raise ConfigError(f"{axis} has a value outside of axes too; leave one out")
        found[axis] = key, items(axis, values, where)
    return {axis: values for axis, (_, values) in found.items()}


def _kinds(given: tuple[str, Any, Place]) -> tuple[str, Any, Place] | None:
    """Return the kinds of a file's `split`, whose other keys are of all of them; None if it names no kind."""
    key, value, place = given
    if key == SPLIT and isinstance(value, Mapping):
        return (key, value["kind"], place.under("kind")) if "kind" in value else None
    return given


def _is_fixed(axis: str, file: YamlFile) -> bool:
    """Return whether a file gives an axis one value for all runs, such as `training: {rounds: 5}`."""
    return axis not in AXES and has(file.values, axis.split("."))


def _fixed(file: YamlFile) -> dict[str, tuple[Any, Place]]:
    fixed = {}
    for key, value in file.values.items():
        if key == SPLIT and isinstance(value, Mapping):
            rest = {name: inner for name, inner in value.items() if name != "kind"}
            # `majority` is a kind and, with a number, a setting.
            if kind := next(
                (name for name in rest if name in KINDS and isinstance(rest[name], Mapping)), None
            ):
                with at(Place(file, (key, str(kind)))):
                    meant = in_one_line({"kind": kind, **rest[kind]})
                    raise ConfigError(f"'{kind}' is a kind of split; did you mean `split: {meant}`?")
            fixed[key] = (rest, Place(file, (key,)))
        elif key in RunConfig.model_fields and key not in AXES:
            fixed[key] = (value, Place(file, (key,)))
            if key in SECTIONS:
                require_keys(key, value, SECTIONS[key], Place(file, (key,)))
    return fixed


def _excluded(file: YamlFile, axes: Axes) -> tuple[Choice, ...]:
    """Return which combinations of its axes' values a file leaves out."""
    given, place = file.values.get(EXCLUDE, []), Place(file, (EXCLUDE,))
    if not isinstance(given, list):
        with at(place):
            raise ConfigError(f"exclude = {given!r}: expected a list, as in [{{clients: 30, seed: 4}}]")
    for index, entry in enumerate(given):
        require_keys(EXCLUDE, entry, tuple(axes), place.under(index))
        if not entry:
            with at(place.under(index)):
                raise ConfigError(f"exclude has an entry without an axis; allowed: {', '.join(axes)}")
    return tuple(choose(entry, axes, place.under(index)) for index, entry in enumerate(given))


def _filter(file: YamlFile, axes: Axes) -> Choice:
    place = Place(file, ("filter",))
    require_keys("filter", file.values["filter"], tuple(axes), place)
    return choose(file.values["filter"], axes, place)

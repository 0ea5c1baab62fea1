"""What a preset's YAML may say, read and checked: keys of a run, lists, seeds, filter, overrides, base."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedgrid.engine.errors import ConfigError, DataError, unknown, unknown_key
from fedgrid.engine.plugins import active
from fedgrid.engine.run_config import DEFAULTS, PLUGINS, RunConfig
from fedgrid.grids.presets.axes import AXES, Axes, Choice, Item, choose, items
from fedgrid.grids.presets.expand import Description, Expander
from fedgrid.grids.presets.overrides import SECTIONS, Override, read_overrides, require_keys
from fedgrid.grids.presets.yaml_file import Place, YamlFile, at

KEYS = (
    *(key for key in RunConfig.model_fields if key != PLUGINS),
    *("seeds", "filter", "overrides", "base", "plugins"),
)
"""What a file may say."""

PRESETS = files("fedgrid.grids") / "presets"


@dataclass(frozen=True)
class Preset:
    """What a file says, with what it is based on."""

    description: Description
    filter: Choice


def preset_names() -> list[str]:
    """Return the names of the presets that come with fedgrid, the one to begin with first."""
    names = [Path(entry.name).stem for entry in PRESETS.iterdir() if entry.name.endswith(".yaml")]
    return sorted(names, key=lambda name: (name != "quickstart", name))


def is_path(what: str) -> bool:
    """Say whether `what` is meant as a file, not as a preset."""
    return what not in preset_names() and (Path(what).suffix in (".yaml", ".yml") or Path(what).is_file())


def open_preset(what: str) -> YamlFile:
    """Return the file of a preset, or of the user.

    Raises:
        ConfigError: if there is none.
    """
    if what in preset_names():
        return YamlFile(f"{what}.yaml", (PRESETS / f"{what}.yaml").read_bytes())
    if not is_path(what):
        raise unknown("preset", what, preset_names())
    try:
        return YamlFile(what, Path(what).read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"no file {what}; presets: {', '.join(preset_names())}") from error
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror}") from error


def defaults() -> dict[str, tuple[Item, ...]]:
    """Return the axes of a grid that says nothing."""
    return {axis: items(axis, DEFAULTS[axis]) for axis in AXES}


def read_preset(file: YamlFile, data_dir: Path, trail: tuple[str, ...]) -> Preset:
    """Return what a file says, on top of its base; `trail` names the files that led here, itself last.

    Raises:
        ConfigError: for what cannot be, with its line; also in what a filter leaves out.
    """
    for key in file.values:
        if key not in KEYS:
            with at(Place(file, (key,))):
                raise unknown_key(key, "", KEYS)
    base = _base(file, data_dir, trail)
    _use_plugins(file, trail)
    own = _axes(file)
    axes = {**base.description.axes, **own}
    overrides = read_overrides(file.values.get("overrides", []), axes, Place(file, ("overrides",)))
    description = Description(
        axes,
        {**base.description.fixed, **_fixed(file)},
        (*base.description.overrides, *overrides),
    )
    _try_each(description, own, overrides, data_dir)
    return Preset(description, _filter(file, axes) if "filter" in file.values else base.filter)


def _base(file: YamlFile, data_dir: Path, trail: tuple[str, ...]) -> Preset:
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
    return read_preset(opened, data_dir, (*trail, name))


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
    if "seed" in file.values and "seeds" in file.values:
        with at(Place(file, ("seeds",))):
            raise ConfigError("seed and seeds both stand there; leave one out")
    keys = {**{axis: axis for axis in AXES}, "seeds": "seed"}
    return {
        axis: items(axis, file.values[key], Place(file, (key,)))
        for key, axis in keys.items()
        if key in file.values
    }


def _fixed(file: YamlFile) -> dict[str, tuple[Any, Place]]:
    fixed = {}
    for key, value in file.values.items():
        if key in RunConfig.model_fields and key not in AXES:
            fixed[key] = (value, Place(file, (key,)))
            if key in SECTIONS:
                require_keys(key, value, SECTIONS[key], Place(file, (key,)))
    return fixed


def _filter(file: YamlFile, axes: Axes) -> Choice:
    place = Place(file, ("filter",))
    require_keys("filter", file.values["filter"], AXES, place)
    return choose(file.values["filter"], axes, place)


def _try_each(description: Description, own: Axes, overrides: tuple[Override, ...], data_dir: Path) -> None:
    """Complete a run for each value of a file's own axes, and for each of its own overrides.

    So a typo is found even where a filter leaves its runs out. Images that are missing do not matter here.
    """
    alone = {axis: values[0] for axis, values in defaults().items()}
    plain = Expander(Description({}, {}), data_dir)
    # Seeds were read one by one, and may be thousands.
    for axis, values in own.items():
        for item in values if axis != "seed" else ():
            with suppress(DataError):
                plain.complete({**alone, axis: item})
    expander = Expander(description, data_dir)
    for override in overrides:
        with suppress(DataError):
            expander.complete(_first(description.axes, override.when))


def _first(axes: Axes, choice: Choice) -> Mapping[str, Item]:
    """Return the first value of every axis that `choice` allows."""
    return {
        axis: next(item for item in values if item.label in choice.get(axis, {item.label}))
        for axis, values in axes.items()
    }

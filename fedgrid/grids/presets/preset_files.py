"""Find and open the files of presets: those that come with fedgrid, and the user's."""

import os
from contextlib import suppress
from difflib import get_close_matches
from importlib.resources import files
from itertools import takewhile
from pathlib import Path

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import SETTABLE_KEYS
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.runtime.data.own_images import OWN_FORMATS
from fedgrid.grids.presets.axis_keys import list_axis_keys
from fedgrid.grids.presets.yaml_file import YamlFile, read_yaml

SEEDS, AXES_KEY, EXCLUDE = "seeds", "axes", "exclude"
PRESET_KEYS = (*SETTABLE_KEYS, SEEDS, AXES_KEY, "filter", EXCLUDE, "overrides", "base", "plugins")
"""Keys that a file may have at its top."""
SEARCH_KEY = "search"
"""Key of a search's file with its space; the file of a grid has none."""

GRID_SUFFIXES = (".yaml", ".yml")
"""Endings of files of grids."""
PRESETS = files("fedgrid.grids") / "presets"


def list_presets() -> list[str]:
    """List the names of the presets that come with fedgrid: quickstart first, then alphabetically."""
    names = [Path(entry.name).stem for entry in PRESETS.iterdir() if entry.name.endswith(".yaml")]
    return sorted(names, key=lambda name: (name != "quickstart", name))


def read_preset_text(name: str) -> str:
    """Read the text of a preset's file."""
    return (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")


def read_top_comment(text: str) -> str:
    """Read the comment at the top of a file, on one line."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.removeprefix("#").strip() for line in lines)


def is_path(what: str) -> bool:
    """Check whether `what` names a file, not a preset."""
    if what in list_presets():
        return False
    try:
        return Path(what).suffix in GRID_SUFFIXES or Path(what).is_file()
    except OSError:
        # Too long for the name of a file.
        return False


def complete_suffix(what: str) -> str | None:
    """Complete a file's name that lacks its ending; None if there is no such file."""
    return next((file for file in (f"{what}.yaml", f"{what}.yml") if os.path.isfile(file)), None)


def _list_grid_files(folder: Path) -> list[str]:
    """List the YAML files in a folder; empty if it cannot be read."""
    with suppress(OSError):
        return sorted(str(file) for file in folder.iterdir() if file.suffix in GRID_SUFFIXES)
    return []


def _build_missing_error(what: str) -> ConfigError:
    """Build the error for a name that is no preset; it may be a file without its ending, or a data set."""
    if file := complete_suffix(what):
        return ConfigError(f"unknown preset '{what}'; did you mean the file {file}?")
    if what in DATASETS or what.partition(":")[0] in OWN_FORMATS:
        return ConfigError(
            f"'{what}' is a data set, no preset: fedgrid run --dataset {what} --algorithm fedavg"
        )
    if what in ALGORITHMS:
        return ConfigError(f"'{what}' is an algorithm, no preset: fedgrid run --algorithm {what}")
    if what in list_axis_keys():
        return ConfigError(f"'{what}' is a key, no preset: expected KEY=VALUE, as in training.rounds=5")
    if os.path.isdir(what):
        inside = ", ".join(_list_grid_files(Path(what))) or "it has none"
        return ConfigError(f"{what} is a folder; name a YAML file: {inside}")
    if os.sep in what:
        return ConfigError(f"no file {what}; a grid is a YAML file, or one of `fedgrid list presets`")
    return unknown_name_error("preset", what, list_presets())


def open_preset(what: str) -> YamlFile:
    """Open the file of a preset, or one of the user's.

    Raises:
        ConfigError: if there is none, or it cannot be read.
    """
    if what in list_presets():
        return YamlFile(f"{what}.yaml", (PRESETS / f"{what}.yaml").read_bytes())
    if not is_path(what):
        raise _build_missing_error(what)
    try:
        return read_yaml(Path(what))
    except FileNotFoundError as error:
        # Only a typing error is worth a guess: another file of the folder is another grid.
        if close := get_close_matches(what, _list_grid_files(Path(what).parent), n=1, cutoff=0.85):
            raise ConfigError(f"no file {what}; did you mean {close[0]}?") from error
        stem = Path(what).stem
        near = f"did you mean the preset {stem}? " if stem in list_presets() else ""
        raise ConfigError(f"no file {what}; {near}presets: {', '.join(list_presets())}") from error
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror}") from error

"""A grid's file as a job needs it: with the files that it is based on, their plugins and images."""

import os
from collections.abc import Iterator
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.preset_files import is_path, preset_names
from fedgrid.grids.presets.yaml_file import YamlFile, read_yaml
from fedgrid.grids.submit import plugin_files
from fedgrid.grids.submit.images import Shipment, relative

FOLDER = "grid"
"""Where the files lie in the job's working directory, as they lie to one another here."""


def staged(argument: str, folder: Path, shipment: Shipment, *, is_first: bool) -> str:
    """Copy an argument that names a grid's file; return its name there, or else the argument.

    Only the first argument may be a file without the suffix of YAML.
    """
    is_yaml = is_path(argument) if is_first else Path(argument).suffix in (".yaml", ".yml")
    if not is_yaml or argument.startswith("-"):
        return argument
    return stage(argument, folder, shipment)


def stage(name: str, folder: Path, shipment: Shipment) -> str:
    """Copy a grid's file, its bases, plugins and images into `folder`; return the file's name there.

    Raises:
        ConfigError: if a file is missing, or names another one by a path that holds only here.
        DataError: if its images cannot be used.
    """
    files = {Path(os.path.abspath(path)): file for path, file in _chain(name)}
    root = os.path.commonpath([path.parent for path in files])
    for path, file in files.items():
        shipment.take(file.values)
        there = folder / FOLDER / path.relative_to(root)
        there.parent.mkdir(parents=True, exist_ok=True)
        plugin_files.stage_listed(path, there.parent)
        there.write_text(shipment.rewrite(path.read_text()))
        if left := next(relative(read_yaml(there).values), None):
            raise ConfigError(f"{path}: {left}: write this name in one piece, without escapes")
    return Path(FOLDER, next(iter(files)).relative_to(root)).as_posix()


def _chain(name: str) -> Iterator[tuple[Path, YamlFile]]:
    """Yield a grid's file, the file that it is based on, and so on."""
    seen: set[Path] = set()
    path = Path(name)
    while path not in seen:
        seen.add(path)
        try:
            file = read_yaml(path)
        except OSError as error:
            raise ConfigError(f"no file {path}: {error.strerror}") from error
        yield path, file
        base = str(file.values.get("base", ""))
        beside = Path(os.path.normpath(path.parent / base))
        if base in ("", *preset_names()) or not is_path(str(beside)):
            return  # A preset; a name that is none is refused when the grid is read.
        if Path(base).is_absolute():
            raise ConfigError(
                f"{path}: base = {base}: a job takes files by a path relative to the grid's file"
            )
        path = beside

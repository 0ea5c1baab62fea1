"""A grid's file as a job needs it: with the files that it is based on, and their plugins."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedgrid.engine.data.datasets import OWN_FORMATS
from fedgrid.engine.errors import ConfigError
from fedgrid.grids.presets.preset_files import is_path, preset_names
from fedgrid.grids.presets.yaml_file import YamlFile, read_yaml
from fedgrid.grids.submit import plugin_files

FOLDER = "grid"
"""Where the files lie in the job's working directory, as they lie to one another here."""


def stage(name: str, folder: Path) -> str:
    """Copy a grid's file, its bases and their plugins into `folder`; return the file's name there.

    Raises:
        ConfigError: if a file is missing, or names another one, or images, by a path that holds only here.
    """
    files = {Path(os.path.abspath(path)): file for path, file in _chain(name)}
    root = os.path.commonpath([path.parent for path in files])
    for path, file in files.items():
        _check_images(file.name, file.values)
        there = folder / FOLDER / path.relative_to(root)
        there.parent.mkdir(parents=True, exist_ok=True)
        plugin_files.stage_listed(path, there.parent)
        shutil.copy(path, there)
    return Path(FOLDER, next(iter(files)).relative_to(root)).as_posix()


def check_options(arguments: Sequence[str]) -> None:
    """Check that no option names images by a relative path.

    Raises:
        ConfigError: if one does.
    """
    for argument in arguments:
        _check_images("the command", argument.rpartition("=")[2])


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


def _check_images(where: str, value: Any) -> None:
    """Refuse images by a relative path: the cluster's machines have other folders, or none."""
    if isinstance(value, dict):
        for inner in value.values():
            _check_images(where, inner)
    elif isinstance(value, list):
        for inner in value:
            _check_images(where, inner)
    elif isinstance(value, str):
        for word in value.split(","):
            kind, _, path = word.strip(" []'\"").partition(":")
            if kind in OWN_FORMATS and path and not path.startswith(("/", "~")):
                raise ConfigError(
                    f"{where}: {kind}:{path}: images do not travel with a job; put them on a disk that all "
                    "machines of the cluster have, and name the absolute path there"
                )

"""A grid's file and plugins as a job needs them: with the files that it is based on, and their images."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins.checks import check_trust
from fedgrid.engine.runtime.storage.user_files import expand_path
from fedgrid.grids.presets.preset_files import is_path, preset_names
from fedgrid.grids.presets.yaml_file import YamlFile, read_yaml
from fedgrid.grids.submit.images import Shipment, relative_names

OPTION = "--plugin"
FOLDER = "grid"
"""Where the files lie in the job's working directory, as they lie to one another here."""


def stage_argument(argument: str, folder: Path, shipment: Shipment, *, is_first: bool, trust: bool) -> str:
    """Copy an argument that names a grid's file; return its name there, or else the argument.

    Only the first argument may be a file without the suffix of YAML.
    """
    is_yaml = is_path(argument) if is_first else Path(argument).suffix in (".yaml", ".yml")
    if not is_yaml or argument.startswith("-"):
        return argument
    return stage(argument, folder, shipment, trust=trust)


def stage(name: str, folder: Path, shipment: Shipment, *, trust: bool = False) -> str:
    """Copy a grid's file, its bases, plugins and images into `folder`; return the file's name there.

    Raises:
        ConfigError: if a file is missing, or names another one by a path that holds only here.
        DataError: if its images cannot be used.
    """
    files = {Path(os.path.abspath(path)): file for path, file in _chain(name)}
    root = os.path.commonpath([path.parent for path in files])
    for path, file in files.items():
        shipment.take(file.values)
        copy = folder / FOLDER / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        stage_listed(path, copy.parent, trust=trust)
        copy.write_text(shipment.rewrite(path.read_text()))
        if left := next(relative_names(read_yaml(copy).values), None):
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
        place = expand_path(base, "base") if base else Path()
        beside = Path(os.path.normpath(path.parent / place))
        if base in ("", *preset_names()) or not is_path(str(beside)):
            return  # A preset; a name that is none is refused when the grid is read.
        if place.is_absolute() or place != Path(base):
            raise ConfigError(
                f"{path}: base = {base}: a job takes files by a path relative to the grid's file: copy it"
            )
        path = beside


def stage_options(arguments: Sequence[str], folder: Path) -> Iterator[str]:
    """Copy what `--plugin` names into `folder`; yield the arguments for there.

    Files of one name from several folders each get a folder of their own.

    Raises:
        ConfigError: if a file is missing.
    """
    before = ""
    for index, argument in enumerate(arguments):
        if before == OPTION:
            yield _stage_plugin(argument, folder, index)
        elif argument.startswith(f"{OPTION}="):
            yield f"{OPTION}={_stage_plugin(argument.partition('=')[2], folder, index)}"
        else:
            yield argument
        before = argument


def stage_listed(grid: Path, folder: Path, *, trust: bool = False) -> None:
    """Copy what `plugins:` of a grid's file names into `folder`, where the file itself is copied.

    Raises:
        ConfigError: if one is missing, lies outside of the folder of the grid's file, or where others may
            have written it, without `trust`: in the job's folder nothing tells that any longer.
    """
    listed = YamlFile(str(grid), grid.read_bytes()).values.get("plugins", [])
    for name in listed if isinstance(listed, list) else []:
        path = Path(str(name))
        place = expand_path(path, "plugin")
        if place.is_absolute() or place != path or ".." in path.parts:
            raise ConfigError(
                f"{grid}: plugins = {name}: a job takes files beside the grid's file; move it there, or "
                f"name it with {OPTION}"
            )
        if not trust:
            check_trust(grid.parent / path, grid)
        _copy(grid.parent / path, folder / path)


def _stage_plugin(name: str, folder: Path, index: int) -> str:
    copy = Path("plugins", str(index), Path(name).name)
    _copy(Path(name), folder / copy)
    return copy.as_posix()


def _copy(file: Path, copy: Path) -> None:
    if not file.is_file():
        raise ConfigError(f"no plugin {file}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, copy)

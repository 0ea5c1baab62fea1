"""The plugins of a job: the files that `--plugin` and a grid's YAML name, copied to where the job runs."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.yaml_file import YamlFile

OPTION = "--plugin"


def stage_options(arguments: Sequence[str], folder: Path) -> Iterator[str]:
    """Copy what `--plugin` names into `folder`; yield the arguments for there.

    Files of one name from several folders each get a folder of their own.

    Raises:
        ConfigError: if a file is missing.
    """
    before = ""
    for index, argument in enumerate(arguments):
        if before == OPTION:
            yield _stage(argument, folder, index)
        elif argument.startswith(f"{OPTION}="):
            yield f"{OPTION}={_stage(argument.partition('=')[2], folder, index)}"
        else:
            yield argument
        before = argument


def stage_listed(grid: Path, folder: Path) -> None:
    """Copy what `plugins:` of a grid's file names into `folder`, where the file itself is copied.

    Raises:
        ConfigError: if one is missing, or lies outside of the folder of the grid's file.
    """
    listed = YamlFile(str(grid), grid.read_bytes()).values.get("plugins", [])
    for name in listed if isinstance(listed, list) else []:
        path = Path(str(name))
        if path.is_absolute() or ".." in path.parts:
            raise ConfigError(
                f"{grid}: plugins = {name}: a job takes files beside the grid's file; move it there, or "
                f"name it with {OPTION}"
            )
        _copy(grid.parent / path, folder / path)


def _stage(name: str, folder: Path, index: int) -> str:
    there = Path("plugins", str(index), Path(name).name)
    _copy(Path(name), folder / there)
    return there.as_posix()


def _copy(file: Path, there: Path) -> None:
    if not file.is_file():
        raise ConfigError(f"no plugin {file}")
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, there)

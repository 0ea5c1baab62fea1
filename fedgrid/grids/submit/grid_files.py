"""Check the arguments of a job, whose files travel with it if they lie below the current folder."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins.checks import check_trust
from fedgrid.grids.presets.preset_files import is_path, list_presets
from fedgrid.grids.presets.yaml_file import YamlFile, read_yaml
from fedgrid.redaction import redact_secrets

PLUGIN_OPTION, PLACE_OPTIONS = "--plugin", ("--storage", "--data-dir")


def prepare_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of `fedgrid run` with the files that they name as the job finds them.

    The first argument is a grid's file or a preset; `--plugin` names further files.

    Raises:
        ConfigError: a file is missing or does not travel, a grid's file names a plugin that others may have
            written, without `--trust` (in the job's folder this can no longer be checked), or a place has a
            relative path, which means another folder there, or a secret.
    """
    before = ""
    for index, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option not in (PLUGIN_OPTION, *PLACE_OPTIONS) or not equals:
            option, equals, value = before, "", argument
        if index == 0 and is_path(argument):
            check_grid_files(Path(argument), trust="--trust" in arguments)
            yield _make_relative(argument, argument)
        elif option == PLUGIN_OPTION:
            yield f"{PLUGIN_OPTION}=" * bool(equals) + _resolve_plugin(value)
        else:
            if option in PLACE_OPTIONS:
                _check_place(option, value)
            yield argument
        before = argument


def _check_place(option: str, value: str) -> None:
    """Check that a storage or data folder is an absolute path or URI without a secret."""
    if not (value.startswith("/") or "://" in value):
        raise ConfigError(f"{option} {value}: the cluster's machines need an absolute path, or a URI")
    if redact_secrets(value) != value:
        raise ConfigError(
            f"{option} {value}: Ray shows a job's command to all users of the cluster; leave the secret out, "
            "and set FEDGRID_STORAGE on the head"
        )


def check_grid_files(grid: Path, *, trust: bool) -> None:
    """Check that a grid's file, those that it is based on and their plugins travel with a job.

    Raises:
        ConfigError: as `prepare_arguments`.
    """
    for path, file in _follow_bases(grid):
        _make_relative(str(path), str(path))
        listed = file.values.get("plugins", [])
        for name in listed if isinstance(listed, list) else []:
            plugin = _resolve_named(path, "plugins", str(name))
            _resolve_plugin(str(plugin))
            if not trust:
                check_trust(plugin, path)


def _follow_bases(path: Path) -> Iterator[tuple[Path, YamlFile]]:
    """Yield a grid's file, the file that it is based on, and so on."""
    seen: set[Path] = set()
    # Files that are based on each other end the loop; reading the grid reports them.
    while path not in seen:
        seen.add(path)
        try:
            file = read_yaml(path)
        except OSError as error:
            raise ConfigError(f"no file {path}: {error.strerror}") from error
        yield path, file
        base = str(file.values.get("base", ""))
        if base in ("", *list_presets()):
            return
        sibling = _resolve_named(path, "base", base)
        if not is_path(str(sibling)):
            return  # A misspelt preset, which is reported when the grid is read.
        path = sibling


def _resolve_named(grid: Path, key: str, name: str) -> Path:
    """Resolve a file that a grid's file names, relative to it."""
    if name.startswith(("/", "~")) or "$" in name:
        raise ConfigError(
            f"{grid}: {key} = {name}: on the cluster this is another place; give a path relative to the "
            f"grid's file, to a file below {Path.cwd()}, which travels with the job"
        )
    return Path(os.path.normpath(grid.parent / name))


def _resolve_plugin(name: str) -> str:
    """Find the path that a plugin has for the job."""
    if not Path(name).is_file():
        raise ConfigError(f"no plugin {name}")
    return _make_relative(name, f"{PLUGIN_OPTION} {name}")


def _make_relative(name: str, what: str) -> str:
    """Convert the path of a file to one relative to the current folder, which the file must be below."""
    path, here = Path(os.path.abspath(name)), Path.cwd()
    if here not in path.parents:
        raise ConfigError(
            f"{what}: the files below {here} travel with a job, and this is not one of them; move it there, "
            "or submit from a folder above it"
        )
    return path.relative_to(here).as_posix()

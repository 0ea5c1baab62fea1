"""Read `fedgrid.toml` in the folder that a command is called from: options that one sets once.

    storage = "s3://bucket/runs"      # --storage
    data = "~/images"                 # --data-dir
    track = "mlflow,tensorboard"      # --track
    plugins = ["my_algorithm.py"]     # --plugin, of every command that has it
    address = "10.0.0.5:6379"         # RAY_ADDRESS, the cluster that grids run on

An option, or an environment variable, takes precedence over the file.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError, unknown_key_error

SETTINGS_FILE = "fedgrid.toml"
KEY_VARIABLES: Mapping[str, str] = {
    "storage": "FEDGRID_STORAGE",
    "data": "FEDGRID_DATA",
    "track": "FEDGRID_TRACK",
    "address": "RAY_ADDRESS",
}
"""Key with a text -> the environment variable that it sets."""
PLUGINS_KEY = "plugins"
"""Key with a list of files."""


def read_settings(folder: Path) -> dict[str, Any]:
    """Read a folder's file; empty if there is none.

    Raises:
        ConfigError: it is no TOML, or has an unknown key or a wrong value.
    """
    try:
        text = (folder / SETTINGS_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{SETTINGS_FILE} cannot be read: {error}") from error
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{SETTINGS_FILE} is not TOML: {error}") from error
    for key, value in settings.items():
        if key not in (*KEY_VARIABLES, PLUGINS_KEY):
            raise unknown_key_error(key, SETTINGS_FILE, (*KEY_VARIABLES, PLUGINS_KEY))
        if key == PLUGINS_KEY and not (
            isinstance(value, list) and all(isinstance(one, str) for one in value)
        ):
            raise ConfigError(
                f'{SETTINGS_FILE}: plugins = {value!r}: expected a list of files, as in ["mine.py"]'
            )
        if key != PLUGINS_KEY and not (isinstance(value, str) and value.strip()):
            raise ConfigError(f'{SETTINGS_FILE}: {key} = {value!r}: expected a text, as in {key} = "..."')
    return settings


@contextmanager
def apply_settings(settings: Mapping[str, Any]) -> Iterator[None]:
    """Set the environment variables of settings for the block, unless they are set."""
    added = {
        variable: settings[key]
        for key, variable in KEY_VARIABLES.items()
        if key in settings and variable not in os.environ
    }
    # In the environment, so that Typer's options and child processes read them like those of the user.
    os.environ.update(added)
    try:
        yield
    finally:
        for variable in added:
            os.environ.pop(variable, None)


def build_plugin_defaults(group: Any, plugins: list[str]) -> dict[str, Any]:
    """Build Typer's defaults of `--plugin` for every command of a group, and of its groups."""
    return {
        name: build_plugin_defaults(command, plugins)
        if hasattr(command, "commands")
        else {PLUGINS_KEY: plugins}
        for name, command in group.commands.items()
    }

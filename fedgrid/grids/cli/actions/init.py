"""Write the folder of a study that runs as it is, to be changed, for `fedgrid init`."""

import json
from importlib.resources import files
from pathlib import Path

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.atomic import REPEATS, disk_errors, write_text
from fedgrid.grids.cli.actions.schema import EDITOR_LINE, build_schema
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.presets.preset_files import list_presets
from fedgrid.grids.results.grid_folder import PLAIN_NAME

TEMPLATES = files("fedgrid.grids.starter")
SCHEMA_FILE = "fedgrid.schema.json"


def write_study(folder: Path, console: Console) -> None:
    """Write the files of a new study into `folder`, whose last part is its name.

    Raises:
        ConfigError: if the name cannot be a grid's, or there is something in the folder.
        RunError: if it cannot be written.
    """
    name = folder.name
    if not PLAIN_NAME.fullmatch(name) or name in list_presets() or " " in name:
        raise ConfigError(
            f"a study named '{name}': expected letters, digits and any of . _ + -, the first a letter or "
            "digit, and no preset's name"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not empty: name a new folder")
    plugin = name.replace("-", "_").replace("+", "_").replace(".", "_") + "_plugin"
    texts = {
        f"{name}.yaml": _fill_template("grid.yaml", name, plugin),
        f"{plugin}.py": _fill_template("plugin.py", name, plugin),
        f"{name}-search.yaml": _fill_template("search.yaml", name, plugin),
        f"{name}.ipynb": _fill_template("notebook.json", name, plugin),
        "README.md": _fill_template("README.md", name, plugin),
    }
    with disk_errors(folder, REPEATS):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write_text(folder / file, text)
        # The schema lists the study's own algorithm and model, so the plugin must exist and be loaded first.
        active.use_plugins([folder / f"{plugin}.py"])
        write_text(folder / SCHEMA_FILE, json.dumps(build_schema(), indent=1) + "\n")
    for file in (*texts, SCHEMA_FILE):
        print_plain(console, f"{folder / file}")
    print_plain(console, f"\nTo run it:  cd {folder}; fedgrid run {name}.yaml")


def _fill_template(template: str, name: str, plugin: str) -> str:
    """Fill the names of the study and its plugin into a template."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    line = EDITOR_LINE.format(SCHEMA_FILE) + "\n" if template.endswith(".yaml") else ""
    return line + text.replace("STUDY", name).replace("PLUGIN", plugin)

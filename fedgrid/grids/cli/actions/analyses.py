"""Find and list the analyses of the package and of plugins, and read their settings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.errors import ConfigError, suggest_name
from fedgrid.engine.runtime.configuration.validation import explain_error
from fedgrid.engine.runtime.plugins.active import ANALYSES, load_installed
from fedgrid.engine.runtime.plugins.plugin import load_plugin, read_source
from fedgrid.grids.analyses.analysis import Analysis
from fedgrid.grids.archive.training_records import compare_trainings
from fedgrid.grids.attack.analysis import ATTACK
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.epsilons.analysis import Epsilons
from fedgrid.grids.explain.analysis import EXPLAIN
from fedgrid.grids.presets.axes import Change
from fedgrid.grids.presets.key_docs import list_settings
from fedgrid.grids.presets.nested_values import set_value

BUILT_IN_ANALYSES: Mapping[str, Analysis] = {
    each.name: each for each in (EXPLAIN, ATTACK, Epsilons(compare_trainings))
}
"""Name -> analysis of the package."""


def find_analysis(name: str) -> Analysis:
    """Find an analysis of the package, or of a plugin in use.

    Raises:
        ConfigError: there is no analysis of this name.
    """
    # A plugin cannot replace an analysis of the package: stored results would change their meaning.
    analyses: Mapping[str, Analysis] = {**ANALYSES, **BUILT_IN_ANALYSES}
    if name not in analyses:
        guess = suggest_name(name, analyses)
        raise ConfigError(f"unknown analysis '{name}'; {guess}name the file that lists it with --plugin")
    return analyses[name]


def print_analyses(name: str | None, as_json: bool, console: Console) -> None:
    """Print the analyses of the package and of plugins in use, or the settings of one.

    Raises:
        ConfigError: if there is no analysis of that name.
    """
    chosen = {**ANALYSES, **BUILT_IN_ANALYSES} if name is None else {name: find_analysis(name)}
    settings = {
        # Not validated: a setting without a default must not keep the others from being listed.
        each: list(list_settings((one.options or one.settings).model_construct()))
        for each, one in chosen.items()
    }
    if as_json:
        rows = [
            {"analysis": each, "key": key, "default": default, "allowed": allowed, "meaning": meaning}
            for each, its in settings.items()
            for key, default, allowed, meaning in its
        ]
        print(json.dumps(rows, indent=2))
        return
    for each, one in chosen.items():
        console.print(Text.assemble((each, "bold"), f": {(one.__doc__ or '').partition(chr(10))[0]}"))
        if settings[each]:
            console.print(TextTable(("setting", "default", "allowed", "meaning"), settings[each]))
    console.print("\nSet one with fedgrid analyse GRID NAME KEY=VALUE")


def list_analyses(files: Iterable[Path]) -> dict[str, Analysis]:
    """List the analyses that a report can show, by name, with those of installed plugins and of `files`.

    Raises:
        ConfigError: a file cannot be loaded.
    """
    plugins = [*load_installed(), *(load_plugin(read_source(path)) for path in files)]
    analyses = (analysis for plugin in plugins for analysis in plugin.lists["ANALYSES"])
    return {**{analysis.name: analysis for analysis in analyses}, **BUILT_IN_ANALYSES}


def read_options(analysis: Analysis, overrides: Sequence[str]) -> Section:
    """Read `KEY=VALUE`s as the settings of an analysis; several values separated by commas are a list.

    Raises:
        ConfigError: there is no such key, or its value does not fit.
    """
    values: dict[str, Any] = {}
    for override in map(Change.from_text, overrides):
        value = override.values[0] if len(override.values) == 1 else list(override.values)
        values = set_value(values, override.keys, value, override.text)
    model = analysis.options or analysis.settings
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise explain_error(error, model) from error

"""The analyses that there are: those of the package, and of plugins."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.errors import ConfigError, unknown
from fedgrid.engine.plugins.active import ANALYSES
from fedgrid.engine.plugins.installed import installed
from fedgrid.engine.plugins.plugin import load
from fedgrid.engine.plugins.source import read_source
from fedgrid.grids.analyses.analysis import Analysis
from fedgrid.grids.attack.analysis import ATTACK
from fedgrid.grids.explain.analysis import EXPLAIN

BUILT_IN: Mapping[str, Analysis] = {EXPLAIN.name: EXPLAIN, ATTACK.name: ATTACK}


def own_analysis(name: str) -> Analysis:
    """Return an analysis of a plugin in use.

    Raises:
        ConfigError: there is none of this name.
    """
    if name in BUILT_IN:
        raise ConfigError(f"{name} has a command of its own: `fedgrid {name} GRID`")
    own = {key: analysis for key, analysis in ANALYSES.items() if key not in BUILT_IN}
    if not own:
        raise ConfigError(f"unknown analysis '{name}'; name the Python file that has it with --plugin")
    if name not in own:
        raise unknown("analysis", name, own)
    found: Analysis = own[name]
    return found


def shown_analyses(files: Iterable[Path]) -> dict[str, Analysis]:
    """Return the analyses that a report can show, by name: also those of `files`.

    Raises:
        ConfigError: a file cannot be loaded.
    """
    plugins = [*installed(), *(load(read_source(path)) for path in files)]
    return {**{each.name: each for plugin in plugins for each in plugin.analyses}, **BUILT_IN}


def settings_of(analysis: Analysis, changes: Sequence[str]) -> Section:
    """Return the settings of an analysis, changed by `KEY=VALUE`s.

    Raises:
        ConfigError: there is no such key, or its value does not fit.
    """
    values = {}
    for change in changes:
        key, is_there, value = change.partition("=")
        if not is_there:
            raise ConfigError(f"--set {change}: expected KEY=VALUE")
        values[key] = yaml.safe_load(value)
    try:
        return analysis.settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key, allowed = ".".join(map(str, first["loc"])), ", ".join(analysis.settings.model_fields)
        raise ConfigError(
            f"--set {key}: {first['msg']}; settings of {analysis.name}: {allowed or 'none'}"
        ) from error

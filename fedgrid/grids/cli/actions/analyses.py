"""The analyses that there are: those of the package, and of plugins."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.errors import ConfigError, hint
from fedgrid.engine.runtime.configuration.validation import explain
from fedgrid.engine.runtime.plugins.active import ANALYSES, installed
from fedgrid.engine.runtime.plugins.plugin import load, read_source
from fedgrid.grids.analyses.analysis import Analysis
from fedgrid.grids.archive.beside import beside
from fedgrid.grids.attack.analysis import ATTACK
from fedgrid.grids.epsilons.analysis import Epsilons
from fedgrid.grids.explain.analysis import EXPLAIN
from fedgrid.grids.presets.axes import Change

WITH_COMMANDS = EXPLAIN, ATTACK
BUILT_IN: Mapping[str, Analysis] = {each.name: each for each in (*WITH_COMMANDS, Epsilons(beside))}


def find_analysis(name: str) -> Analysis:
    """Return an analysis without a command of its own: of the package, or of a plugin in use.

    Raises:
        ConfigError: there is no analysis of this name.
    """
    if name in (analysis.name for analysis in WITH_COMMANDS):
        raise ConfigError(f"{name} has a command of its own: `fedgrid {name} GRID`")
    analyses: Mapping[str, Analysis] = {**ANALYSES, **BUILT_IN}
    if name not in analyses:
        guess = hint(name, analyses)
        raise ConfigError(f"unknown analysis '{name}'; {guess}name the file that lists it with --plugin")
    return analyses[name]


def list_analyses(files: Iterable[Path]) -> dict[str, Analysis]:
    """Return the analyses that a report can show, by name: also those of `files`.

    Raises:
        ConfigError: a file cannot be loaded.
    """
    plugins = [*installed(), *(load(read_source(path)) for path in files)]
    analyses = (analysis for plugin in plugins for analysis in plugin.lists["ANALYSES"])
    return {**{analysis.name: analysis for analysis in analyses}, **BUILT_IN}


def settings_of(analysis: Analysis, changes: Sequence[str]) -> Section:
    """Return the settings of an analysis, changed by `KEY=VALUE`s.

    Raises:
        ConfigError: there is no such key, or its value does not fit.
    """
    values: dict[str, Any] = {}
    for change in changes:
        values = Change.parse(change).apply(values)
    try:
        return analysis.settings.model_validate(values)
    except ValidationError as error:
        raise explain(error, analysis.settings) from error

"""Tables and figures of the user's own in a report: functions of a study that a plugin's file lists."""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins.plugin import Plugin, PluginSource, load, read_source
from fedgrid.tracking.report.page import Page, PageSection, Plate
from fedgrid.tracking.scoring.study import Study, slug
from fedgrid.tracking.tables.table import Table


@dataclass(frozen=True)
class Draw:
    """Calls a function of a plugin, by its name: another process loads the plugin again."""

    source: PluginSource
    function: str
    study: Study

    def __call__(self) -> Figure:
        """Return the figure.

        Raises:
            ConfigError: the function fails, or returns something else.
        """
        plugin = load(self.source)
        [function] = [one for one in plugin.lists["FIGURES"] if one.__name__ == self.function]
        figure: Figure = _call(plugin, function, self.study, Figure)
        return figure


def own_items(files: Iterable[Path], study: Study) -> tuple[PageSection, ...]:
    """Return a section with what each file lists as `TABLES` and `FIGURES`; none where it lists neither.

    A function gets the study and returns a `Table` or a matplotlib figure. The first line of its docstring is
    a figure's title, the rest its caption.

    Raises:
        ConfigError: a file cannot be loaded, or a function fails.
    """
    sections = (_section(load(read_source(path)), study) for path in files)
    return tuple(section for section in sections if section.items)


def add_own_items(page: Page, sections: Sequence[PageSection]) -> Page:
    """Return a page with further sections after its first one.

    Raises:
        ConfigError: a table or figure has the name of another.
    """
    whole = Page(page.title, page.facts, (*page.sections[:1], *sections, *page.sections[1:]))
    tables = [f"table {table.name}" for table in whole.tables()]
    names = tables + [f"figure {plate.name}" for plate in whole.plates()]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"the report has {min(twice)} twice; give one of your own another name")
    return whole


def _section(plugin: Plugin, study: Study) -> PageSection:
    tables = [_call(plugin, function, study, Table) for function in plugin.lists["TABLES"]]
    plates = [_plate(plugin, function, study) for function in plugin.lists["FIGURES"]]
    stem = Path(plugin.source.name).stem
    return PageSection(f"own-{slug(stem)}", f"From {Path(plugin.source.name).name}", items=(*tables, *plates))


def _plate(plugin: Plugin, function: Callable[..., Any], study: Study) -> Plate:
    title, _, caption = (inspect.getdoc(function) or function.__name__).partition("\n")
    text = re.sub(r"\s+", " ", caption).strip()
    draw = Draw(plugin.source, function.__name__, study)
    return Plate(f"own-{slug(function.__name__)}", title.rstrip("."), text, draw)


def _call(plugin: Plugin, function: Callable[..., Any], study: Study, kind: type[Any]) -> Any:
    where = f"plugin {plugin.source.name}: {function.__name__}"
    try:
        value = function(study)
    except Exception as error:
        raise ConfigError(f"{where} failed: {type(error).__name__}: {error}") from error
    if not isinstance(value, kind):
        raise ConfigError(f"{where} returned {type(value).__name__}; expected a {kind.__name__}")
    return value

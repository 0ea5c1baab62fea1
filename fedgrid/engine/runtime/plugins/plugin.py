"""A loaded plugin: what a file or a package adds to the registries."""

import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.contract.base import Algorithm, Settings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.errors import PLUGIN_MODULE, ConfigError
from fedgrid.engine.federation.models.registry import ModelEntry
from fedgrid.engine.runtime.plugins.source import PluginSource
from fedgrid.record_columns import EVERY_COLUMN

LISTS = (
    "ALGORITHMS",
    "CLUSTERERS",
    "MODELS",
    "ANALYSES",
    "TRACKERS",
    "FIGURES",
    "TABLES",
    "AGGREGATORS",
)
"""The names in a plugin's file under which it lists what it adds."""
PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
NUMBER_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
RECORDED = frozenset(column.name for columns in EVERY_COLUMN.values() for column in columns)
TITLE_LENGTH = 60
"""Characters of an algorithm's title at most: it stands in every table and figure."""


def _is_algorithm(entry: object) -> bool:
    return (
        isinstance(entry, AlgorithmEntry)
        and isinstance(entry.algorithm, type)
        and issubclass(entry.algorithm, Algorithm)
        and isinstance(entry.settings, Settings)
    )


def _is_analysis(item: object) -> bool:
    named = not isinstance(item, type) and isinstance(getattr(item, "name", None), str)
    return named and callable(getattr(item, "compute", None))


def _is_tracker(item: object) -> bool:
    named = isinstance(item, type) and isinstance(getattr(item, "name", None), str)
    return named and callable(getattr(item, "opened", None))


def _is_function(item: object) -> bool:
    return callable(item) and hasattr(item, "__name__")


EXPECTED: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (_is_algorithm, "AlgorithmEntry with an algorithm and its settings"),
    (lambda item: isinstance(item, type) and issubclass(item, Clusterer), "classes derived from Clusterer"),
    (lambda item: isinstance(item, ModelEntry) and callable(item.build), "ModelEntry with a build function"),
    (_is_analysis, "instances of classes derived from Analysis, with a name"),
    (_is_tracker, "classes derived from Tracker, with a name"),
    (_is_function, "functions of a study"),
    (_is_function, "functions of a study"),
    (lambda item: isinstance(item, type) and issubclass(item, Aggregator), "classes derived from Aggregator"),
)
"""Of each of `LISTS`, whether an item fits there, and what fits."""


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin: its source, and what it adds to the registries."""

    source: PluginSource
    algorithms: tuple[AlgorithmEntry, ...] = ()
    clusterers: tuple[type[Clusterer], ...] = ()
    models: tuple[ModelEntry, ...] = ()
    analyses: tuple[Any, ...] = ()
    """Instances of `fedgrid.Analysis`, of which this package knows the name only."""
    trackers: tuple[Any, ...] = ()
    """Classes derived from `fedgrid.Tracker`, likewise."""
    figures: tuple[Callable[..., Any], ...] = ()
    """Functions of a study for its report."""
    tables: tuple[Callable[..., Any], ...] = ()
    """Likewise."""
    aggregators: tuple[type[Aggregator], ...] = ()

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of everything that it adds, as in `("algorithm", "long-short")`."""
        return (
            *(("algorithm", entry.name) for entry in self.algorithms),
            *(("clusterer", default_name(clusterer)) for clusterer in self.clusterers),
            *(("aggregator", default_name(aggregator)) for aggregator in self.aggregators),
            *(("model", entry.name) for entry in self.models),
            *(("analysis", analysis.name) for analysis in self.analyses),
            *(("tracker", tracker.name) for tracker in self.trackers),
        )


def load(source: PluginSource) -> Plugin:
    """Execute a plugin's file, once a process, and return what it lists.

    Classes of a plugin are pickled by the name of their module, which is made of the digest. So a process
    that loaded the same file, and no other process, can unpickle them.

    Raises:
        ConfigError: if the file cannot be executed, or lists something else than entries and clusterers.
    """
    assert source.code is not None, "an installed package is imported"
    name = f"{PLUGIN_MODULE}{source.digest[:16]}"
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = source.name
        try:
            exec(compile(source.code, source.name, "exec", dont_inherit=True), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            cause = f"{type(error).__name__}: {error}"
            raise ConfigError(f"plugin {source.name}{_line(error, source.name)}: {cause}") from error
    module = sys.modules[name]
    return of_listed(source, *(_listed(module, each, source) for each in LISTS))


def of_listed(
    source: PluginSource,
    algorithms: list[Any],
    clusterers: list[Any],
    models: list[Any],
    analyses: list[Any],
    trackers: list[Any],
    figures: Sequence[Any] = (),
    tables: Sequence[Any] = (),
    aggregators: Sequence[Any] = (),
) -> Plugin:
    """Return a plugin of what a file or a package lists.

    Raises:
        ConfigError: if it lists nothing, something else than entries and clusterers, or an impossible name.
    """
    lists = algorithms, clusterers, models, analyses, trackers, figures, tables, aggregators
    for name, items, (fits, expected) in zip(LISTS, lists, EXPECTED, strict=True):
        for item in items:
            if not fits(item):
                raise ConfigError(f"plugin {source.name}: {name} has {item!r}; expected {expected}")
    plugin = Plugin(source, *map(tuple, lists))
    if not any(lists):
        raise ConfigError(
            f"plugin {source.name} lists nothing; define at least one of {', '.join(LISTS)} = [...]"
        )
    for kind, name in plugin.names:
        if not PLAIN_NAME.fullmatch(name):
            raise ConfigError(
                f"plugin {source.name}: {kind} {name!r}: expected small letters, digits, - and _ in its "
                "name, 64 of them at most"
            )
    for entry in plugin.algorithms:
        if not _is_title(entry.title):
            raise ConfigError(
                f"plugin {source.name}: algorithm {entry.name!r} has the title {entry.title!r}; "
                f"expected 1 to {TITLE_LENGTH} printable characters on one line"
            )
        for number in entry.numbers:
            if not NUMBER_NAME.fullmatch(number.name) or number.name in RECORDED:
                raise ConfigError(
                    f"plugin {source.name}: algorithm {entry.name!r} declares the number {number.name!r}: "
                    "expected small letters, digits and _, and no column that records have"
                )
    return plugin


def _is_title(title: object) -> bool:
    return isinstance(title, str) and 0 < len(title.strip()) <= TITLE_LENGTH and title.isprintable()


def default_name(section: type[Section]) -> str:
    """Return the name of a clusterer or an aggregator: the default of its field `name`, empty without one."""
    name = section.model_fields["name"].default
    return name if isinstance(name, str) else ""


def names_within(settings: object) -> Iterator[str]:
    """Yield the names in an algorithm's settings where a clusterer or an aggregator can stand."""
    if isinstance(settings, dict):
        for value in settings.values():
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                yield value["name"]
            yield from names_within(value)


def _listed(module: ModuleType, name: str, source: PluginSource) -> list[Any]:
    given = getattr(module, name, [])
    if not isinstance(given, list | tuple):
        raise ConfigError(f"plugin {source.name}: {name} is of type {type(given).__name__}; expected a list")
    return list(given)


def _line(error: BaseException, name: str) -> str:
    """Return the line of the plugin's file that an error comes from, as `, line 12`; empty if unknown."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return f", line {lines[-1]}" if lines else ""

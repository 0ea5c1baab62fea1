"""A loaded plugin: what a file or a package adds to the registries."""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.local_method import LocalMethod
from fedgrid.algorithms.contract.section import find_default_name
from fedgrid.engine.federation.data.own import OwnDataset
from fedgrid.engine.federation.dealing.own import OwnKind, OwnSplit
from fedgrid.engine.federation.errors import PLUGIN_MODULE, ConfigError, FedgridError
from fedgrid.engine.federation.models.registry import ModelEntry
from fedgrid.engine.federation.seeds import make_generator, temporary_seeds
from fedgrid.record_columns import EVERY_COLUMN

TORCH_IMPORT = re.compile(rb"^(import|from) torch\b", re.MULTILINE)
"""An import at the top of a file."""


@dataclass(frozen=True)
class PluginSource:
    """A plugin as it travels between processes: plain data, nothing that has to be unpickled by name."""

    name: str
    """Its name in messages: the file as the user named it, or `package 1.2`."""
    digest: str
    """Its SHA-256 in 64 hexadecimal digits: of a file's bytes; of a package's name, version and modules."""
    code: bytes | None
    """A file's bytes; None: an installed package, which every machine imports from its own disk."""


def read_source(path: Path) -> PluginSource:
    """Read the source of a plugin's file; nothing of it is executed.

    Raises:
        ConfigError: if it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(f"plugin {path} is not a file")
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(
            f"plugin {path} is a YAML file, no Python file; a grid is named alone: fedgrid run {path}"
        )
    try:
        code = path.read_bytes()
        code.decode()
    except OSError as error:
        raise ConfigError(f"plugin {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"plugin {path} is not a Python file in UTF-8") from error
    return PluginSource(str(path), digest_code(code), code)


def digest_code(code: bytes) -> str:
    """Compute the digest of a plugin's file."""
    return sha256(code).hexdigest()


PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""Names that plugins may give: they become parts of folders' names and of command lines."""
NUMBER_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of numbers that plugins may declare: they become columns of the records."""
RECORDED = frozenset(column.name for columns in EVERY_COLUMN.values() for column in columns)
"""Names of the columns that records have, which no plugin may use."""
TITLE_LENGTH = 60
"""Characters of an algorithm's title at most: it stands in every table and figure."""


def _is_algorithm(entry: object) -> bool:
    """Check whether an item is an algorithm's entry."""
    return isinstance(entry, AlgorithmEntry)


def _is_class(item: object, base: type) -> bool:
    """Check whether an item is a class derived from `base`, without abstract methods."""
    return isinstance(item, type) and issubclass(item, base) and not inspect.isabstract(item)


def _is_analysis(item: object) -> bool:
    """Check whether an item is an analysis, by its name and its method `compute`.

    The class of analyses is in a layer above this one.
    """
    named = not isinstance(item, type) and isinstance(getattr(item, "name", None), str)
    return named and callable(getattr(item, "compute", None))


def _is_tracker(item: object) -> bool:
    """Check whether an item is a tracker's class, by its name and its method `opened`."""
    named = isinstance(item, type) and isinstance(getattr(item, "name", None), str)
    return named and callable(getattr(item, "opened", None))


def _is_function(item: object) -> bool:
    """Check whether an item is a function with a name."""
    return callable(item) and hasattr(item, "__name__")


@dataclass(frozen=True)
class PluginKind:
    """What a plugin can list under one name. This package knows only the names of analyses and trackers."""

    fits: Callable[[Any], bool]
    """Checks whether an item can stand in the list."""
    expected: str
    """What fits, for messages."""
    registry: str = ""
    """The registry that it joins; empty: functions of a study, for its report."""
    read_name: Callable[[Any], str] = attrgetter("name")
    """Reads an item's name in the registry."""
    entry: Callable[[Any], Any] = lambda item: item
    """Makes what stands in the registry."""


KINDS: Mapping[str, PluginKind] = {
    "ALGORITHMS": PluginKind(_is_algorithm, "AlgorithmEntry with an algorithm and its settings", "algorithm"),
    "CLUSTERERS": PluginKind(
        lambda item: _is_class(item, Clusterer),
        "classes derived from Clusterer",
        "clusterer",
        find_default_name,
    ),
    "MODELS": PluginKind(
        # Exactly one of the two functions.
        lambda item: isinstance(item, ModelEntry) and callable(item.build) != callable(item.module),
        "ModelEntry with one function, module or build",
        "model",
    ),
    "ANALYSES": PluginKind(
        _is_analysis, "instances of classes derived from Analysis, with a name", "analysis"
    ),
    "TRACKERS": PluginKind(_is_tracker, "classes derived from Tracker, with a name", "tracker"),
    "FIGURES": PluginKind(_is_function, "functions of a study"),
    "TABLES": PluginKind(_is_function, "functions of a study"),
    "AGGREGATORS": PluginKind(
        lambda item: _is_class(item, Aggregator),
        "classes derived from Aggregator",
        "aggregator",
        find_default_name,
    ),
    "DATASETS": PluginKind(
        lambda item: isinstance(item, OwnDataset) and callable(item.read),
        "OwnDataset with a function read",
        "dataset",
        entry=OwnDataset.entry,
    ),
    "SPLITS": PluginKind(
        lambda item: _is_class(item, OwnSplit),
        "classes derived from OwnSplit, with deal",
        "split",
        find_default_name,
        OwnKind,
    ),
    "LOCAL_METHODS": PluginKind(
        lambda item: _is_class(item, LocalMethod),
        "classes derived from LocalMethod, with rule",
        "local training",
        find_default_name,
    ),
}
"""Kinds by the names in a plugin's file under which it lists what it adds."""


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin: its source, and what it adds to the registries."""

    source: PluginSource
    lists: Mapping[str, Sequence[Any]]
    """A list for each of `KINDS`."""

    def iterate_entries(self) -> Iterator[tuple[str, str, Any]]:
        """Yield registry, name and item of everything that it adds to one."""
        for key, kind in KINDS.items():
            if kind.registry:
                yield from (
                    (kind.registry, kind.read_name(item), kind.entry(item)) for item in self.lists[key]
                )

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Registry and name of everything that it adds, as in `("algorithm", "long-short")`."""
        return tuple((registry, name) for registry, name, _ in self.iterate_entries())


def load_plugin(source: PluginSource) -> Plugin:
    """Execute a plugin's file, once a process, and collect what it lists.

    A constant that it draws from torch's, NumPy's or Python's generator is the same in every process.

    Classes of a plugin are pickled by the name of their module, which is made of the digest. So a process
    that loaded the same file, and no other process, can unpickle them.

    Raises:
        ConfigError: if the file cannot be executed, or lists something else than entries and clusterers.
    """
    assert source.code is not None, "an installed package is imported"
    name = f"{PLUGIN_MODULE}{source.digest[:16]}"
    if name not in sys.modules:
        # Registered before it is executed, as the import system does: dataclasses look their module up.
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = source.name
        # One that imports torch in its functions alone is loaded without it: that takes a second.
        device = "cpu" if TORCH_IMPORT.search(source.code) else None
        try:
            with temporary_seeds(device, make_generator(0, "plugin")):
                exec(compile(source.code, source.name, "exec", dont_inherit=True), vars(module))
        except (Exception, SystemExit) as error:
            # The next attempt has to execute the file again.
            del sys.modules[name]
            cause = f"{error}" if isinstance(error, FedgridError) else f"{type(error).__name__}: {error}"
            raise ConfigError(f"plugin {source.name}{_format_line(error, source.name)}: {cause}") from error
    module = sys.modules[name]
    return check_plugin(source, {key: _read_list(module, key, source) for key in KINDS})


def check_plugin(source: PluginSource, lists: Mapping[str, Sequence[Any]]) -> Plugin:
    """Build a plugin of what a file or a package lists, and check that.

    Raises:
        ConfigError: if it lists nothing, something else than entries and clusterers, or an impossible name.
    """
    for key, kind in KINDS.items():
        for item in lists[key]:
            if not kind.fits(item):
                raise ConfigError(f"plugin {source.name}: {key} has {item!r}; expected {kind.expected}")
    plugin = Plugin(source, lists)
    if not any(lists.values()):
        raise ConfigError(
            f"plugin {source.name} lists nothing; define at least one of {', '.join(KINDS)} = [...]"
        )
    for registry, name in plugin.names:
        if not PLAIN_NAME.fullmatch(name):
            raise ConfigError(
                f"plugin {source.name}: {registry} {name!r}: expected small letters, digits, - and _ in its "
                "name, 64 of them at most"
            )
    for entry in lists["ALGORITHMS"]:
        title = entry.title
        is_title = isinstance(title, str) and 0 < len(title.strip()) <= TITLE_LENGTH and title.isprintable()
        if not is_title:
            raise ConfigError(
                f"plugin {source.name}: algorithm {entry.name!r} has the title {entry.title!r}; "
                f"expected 1 to {TITLE_LENGTH} printable characters on one line"
            )
    for key, read_name in (("ALGORITHMS", attrgetter("name")), ("LOCAL_METHODS", find_default_name)):
        for declaring, number in [(item, number) for item in lists[key] for number in item.numbers]:
            if not NUMBER_NAME.fullmatch(number.name) or number.name in RECORDED:
                raise ConfigError(
                    f"plugin {source.name}: {KINDS[key].registry} {read_name(declaring)!r} declares the "
                    "number "
                    f"{number.name!r}: expected small letters, digits and _, and no column that records have"
                )
    return plugin


def find_names(settings: object) -> Iterator[str]:
    """Yield the names in an algorithm's settings where a clusterer, an aggregator or the like can stand."""
    if isinstance(settings, dict):
        for value in settings.values():
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                yield value["name"]
            yield from find_names(value)


def _read_list(module: ModuleType, name: str, source: PluginSource) -> list[Any]:
    """Read one of the lists of a plugin's module; empty if it has none.

    Raises:
        ConfigError: it is no list.
    """
    given = getattr(module, name, [])
    if not isinstance(given, list | tuple):
        raise ConfigError(f"plugin {source.name}: {name} is of type {type(given).__name__}; expected a list")
    return list(given)


def _format_line(error: BaseException, name: str) -> str:
    """Format the line of a plugin's file in which an error arose, empty if in none."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return f", line {lines[-1]}" if lines else ""

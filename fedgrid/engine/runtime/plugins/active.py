"""The plugins that this process uses: they stand in the registries next to what comes with the package.

A command starts with `use_plugins`. A run names the digests of its plugins, and `activate_plugins` puts
exactly these into the registries: in the driver, in the run's server and in its client actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrid.algorithms.clustering.clusterers import CLUSTERERS
from fedgrid.algorithms.contract.aggregator import AGGREGATORS
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS, ARENA
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS as SPLITS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.plugins.checks import check_algorithm, check_code, check_trust
from fedgrid.engine.runtime.plugins.plugin import (
    KINDS,
    Plugin,
    PluginSource,
    check_plugin,
    find_names,
    load_plugin,
    read_source,
)
from fedgrid.engine.runtime.storage.user_files import expand_path

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig

ANALYSES: dict[str, Any] = dict.fromkeys(("attack", "epsilons", "explain"))
"""Analyses by name: those of plugins, and those of the package, which have commands of their own."""
TRACKERS: dict[str, Any] = {}
"""Trackers of plugins by name; `grids.following.registry` has those of the package."""
_REGISTRIES: dict[str, dict[str, Any]] = {
    "algorithm": ALGORITHMS,
    "clusterer": CLUSTERERS,
    "aggregator": AGGREGATORS,
    "local training": LOCAL_METHODS,
    "model": MODELS,
    "dataset": DATASETS,
    "split": SPLITS,
    "analysis": ANALYSES,
    "tracker": TRACKERS,
}
BUILT_IN = {(kind, name) for kind, registry in _REGISTRIES.items() for name in registry} | {
    ("algorithm", ARENA)
}
"""Kind and name of what comes with the package, and of what stands for several in a file."""
PARTS = "clusterer", "aggregator", "local training"
"""Registries of what stands in an algorithm's settings."""
TITLES = {word.lower(): name for name, entry in ALGORITHMS.items() for word in (name, entry.title)}
"""Name of each of the package's algorithms, by its name and its title in small letters."""

GROUP = "fedgrid."
PACKAGE_LISTS = [key for key, kind in KINDS.items() if kind.registry]
"""Kinds of entries that installed packages can add, under the entry points `fedgrid.algorithms` and so on.

An entry point names an entry (for clusterers, a class), or a list of them.
"""

_sources: dict[str, PluginSource] = {}
"""Plugins that this process could load, by digest."""
_loaded: dict[str, Plugin] = {}
"""Plugins that this process has loaded, by digest."""
_active: list[Plugin] = []
"""Plugins in the registries."""
_is_trusting = False
"""Whether the command executes also what others may have sent: `--trust`."""


def use_plugins(files: Iterable[Path | str] = (), *, trust: bool = False) -> None:
    """Use the installed plugins and these files, and nothing that was in use before.

    The user has named these files. With `trust`, those that a grid's file names are executed wherever they
    lie, until the next call.

    Raises:
        ConfigError: if one of them cannot be loaded, or two of them (or one and the package) share a name.
    """
    global _is_trusting
    _is_trusting = trust
    # Nothing of an earlier call stays, also if one of these cannot be loaded.
    _register_plugins(())
    for plugin in load_installed():
        # One by one, so that each is checked against those before it.
        _register_plugins((*_active, _check_names(_load_plugin(plugin.source.digest))))
    for file in files:
        add_plugin(file)


def add_plugin(file: Path | str) -> None:
    """Use one more file; one with the bytes of a plugin in use adds nothing.

    Raises:
        ConfigError: as `use_plugins`.
    """
    path = expand_path(file, "plugin")
    source = read_source(path)
    # Before anything of it is executed.
    check_code(source.code or b"", path)
    if source.digest not in _collect_digests(_active):
        _sources[source.digest] = source
        # The same bytes may have been loaded under another name, which messages would show.
        _loaded[source.digest] = replace(_load_plugin(source.digest), source=source)
        _register_plugins((*_active, _check_names(_loaded[source.digest])))


def add_grid_plugin(file: Path, grid_file: Path) -> None:
    """Use one more file, which a grid's file names.

    Raises:
        ConfigError: as `use_plugins`; or one of the two lies where others may have written it, it is not
            trusted, and the user has named no file of the same bytes.
    """
    if not _is_trusting and read_source(file).digest not in _collect_digests(_active):
        check_trust(file, grid_file)
    add_plugin(file)


def register_sources(sources: Iterable[PluginSource]) -> None:
    """Let runs use plugins that came from elsewhere: another process, or a grid's folder."""
    for source in sources:
        _sources.setdefault(source.digest, source)


def activate_plugins(digests: Sequence[str]) -> None:
    """Use the plugins of a run. Others stay in use, except those that share a name with one of these.

    Raises:
        ConfigError: if one is missing here, or cannot be loaded.
    """
    # Called for every run, of which most find their plugins in use.
    if set(digests) <= _collect_digests(_active):
        return
    plugins = [_load_plugin(digest) for digest in digests]
    names = {name for plugin in plugins for name in plugin.names}
    _register_plugins((*(plugin for plugin in _active if names.isdisjoint(plugin.names)), *plugins))


def list_plugin_files() -> list[PluginSource]:
    """List the files in use; installed packages are left out."""
    return [plugin.source for plugin in _active if plugin.source.code is not None]


def find_plugin_digests(config: RunConfig) -> tuple[str, ...]:
    """Find the digests, sorted, of the plugins in use that define something that a run names.

    Runs that have nothing from a plugin get none, so their ids do not depend on which plugins are in use.
    """
    settings = config.algorithm.settings
    names = {
        ("algorithm", config.algorithm.name),
        ("model", config.model),
        ("dataset", config.dataset),
        # The public images that an encoder is trained on may be a plugin's too.
        ("dataset", (settings.get("encoder") or {}).get("public")),
        ("split", config.split.kind),
    }
    names |= {(kind, name) for kind in PARTS for name in find_names(settings)}
    return tuple(sorted(plugin.source.digest for plugin in _active if not names.isdisjoint(plugin.names)))


def find_analysis_digest(analysis: Any) -> str | None:
    """Find the digest of the plugin that lists an analysis, None if it is of the package.

    Not by its name: a run's plugin may have one of the same name, such as an earlier edit of that file.
    """
    for digest, plugin in _loaded.items():
        if any(item is analysis for item in plugin.lists["ANALYSES"]):
            return digest
    return None


def find_tracker_digests(tracker: type) -> list[str]:
    """Find the digest of the plugin that lists a tracker; empty if it is of the package."""
    return [plugin.source.digest for plugin in _active if tracker in plugin.lists["TRACKERS"]]


def list_sources(digests: Iterable[str]) -> tuple[PluginSource, ...]:
    """List the sources of plugins that runs name; those that are missing here are left out."""
    return tuple(_sources[digest] for digest in sorted(set(digests)) if digest in _sources)


def find_titles(digest: str) -> dict[str, str]:
    """Find what papers call the algorithms of a plugin: name -> title; empty if it is not loaded."""
    plugin = _loaded.get(digest)
    return {entry.name: entry.title for entry in plugin.lists["ALGORITHMS"]} if plugin else {}


def find_references(digest: str) -> list[str]:
    """Find the names of a plugin's algorithms that are references; empty if it is not loaded."""
    plugin = _loaded.get(digest)
    return [entry.name for entry in plugin.lists["ALGORITHMS"] if entry.is_reference] if plugin else []


def _load_plugin(digest: str) -> Plugin:
    """Find a plugin by its digest, and load it if it is not.

    Raises:
        ConfigError: it is missing here, or cannot be loaded.
    """
    for plugin in load_installed():
        _loaded.setdefault(plugin.source.digest, plugin)
        _sources.setdefault(plugin.source.digest, plugin.source)
    if digest not in _loaded:
        source = _sources.get(digest)
        if source is None:
            raise ConfigError(
                f"this run has a plugin of digest {digest[:12]}, which is missing or has changed; "
                "name its unchanged file with --plugin"
            )
        if source.code is None:
            raise ConfigError(
                f"this machine lacks the installed plugin {source.name} of digest {digest[:12]}, or has "
                "another version of it; install the same on every machine"
            )
        _loaded[digest] = load_plugin(source)
    return _loaded[digest]


def _check_names(plugin: Plugin) -> Plugin:
    """Check that a plugin adds something to runs, and shares no name with the package or another plugin.

    Its algorithms are checked, and have the title of none of the package. Returns the plugin.

    Raises:
        ConfigError: one of these does not hold.
    """
    if not plugin.names:
        raise ConfigError(
            f"plugin {plugin.source.name} has only FIGURES or TABLES; give it to `fedgrid report --plugin`"
        )
    for entry in plugin.lists["ALGORITHMS"]:
        check_algorithm(entry, plugin.source.name)
    owners = {name: other.source.name for other in _active for name in other.names}
    owners |= dict.fromkeys(BUILT_IN, "fedgrid")
    for index, (kind, name) in enumerate(plugin.names):
        own = plugin.source.name
        owner = own if (kind, name) in plugin.names[:index] else owners.get((kind, name))
        if owner is not None:
            where = f"is in {own} twice" if owner == own else f"is both of {owner} and of {own}"
            raise ConfigError(f"{kind} '{name}' {where}; give one of them another name")
    for entry in plugin.lists["ALGORITHMS"]:
        if owner := TITLES.get(entry.title.lower()):
            raise ConfigError(
                f"plugin {plugin.source.name}: algorithm '{entry.name}' has the title '{entry.title}' of "
                f"fedgrid's '{owner}'; give it another title"
            )
    return plugin


def _register_plugins(plugins: Sequence[Plugin]) -> None:
    """Replace the plugins in the registries by these."""
    for plugin in _active:
        for kind, name in plugin.names:
            _REGISTRIES[kind].pop(name, None)
    _active[:] = plugins
    for plugin in _active:
        for kind, name, item in plugin.iterate_entries():
            _REGISTRIES[kind][name] = item


def _collect_digests(plugins: Iterable[Plugin]) -> set[str]:
    """Collect the digests of plugins."""
    return {plugin.source.digest for plugin in plugins}


@cache
def load_installed() -> tuple[Plugin, ...]:
    """Load the installed plugins, one per package, in the order of the packages' names.

    They are imported once a process, and so is their digest computed once: it belongs to the code in memory.

    Raises:
        ConfigError: if one of them cannot be imported, or names something else.
    """
    packages: dict[tuple[str, str], list[EntryPoint]] = {}
    for key in PACKAGE_LISTS:
        for point in entry_points(group=f"{GROUP}{key.lower()}"):
            assert point.dist is not None, "an entry point is of a distribution"
            packages.setdefault((point.dist.name, point.dist.version), []).append(point)
    return tuple(_load_package(*package, points) for package, points in sorted(packages.items()))


def _load_package(name: str, version: str, points: Sequence[EntryPoint]) -> Plugin:
    """Load what a package's entry points name.

    Raises:
        ConfigError: one cannot be loaded.
    """
    roots = sorted({point.module.partition(".")[0] for point in points})
    source = PluginSource(f"{name} {version}", _digest_package(name, version, roots), None)
    lists: dict[str, list[Any]] = {key: [] for key in KINDS}
    for point in points:
        try:
            named = point.load()
        except Exception as error:
            # Whatever code of others raises.
            raise ConfigError(
                f"plugin {source.name}: its entry point {point.name} = {point.value} cannot be loaded: "
                f"{type(error).__name__}: {error}; repair or uninstall the package"
            ) from error
        key = point.group.removeprefix(GROUP).upper()
        lists[key].extend(named if isinstance(named, list | tuple) else [named])
    return check_plugin(source, lists)


def _digest_package(name: str, version: str, roots: Sequence[str]) -> str:
    """Compute a digest of a package's name, version and all Python files of its top-level modules."""
    digest = sha256(f"{name} {version}\n".encode())
    for root in roots:
        for folder, file in _list_modules(root):
            digest.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _list_modules(root: str) -> list[tuple[Path, Path]]:
    """List the Python files of a top-level module, each with the folder that its name is relative to."""
    try:
        # Finds a top-level module without importing it.
        spec = find_spec(root)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        file = Path(spec.origin or root)
        return [(file.parent, file)] if file.is_file() else []
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    return [(folder.parent, file) for folder in folders for file in sorted(folder.rglob("*.py"))]

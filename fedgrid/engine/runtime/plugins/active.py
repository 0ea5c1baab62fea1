"""Which plugins this process uses: they stand in the registries beside what comes with the package.

A command starts with `use`. A run names the digests of its plugins, and `activate` puts exactly these into
the registries: in the driver, in the run's server and in its client actors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrid.algorithms.clustering.clusterers import CLUSTERERS
from fedgrid.algorithms.contract.aggregator import AGGREGATORS
from fedgrid.algorithms.registry import ALGORITHMS, ARENA
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.plugins.installed import installed
from fedgrid.engine.runtime.plugins.plugin import Plugin, default_name, load, names_within
from fedgrid.engine.runtime.plugins.source import PluginSource, read_source

ANALYSES: dict[str, Any] = dict.fromkeys(("attack", "epsilons", "explain"))
"""By name: those of plugins, and those of the package, which have commands of their own."""
TRACKERS: dict[str, Any] = {}
"""By name: those of plugins. `grids.trackers.registry` has those of the package."""
_REGISTRIES: dict[str, dict[str, Any]] = {
    "algorithm": ALGORITHMS,
    "clusterer": CLUSTERERS,
    "aggregator": AGGREGATORS,
    "model": MODELS,
    "analysis": ANALYSES,
    "tracker": TRACKERS,
}
BUILT_IN = {(kind, name) for kind, registry in _REGISTRIES.items() for name in registry} | {
    ("algorithm", ARENA)
}
"""What comes with the package, as kind and name; and what stands for several in a file."""

_sources: dict[str, PluginSource] = {}
"""By digest: what this process could load."""
_loaded: dict[str, Plugin] = {}
"""By digest."""
_active: list[Plugin] = []
"""In the registries now."""


def use(files: Iterable[Path | str] = ()) -> None:
    """Use the installed plugins and these files, and nothing that was in use before.

    Raises:
        ConfigError: if one of them cannot be loaded, or two of them (or one and the package) share a name.
    """
    _register(())
    for plugin in installed():
        _register((*_active, _checked(_plugin(plugin.source.digest))))
    for file in files:
        add(file)


def add(file: Path | str) -> None:
    """Use one more file; one with the bytes of a plugin in use adds nothing.

    Raises:
        ConfigError: as `use`.
    """
    source = read_source(Path(file))
    if source.digest not in _digests(_active):
        _sources[source.digest] = source
        # The same bytes may have been loaded under another name, which messages would show.
        _loaded[source.digest] = replace(_plugin(source.digest), source=source)
        _register((*_active, _checked(_loaded[source.digest])))


def know(sources: Iterable[PluginSource]) -> None:
    """Let runs use plugins that came from elsewhere: another process, or a grid's folder."""
    for source in sources:
        _sources.setdefault(source.digest, source)


def activate(digests: Sequence[str]) -> None:
    """Use the plugins of a run. Others stay in use, but for those that share a name with one of these.

    Raises:
        ConfigError: if one is not known here, or cannot be loaded.
    """
    if set(digests) <= _digests(_active):
        return
    wanted = [_plugin(digest) for digest in digests]
    names = {name for plugin in wanted for name in plugin.names}
    _register((*(plugin for plugin in _active if names.isdisjoint(plugin.names)), *wanted))


def files() -> list[PluginSource]:
    """Return the files in use; installed packages are none."""
    return [plugin.source for plugin in _active if plugin.source.code is not None]


def plugin_digests(algorithm: Mapping[str, Any], model: str) -> tuple[str, ...]:
    """Return the digests, sorted, of the plugins in use that a run's algorithm, its parts and model are of.

    `algorithm` is as of a run's configuration: `name` and all settings. Runs that have nothing from a plugin
    get none, so their ids do not depend on which plugins are in use.
    """
    settings = {key: value for key, value in algorithm.items() if key != "name"}
    names = {("algorithm", algorithm["name"]), ("model", model)}
    names |= {(kind, name) for kind in ("clusterer", "aggregator") for name in names_within(settings)}
    return tuple(sorted(plugin.source.digest for plugin in _active if not names.isdisjoint(plugin.names)))


def digest_of_analysis(analysis: Any) -> str | None:
    """Return the digest of the plugin that lists an analysis, None if it is of the package.

    Not by its name: a run's plugin may have one of the same name, such as an earlier edit of that file.
    """
    return next(
        (digest for digest, plugin in _loaded.items() if any(each is analysis for each in plugin.analyses)),
        None,
    )


def digests_of_tracker(tracker: type) -> list[str]:
    """Return the digest of the plugin that lists a tracker; none if it is of the package."""
    return [plugin.source.digest for plugin in _active if tracker in plugin.trackers]


def sources(digests: Iterable[str]) -> tuple[PluginSource, ...]:
    """Return the sources of plugins that runs name; those that are not known here are left out."""
    return tuple(_sources[digest] for digest in sorted(set(digests)) if digest in _sources)


def titles(digest: str) -> dict[str, str]:
    """Return what tables call the algorithms of a plugin: name -> title; empty if it is not loaded."""
    plugin = _loaded.get(digest)
    return {entry.name: entry.title for entry in plugin.algorithms} if plugin else {}


def references(digest: str) -> list[str]:
    """Return the names of a plugin's algorithms that are references; empty if it is not loaded."""
    plugin = _loaded.get(digest)
    return [entry.name for entry in plugin.algorithms if entry.is_reference] if plugin else []


def _plugin(digest: str) -> Plugin:
    """Return a plugin, loaded now if it was not.

    Raises:
        ConfigError: if its source is not known here, or it cannot be loaded.
    """
    for plugin in installed():
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
        _loaded[digest] = load(source)
    return _loaded[digest]


def _checked(plugin: Plugin) -> Plugin:
    """Return a plugin that adds something to runs, and shares no name with the package or another plugin."""
    if not plugin.names:
        raise ConfigError(
            f"plugin {plugin.source.name} has only FIGURES or TABLES; give it to `fedgrid report --plugin`"
        )
    owners = {name: other.source.name for other in _active for name in other.names}
    owners |= dict.fromkeys(BUILT_IN, "fedgrid")
    for index, (kind, name) in enumerate(plugin.names):
        own = plugin.source.name
        owner = own if (kind, name) in plugin.names[:index] else owners.get((kind, name))
        if owner is not None:
            where = f"is in {own} twice" if owner == own else f"is both of {owner} and of {own}"
            raise ConfigError(f"{kind} '{name}' {where}; give one of them another name")
    return plugin


def _register(plugins: Sequence[Plugin]) -> None:
    """Make these the plugins in the registries, and no others."""
    for plugin in _active:
        for kind, name in plugin.names:
            _REGISTRIES[kind].pop(name, None)
    _active[:] = plugins
    for plugin in _active:
        ALGORITHMS.update({entry.name: entry for entry in plugin.algorithms})
        CLUSTERERS.update({default_name(clusterer): clusterer for clusterer in plugin.clusterers})
        AGGREGATORS.update({default_name(aggregator): aggregator for aggregator in plugin.aggregators})
        MODELS.update({entry.name: entry for entry in plugin.models})
        ANALYSES.update({analysis.name: analysis for analysis in plugin.analyses})
        TRACKERS.update({tracker.name: tracker for tracker in plugin.trackers})


def _digests(plugins: Iterable[Plugin]) -> set[str]:
    return {plugin.source.digest for plugin in plugins}

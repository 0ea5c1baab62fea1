"""Plugins of installed packages: what they name under the entry points `fedgrid.algorithms` and so on.

An entry point names an entry (of clusterers, a class), or a list of them.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins.plugin import Plugin, of_listed
from fedgrid.engine.runtime.plugins.source import PluginSource

KINDS = ("algorithms", "clusterers", "models", "analyses", "trackers")
GROUPS = tuple(f"fedgrid.{kind}" for kind in KINDS)


@cache
def installed() -> tuple[Plugin, ...]:
    """Return a plugin a package, by the packages' names.

    They are imported once a process, and so is their digest taken once: it belongs to the code in memory.

    Raises:
        ConfigError: if one of them cannot be imported, or names something else.
    """
    packages: dict[tuple[str, str], list[EntryPoint]] = {}
    for group in GROUPS:
        for point in entry_points(group=group):
            assert point.dist is not None, "an entry point is of a distribution"
            packages.setdefault((point.dist.name, point.dist.version), []).append(point)
    return tuple(_plugin(*package, points) for package, points in sorted(packages.items()))


def _plugin(name: str, version: str, points: Sequence[EntryPoint]) -> Plugin:
    roots = sorted({point.module.partition(".")[0] for point in points})
    source = PluginSource(f"{name} {version}", _digest(name, version, roots), None)
    listed: dict[str, list[Any]] = {group: [] for group in GROUPS}
    for point in points:
        try:
            found = point.load()
        except Exception as error:
            # Whatever code of others raises.
            raise ConfigError(
                f"plugin {source.name}: its entry point {point.name} = {point.value} cannot be loaded: "
                f"{type(error).__name__}: {error}; repair or uninstall the package"
            ) from error
        listed[point.group].extend(found if isinstance(found, list | tuple) else [found])
    return of_listed(source, *listed.values())


def _digest(name: str, version: str, roots: Sequence[str]) -> str:
    """Return a digest of a package's name, version and all Python files of its top-level modules."""
    digest = sha256(f"{name} {version}\n".encode())
    for root in roots:
        for folder, file in _modules(root):
            digest.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _modules(root: str) -> list[tuple[Path, Path]]:
    """Return the Python files of a top-level module, each with the folder that its name is relative to."""
    try:
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

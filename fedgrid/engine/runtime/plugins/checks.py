"""Checks of a plugin before anything starts: what its file imports and draws, and its algorithms."""

import ast
import sys
from inspect import get_annotations, isfunction, signature
from pathlib import Path

from fedgrid.algorithms.contract.base import Algorithm, Settings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.engine.federation.errors import ConfigError, find_plugin_file, find_plugin_line

PACKAGE = __name__.partition(".")[0]
MANIFEST, RUNS, PRESET = "bundle.json", "runs.jsonl", "preset.yaml"
"""A file of an unpacked bundle, and two in the folder that a storage has for each grid."""
MANIFEST_KEYS = (b'"fedgrid"', b'"files"')
"""Keys of a bundle's manifest, near its beginning; other programs may have a file of this name."""
BEGINNING = 1 << 16
"""Bytes of a file in which those keys are searched: manifests of large bundles have many megabytes."""
UNSEEDED = "default_rng()", "RandomState()", "random.Random()", "SystemRandom()"
"""Ends of calls that return a generator of other numbers each time."""


def check_trust(plugin: Path, grid_file: Path) -> None:
    """Check that neither a plugin's file nor the grid's file that names it lies in a bundle or a storage.

    Others may have sent these, and a grid's file in them is not the user's own word.

    Raises:
        ConfigError: one of them does; nothing of the plugin was executed.
    """
    for file in (grid_file, plugin):
        if origin := _find_origin(file):
            raise ConfigError(
                f"plugin {plugin} was not executed: {file} lies in {origin}, which others may have "
                "written; read it, then add --trust, or name your own copy with --plugin"
            )


def _find_origin(file: Path) -> str:
    """Find the bundle, or the grid's folder of a storage, in which a file lies; empty if in neither."""
    for folder in file.resolve().parents:
        if _is_bundle(folder / MANIFEST):
            return f"the bundle {folder}"
        if (folder / RUNS).exists() and (folder / PRESET).exists():
            return f"{folder}, a grid's folder of a storage"
    return ""


def _is_bundle(manifest: Path) -> bool:
    """Check whether a file is the manifest of a bundle."""
    if not manifest.is_file():
        return False
    with manifest.open("rb") as file:
        beginning = file.read(BEGINNING)
    return all(key in beginning for key in MANIFEST_KEYS)


def check_code(code: bytes, path: Path) -> None:
    """Check that a plugin's file imports no module from its own folder, and has no generator without a seed.

    The file travels alone, and its bytes alone are part of the ids of its runs.

    Raises:
        ConfigError: it does; names the line.
    """
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError):
        return  # Loading the file says so.
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        # By the ends of calls, which are the same however the function was imported.
        elif isinstance(node, ast.Call) and ast.unparse(node).endswith(UNSEEDED):
            raise ConfigError(
                f"plugin {path}, line {node.lineno}: {ast.unparse(node)} draws other numbers each time; draw "
                "from the rng that the method is given or, where there is none, as in a module's forward, by "
                "torch.rand, np.random.rand or random.random, which are seeded for it"
            )
        else:
            continue
        if neighbours := [name for name in names if _is_neighbour(name.partition(".")[0], path)]:
            raise ConfigError(
                f"plugin {path}, line {node.lineno}: imports {neighbours[0]}, which lies beside it, but a "
                "plugin "
                "is one file; move what it needs into it, or install that as a package"
            )


def _is_neighbour(name: str, path: Path) -> bool:
    """Check whether a module lies in the folder of a file; a relative import has an empty `name`."""
    # A file of the same name as a standard module does not shadow it, since the plugin's folder is in no
    # path.
    if name in sys.stdlib_module_names or name == PACKAGE:
        return False
    return not name or any((path.parent / file).is_file() for file in (f"{name}.py", f"{name}/__init__.py"))


def check_algorithm(entry: AlgorithmEntry, plugin: str) -> None:
    """Check that an entry's class can be made of its settings, and that its methods can be called.

    Raises:
        ConfigError: it cannot.
    """
    kind = entry.algorithm
    where = f"plugin {plugin}: algorithm {entry.name!r}"
    if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
        given = f"the class {kind.__name__}" if isinstance(kind, type) else f"a {type(kind).__name__}"
        raise ConfigError(f"{where} is {given}; expected one derived from FedOpt, as class Mine(FedOpt)")
    # By the nearest class of ours, since its methods read these settings.
    expected = next(annotation for base in kind.__mro__ if (annotation := _find_settings_class(base)))
    if not isinstance(entry.settings, expected):
        raise ConfigError(
            f"{where} has settings={entry.settings!r}; expected an instance of {expected.__name__} or of a "
            f"class derived from it, as in settings={expected.__name__}()"
        )
    _check_methods(kind, plugin)
    try:
        kind(entry.settings)
    except Exception as error:
        # Whatever the plugin's code raises.
        place = find_plugin_line(error) or f"plugin {plugin}: "
        raise ConfigError(f"{place}algorithm {entry.name!r} cannot be made: {error}") from error


def _is_ours(base: type) -> bool:
    """Check whether a class is of this package."""
    return base.__module__.startswith(f"{PACKAGE}.")


def _find_settings_class(base: type) -> type[Settings] | None:
    """Find the settings that a class of ours declares."""
    annotations = get_annotations(base, eval_str=True) if _is_ours(base) else {}
    return Settings if base is Algorithm else annotations.get("settings")


def _check_methods(kind: type[Algorithm], plugin: str) -> None:
    """Check that methods take the arguments of those of ours that they override.

    Raises:
        ConfigError: one does not.
    """
    ours: dict[str, object] = {}
    # From the base on, so that the definition in the nearest class wins.
    for base in filter(_is_ours, reversed(kind.__mro__)):
        ours |= vars(base)
    for name, method in ours.items():
        own = getattr(kind, name)
        if name.startswith("__") or own is method or not (isfunction(own) and isfunction(method)):
            continue
        try:
            signature(own).bind(*signature(method).parameters)
        except TypeError as error:
            raise ConfigError(
                f"{find_plugin_file(own) or f'plugin {plugin}: '}{kind.__name__}.{name}{signature(own)} is "
                "called "
                f"with other arguments; write def {name}({', '.join(signature(method).parameters)})"
            ) from error

"""From what a user writes (a preset, a YAML file, options) to run configurations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from engine.errors import ConfigError, unknown
from engine.run_config import DEFAULTS, RunConfig, complete
from engine.scenarios import SCENARIOS

AXES = ("dataset", "overlap", "balance", "clients", "seed", "algorithm")
"""Keys that may be lists; the last varies fastest."""


@dataclass(frozen=True)
class Grid:
    """A set of runs with a name."""

    name: str
    runs: tuple[RunConfig, ...]


def preset_names() -> list[str]:
    """Return the names of the presets that come with fedgrid."""
    folder = files("grids") / "presets"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_grid(what: str | None, options: Mapping[str, Any], changes: Sequence[str], data_dir: Path) -> Grid:
    """Return the grid that a command line describes.

    Args:
        what: a preset's or a published scenario's name, the path of a YAML file, or None for options alone.
        options: values that replace those of the file, by key.
        changes: `key.key=value` each, applied last.

    Raises:
        ConfigError: if anything is misspelt or cannot be.
    """
    name, values = _read(what) if what else ("runs", {})
    values = {**values, **options}
    for change in changes:
        values = _apply(values, change)
    return Grid(name, expand(values, data_dir))


def expand(values: Mapping[str, Any], data_dir: Path) -> tuple[RunConfig, ...]:
    """Return one configuration for every combination of the axes.

    Raises:
        ConfigError: if two of them are the same run.
    """
    given = [axis for axis in AXES if axis in values]
    choices = [values[axis] if isinstance(values[axis], list) else [values[axis]] for axis in given]
    if [] in choices:
        raise ConfigError(f"{given[choices.index([])]} = []: expected at least one")
    fixed = {key: value for key, value in values.items() if key not in AXES}
    runs = tuple(
        complete({**fixed, **dict(zip(given, combination, strict=True))}, data_dir)
        for combination in product(*choices)
    )
    seen: dict[str, RunConfig] = {}
    for run in runs:
        if run.run_id in seen:
            raise ConfigError(f"the same run twice: {run.name} ({run.run_id}); check the lists for repeats")
        seen[run.run_id] = run
    return runs


def _read(what: str) -> tuple[str, dict[str, Any]]:
    path = Path(what)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise ConfigError(f"no file {what}; presets: {', '.join(preset_names())}")
        return path.stem, _mapping(path.read_bytes(), what)
    if what in preset_names():
        return what, _mapping((files("grids") / "presets" / f"{what}.yaml").read_bytes(), what)
    if what.count("-") > 2:
        return "runs", scenario_values(what)
    raise unknown("preset", what, preset_names())


def scenario_values(name: str) -> dict[str, Any]:
    """Return the keys that one of the papers' forty scenarios stands for.

    Raises:
        ConfigError: if there is none of that name.
    """
    if name not in SCENARIOS:
        raise unknown("scenario", name, SCENARIOS)
    scenario = SCENARIOS[name]
    return {
        "dataset": scenario.dataset,
        "overlap": scenario.overlap,
        "balance": scenario.balance,
        "clients": scenario.num_clients,
    }


def _mapping(text: bytes, source: str) -> dict[str, Any]:
    values = _parse(text, source)
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: expected keys such as dataset: and algorithm:")
    return {str(key): value for key, value in values.items()}


def _parse(text: str | bytes, source: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not YAML: {' '.join(str(error).split())}") from error


class _Loader(yaml.SafeLoader):
    """YAML without objects, in which a key stands once: PyYAML lets the last of several win, unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of `node`, which has no key twice."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for key in keys:
            if keys.count(key) > 1:
                problem = f"'{key}' stands there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep)


def _apply(values: Mapping[str, Any], change: str) -> dict[str, Any]:
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {change}: expected KEY=VALUE, as in training.rounds=5")
    return _with(values, key.split("."), _parse(text, f"--set {change}"), change)


def _with(values: Mapping[str, Any], keys: Sequence[str], value: Any, change: str) -> dict[str, Any]:
    key, *rest = keys
    if not rest:
        return {**values, key: value}
    inner = values.get(key, DEFAULTS.get(key, {}))
    if key == "algorithm":
        choices = inner if isinstance(inner, list) else [inner]
        changed = [_with(_as_mapping(choice), rest, value, change) for choice in choices]
        return {**values, key: changed}
    if not isinstance(inner, Mapping):
        raise ConfigError(f"--set {change}: {key} is {inner!r}, it has no keys")
    return {**values, key: _with(inner, rest, value, change)}


def _as_mapping(choice: Any) -> dict[str, Any]:
    return dict(choice) if isinstance(choice, Mapping) else {"name": choice}

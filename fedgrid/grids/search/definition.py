"""What a search is, and how it is built from an algorithm and options, or from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import yaml

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import AlgorithmSection, RunConfig
from fedgrid.engine.federation.data.names import has_target
from fedgrid.engine.federation.errors import ConfigError, suggest_name, unknown_key_error, unknown_name_error
from fedgrid.engine.runtime.configuration.complete import INNER
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.grids.presets.axes import Preset
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.preset_files import PRESET_KEYS, SEARCH_KEY, is_path, open_preset
from fedgrid.grids.presets.read_preset import read_preset
from fedgrid.grids.presets.yaml_file import Place, YamlFile, parse_value, prefix_errors
from fedgrid.grids.search.early_stop import EARLY_STOP, EarlyStop, read_early_stop
from fedgrid.grids.search.objectives import ACCURACY, OBJECTIVES, VALIDATION
from fedgrid.grids.search.searchers import SEARCHERS, Searcher, list_grid_levels
from fedgrid.grids.search.space import (
    Params,
    Space,
    apply_settings,
    build_axis_key,
    find_built_in_space,
    read_space,
)

OWN_KEYS = (SEARCH_KEY, "trials", "searcher", "objective", EARLY_STOP)
"""Keys of a search's file in addition to those of a preset."""
DEFAULTS = {"trials": 32, "searcher": "optuna", "objective": VALIDATION, EARLY_STOP: False}
"""Values of a search's own keys by default."""
BASE = "paper"
"""Preset whose scenarios a filter selects from, if no other base is named."""


@dataclass(frozen=True)
class Search:
    """Which settings of an algorithm are searched, on which scenarios, and how."""

    name: str
    algorithm: str
    space: Space
    trials: int
    searcher: Searcher
    objective: str
    early_stop: EarlyStop
    base: tuple[RunConfig, ...]
    """Runs of each trial, without the settings that are searched."""
    defaults_first: bool = False
    """Whether the settings of `base` are the first trial, number 0."""

    def __post_init__(self) -> None:
        """Refuse to search for accuracy or F1 where numbers are predicted."""
        for run in self.base:
            if self.objective in (VALIDATION, ACCURACY) and has_target(run.dataset):
                raise ConfigError(
                    f"objective {self.objective} needs classes; {run.dataset} has numbers to predict; take "
                    "silhouette, or ari"
                )

    def build_runs(self, params: Params) -> tuple[RunConfig, ...]:
        """Build the runs of a trial.

        Raises:
            ConfigError: The settings exclude one another.
        """
        return tuple(apply_settings(run, params) for run in self.base)

    def compute_start_order_key(self, params: Params) -> tuple[float, ...]:
        """Compute the algorithm's start order key with these settings; infinity if they are invalid."""
        try:
            return build_algorithm(self.build_runs(params)[0]).start_order_key()
        except ConfigError:
            return (inf,)

    def build_grid(self, runs: tuple[RunConfig, ...], until: Mapping[str, int]) -> Grid:
        """Build a grid of the runs of the search so far."""
        return Grid(self.name, runs, self.text, self.axes, until)

    @property
    def axes(self) -> tuple[str, ...]:
        """Settings that are searched, as axes of a grid."""
        return tuple(map(build_axis_key, self.space))

    @cached_property
    def text(self) -> str:
        """The search as YAML, for its folder and MLflow."""
        return yaml.safe_dump(self.description, sort_keys=False, allow_unicode=True)

    @cached_property
    def description(self) -> dict[str, Any]:
        """Everything that identifies the search. Two searches that differ only in `trials` are the same."""
        # A digest in place of the configurations, as a search may have dozens of them.
        base = "\n".join(run.canonical_json() for run in self.base)
        return {
            "algorithm": self.algorithm,
            SEARCH_KEY: {key: dimension.to_plain() for key, dimension in self.space.items()},
            "trials": self.trials,
            "searcher": self.searcher,
            "objective": self.objective,
            EARLY_STOP: self.early_stop.to_plain(),
            **({"defaults_first": True} if self.defaults_first else {}),
            "runs": [run.name for run in self.base],
            "settings": sha256(base.encode()).hexdigest()[:12],
        }


def build_search(
    name: str,
    algorithm: str,
    space: Mapping[str, Any],
    trials: int,
    objective: str,
    base: tuple[RunConfig, ...],
) -> Search:
    """Build a search that tries the settings of `base` first, then random ones, then what Optuna suggests.

    Args:
        name: Name of the search and its grid.
        algorithm: The algorithm.
        space: Setting -> list of values, or a dict with `low` and `high`, as in a file.
        trials: Number of trials.
        objective: Name of the objective.
        base: Runs of each trial, without the settings that are searched.

    Raises:
        ConfigError: The space is wrong.
    """
    spaces = read_space(space, algorithm, settings=base[0].algorithm.settings)
    return Search(
        name, algorithm, spaces, trials, "optuna", objective, EarlyStop(), base, defaults_first=True
    )


def load_search(
    source: str,
    options: Mapping[str, Any],
    changes: Sequence[str],
    data_dir: Path,
    *,
    own: Mapping[str, Any],
    name: str | None = None,
    base: str | None = None,
    filters: Sequence[str] = (),
    seeds: str | None = None,
    extra_settings: Sequence[str] = (),
) -> Search:
    """Build the search that a command line describes.

    Args:
        source: An algorithm, or the path of a YAML file.
        options: Keys of runs, as in `load_grid`.
        changes: Overrides, as in `load_grid`.
        data_dir: Folder of the data sets.
        own: Those of `trials`, `searcher`, `objective` and `early_stop` that the command line gives.
        name: Name of the search; the default names algorithm and data sets, or the file.
        base: Preset or file whose scenarios an algorithm is searched over; None, the default, for `options`
            alone, or for the preset `paper` if there are filters.
        filters: Conditions on the runs, none by default.
        seeds: Seeds as in `load_grid`.
        extra_settings: Further settings, each as `training.learning_rate=0.01,0.1` or
            `training.momentum={low: 0.1, high: 0.9}`; none by default.

    Raises:
        ConfigError: A name or value is wrong.
    """
    in_file: Mapping[str, Any] = {}
    further = dict(map(_parse_setting, extra_settings))
    place, preset = None, None
    if source in ALGORITHMS:
        if base := base or (BASE if filters else None):
            preset = read_preset(open_preset(base), (base,))
        if preset and source in _list_algorithms(preset):
            filters = [*filters, f"algorithm={source}"]
        else:
            options = {**options, "algorithm": source}
        # The number of rounds changes the ranges, not the settings; any number gives the keys.
        searched = frozenset(ALGORITHMS[source].build_space(1))
    elif is_path(source):
        if base is not None:
            raise ConfigError(f"--base {base}: write base: into {source} instead")
        file = open_preset(source)
        place, in_file = Place(file, (SEARCH_KEY,)), _take_own(file)
        preset = read_preset(file, (source,))
        searched = _list_searched_settings(in_file.get(SEARCH_KEY), preset)
    else:
        near = suggest_name(source, ALGORITHMS)
        raise ConfigError(f"no algorithm or file '{source}'; {near}known: {', '.join(ALGORITHMS)}")
    # Scores on test images would be too good for settings that were chosen with the same images.
    changes = ["split.scored_on=validation", *changes]
    searched |= {*further}
    grid = load_grid(preset, options, changes, data_dir, filters=filters, seeds=seeds, searched=searched)
    algorithm = _find_algorithm(grid.runs)
    space: Mapping[str, Any] | None = None
    if SEARCH_KEY not in in_file:
        rounds = min(run.training.rounds for run in grid.runs)
        space = (
            ALGORITHMS[algorithm].build_space(rounds) if further else find_built_in_space(algorithm, rounds)
        )
    at_file = place if SEARCH_KEY in in_file else None
    read = _read_spaces(in_file.get(SEARCH_KEY, space), further, grid.runs[0].algorithm, at_file)
    values = {key: _read_own_value(key, {**DEFAULTS, **in_file}, own, place) for key in DEFAULTS}
    # Called for its error: a grid with more points than trials is refused here.
    if values["searcher"] == "grid":
        list_grid_levels(read, values["trials"])
    # Only now: the rungs must fit the rounds of every run.
    values[EARLY_STOP].check(grid.runs)
    datasets = dict.fromkeys(run.short_dataset for run in grid.runs)
    default_name = grid.name if place else "-".join([algorithm, *datasets])
    return Search(name or default_name, algorithm, read, base=grid.runs, **values)


def _read_spaces(
    given: Any, further: Mapping[str, Any], algorithm: AlgorithmSection, place: Place | None
) -> Space:
    """Read the space of a file or an algorithm, with what `--space` adds."""
    name, settings = algorithm.name, algorithm.settings
    space = {} if further and not given else read_space(given, name, place, settings)
    with prefix_errors("--space"):
        return {**space, **(read_space(further, name, settings=settings) if further else {})}


def _parse_setting(text: str) -> tuple[str, Any]:
    """Parse a setting as typed: KEY=VALUE,VALUE, or KEY={low: ..., high: ...}."""
    key, equals, values = text.partition("=")
    if not (key and equals and values.strip()):
        raise ConfigError(f"--space {text}: expected KEY=VALUE,VALUE, as in training.learning_rate=0.01,0.1")
    source = f"--space {text}"
    return key.strip(), parse_value(values if values.strip()[0] in "[{" else f"[{values}]", source)


def _list_algorithms(preset: Preset) -> set[str]:
    """List the names of a preset's algorithms."""
    return {item.name for item in preset.axes["algorithm"]}


def _list_searched_settings(space: Any, preset: Preset) -> frozenset[str]:
    """List the settings that a file searches: those of its space, else of the built-in ones."""
    if isinstance(space, Mapping):
        return frozenset(map(str, space))
    names = _list_algorithms(preset) & set(ALGORITHMS)
    return frozenset(key for name in names for key in ALGORITHMS[name].build_space(1))


def _take_own(file: YamlFile) -> dict[str, Any]:
    """Remove a search's own keys from its file, which leaves a preset, and return them."""
    for key in file.values:
        if key not in (*PRESET_KEYS, *OWN_KEYS):
            with prefix_errors(Place(file, (key,))):
                raise unknown_key_error(key, "", (*OWN_KEYS, *PRESET_KEYS), nested_keys=INNER)
    return {key: file.values.pop(key) for key in OWN_KEYS if key in file.values}


def _read_own_value(key: str, in_file: Mapping[str, Any], own: Mapping[str, Any], place: Place | None) -> Any:
    """Read the value of one of the search's own keys: from the command line, else from the file.

    Args:
        key: The key.
        in_file: Values of the file, or defaults.
        own: Values of the command line.
        place: Where the file has its keys, for errors; None without a file.
    """
    value = own.get(key, in_file[key])
    allowed = {"searcher": SEARCHERS, "objective": OBJECTIVES}.get(key)
    with prefix_errors(f"--{key}" if key in own else place and Place(place.file, (key,))):
        if allowed is not None and value not in allowed:
            raise unknown_name_error(key, str(value), allowed)
        if key == "trials" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"trials = {value!r}: expected a whole number of at least 1")
        return read_early_stop(value) if key == EARLY_STOP else value


def _find_algorithm(runs: Sequence[RunConfig]) -> str:
    """Find the one algorithm of all runs."""
    names = list(dict.fromkeys(run.algorithm.name for run in runs))
    if len(names) > 1:
        raise ConfigError(f"a search takes one algorithm, not {', '.join(names)}; name one")
    return str(names[0])

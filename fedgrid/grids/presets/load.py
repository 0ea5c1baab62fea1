"""Make the runs of a grid from a preset, a YAML file and options."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.dealing import kinds
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.scenarios import SCENARIOS
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.configuration.idle_settings import check_idle, check_keys
from fedgrid.engine.runtime.configuration.validation import find_key, has_list_for_value
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.data.partition_files import add_partition_facts
from fedgrid.grids.presets.axes import (
    Axes,
    Change,
    GivenValue,
    Override,
    Preset,
    add_values,
    is_allowed,
    parse_axis,
    parse_choice,
    parse_filter,
    restrict_axes,
)
from fedgrid.grids.presets.axis_keys import (
    AXES,
    SPLIT,
    check_axis_key,
    find_variant_settings,
    is_within,
    join_keys,
    list_axis_keys,
    set_key,
    sort_axes,
)
from fedgrid.grids.presets.grid import DICT_SOURCE, OPTIONS_SOURCE, Grid, RequestedRuns
from fedgrid.grids.presets.nested_values import find_value, merge_mappings, nest_keys
from fedgrid.grids.presets.preset_files import complete_suffix, is_path, list_presets, open_preset
from fedgrid.grids.presets.read_preset import build_default_axes, read_preset
from fedgrid.grids.presets.yaml_file import Place, YamlFile, prefix_errors, suggest_axis

SCENARIO = re.compile(r"(.+?)-(\d+)-([a-z][a-z0-9_-]*)")
"""`Scenario.name`: data set, clients, split."""
ADDITION = re.compile(r"[\w.\s]+\+=")
"""Beginning of a change that adds values to an axis."""
VALUES_SHOWN = 8
"""Most values of an axis in a message."""
FEW_SEEDS = 100
"""Largest number given as seeds that may be meant as the number of seeds."""
INDEPENDENT = ("clients", "seed")
"""Axes on which no default of another key depends, so that one completed configuration serves all their
values."""


def load_grid(
    what: str | Mapping[str, Any] | Preset | None,
    options: Mapping[str, Any],
    changes: Sequence[str],
    data_dir: Path,
    *,
    filters: Sequence[str] = (),
    seeds: str | None = None,
    overrides: Sequence[Override] = (),
    name: str | None = None,
    searched: frozenset[str] = frozenset(),
) -> Grid:
    """Load the grid that a command line describes.

    Args:
        what: a preset's or a scenario's name, the path of a YAML file, the content of such a file as a dict
            (the grid then needs a `name`) or a `Preset`, or None for options alone.
        options: axis -> value or list; replaces the file's values.
        changes: `key.key=value` each, applied after everything else; `key.key=value,value` is an axis, and
            `axis+=value,value` adds values that the grid does not have yet.
        data_dir: where data sets are; defaults and checks depend on them.
        filters: `axis=value,axis=value` each; a run must pass all of them; default: none.
        seeds: `0..4`, `3` or `0,2,5`; replaces the file's seeds; default None: the file's.
        overrides: applied after the file's own; default: none.
        name: the grid's name; default None: that of the preset or file.
        searched: as in `Preset`; default: none.

    Raises:
        ConfigError: for an unknown key or an invalid value, if no run is left, and for a file that would take
            a preset's name.
    """
    if seeds is not None and "seed" in options:
        raise ConfigError(f"--seed {options['seed']} and --seeds {seeds} both give seeds: leave one out")
    if isinstance(what, Mapping) and name is None:
        raise ConfigError("a grid that is a dict needs a name, by which it is found again: name='mine'")
    # Applied after `--seeds` and `axis=`, since they add to whatever values the axis then has.
    additions = [text for text in changes if ADDITION.match(text)]
    changes = [text for text in changes if text not in additions]
    preset = what if isinstance(what, Preset) else _read_source(what, options)
    preset_name = preset.name
    if (
        name is None
        and isinstance(what, str)
        and what not in list_presets()
        and preset_name in list_presets()
    ):
        raise ConfigError(
            f"{what} would take the name of the preset {preset_name}: name its grid with --name"
        )
    axes, remaining, notes = _apply_options(preset, options, changes)
    varied = [
        change.text for change in map(Change.from_text, changes) if change.axis in axes.keys() - preset.axes
    ]
    preset = replace(
        preset, overrides=(*preset.overrides, *overrides), changes=tuple(remaining), searched=searched
    )
    widened = replace(preset, axes=_widen_axes(axes, seeds, additions))
    if seeds and seeds.isdecimal() and 1 < int(seeds) <= FEW_SEEDS:
        notes.append(f"1 seed: {seeds} (for {seeds} seeds: --seeds 0..{int(seeds) - 1})")
    chosen = _narrow_axes(widened.axes, filters)
    runs = expand_preset(replace(widened, axes=chosen), data_dir)
    variants = (*find_variant_settings(runs), *find_variant_settings(runs, f"{SPLIT}."))
    named = join_keys(chosen, variants)
    # The runs that a filter leaves out are still requested by the file: they are not superseded.
    ids = frozenset(run.run_id for run in runs) | (_find_run_ids(widened, data_dir) if filters else set())
    return Grid(
        name or preset_name,
        runs,
        preset.text,
        tuple(axis for axis in list_axis_keys(runs) if axis in named and axis not in AXES),
        source=preset.source,
        # A dict has no other name that it could come with.
        is_named=name is not None and preset.source != DICT_SOURCE,
        requested=RequestedRuns(_compute_digest(preset, varied), ids),
        notes=tuple(notes),
    )


def _apply_options(
    preset: Preset, options: Mapping[str, Any], changes: Sequence[str]
) -> tuple[Axes, list[Change], list[str]]:
    """Apply options and changes to a preset's axes; return the axes, the remaining changes, and remarks."""
    axes = dict(restrict_axes(preset.axes, preset.filter))
    axes |= {axis: parse_axis(axis, value) for axis, value in options.items()}
    remaining: list[Change] = []
    notes: list[str] = []
    for change in map(Change.from_text, changes):
        key = change.axis
        if key in axes or change.gives_axis:
            check_axis_key(key)
            before = axes.get(key, ())
            axes[key] = parse_axis(key, change.axis_values())
            if len(axes[key]) == 1 < len(before):
                first = ", ".join(item.label for item in before[:VALUES_SHOWN]) + ", ..." * (
                    len(before) > VALUES_SHOWN
                )
                notes.append(f"{change.text} takes the place of {len(before)} values of {key}: {first}")
            # An axis replaces earlier changes of its key: the last one on the command line counts.
            remaining = [earlier for earlier in remaining if earlier.keys[: len(change.keys)] != change.keys]
        else:
            remaining.append(change)
    return axes, remaining, notes


def _compute_digest(preset: Preset, varied: Sequence[str]) -> str:
    """Compute a digest of the content of a file, its bases, overrides and `--tuned`.

    Lines and comments do not count. A launch of the same content extends the grid, as with another `--where`
    or other `--seeds`. A launch of an edited file, or with another override, replaces it
    (`grids.results.grid_folder`). Axes that are options add to each other.

    Args:
        preset: the content, with the changes that give no axis.
        varied: the overrides that give the file a further axis.
    """
    axes = {axis: [item.value for item in items] for axis, items in preset.axes.items()}
    content = (
        {} if preset.source == OPTIONS_SOURCE else axes,
        preset.filter,
        {key: item.value for key, item in preset.fixed.items()},
        [(override.when, override.then) for override in preset.overrides],
        preset.excluded,
        [*(change.text for change in preset.changes), *varied],
    )

    def convert_plain(value: object) -> object:
        return sorted(value) if isinstance(value, frozenset) else str(value)

    # Stored with the grid: whatever changes this text supersedes the runs of every grid that was launched
    # before.
    return sha256(json.dumps(content, default=convert_plain).encode()).hexdigest()


def _find_run_ids(preset: Preset, data_dir: Path) -> set[str]:
    """Find the ids of all runs of a file; none if one that a filter leaves out is invalid here."""
    try:
        return {run.run_id for run in expand_preset(preset, data_dir)}
    except ConfigError:
        return set()


def is_scenario(name: str) -> bool:
    """Check whether a name has the form of a scenario's; a user's own images may have any dashes."""
    return ":" not in name and (name.count("-") > 2 or SCENARIO.fullmatch(name) is not None)


def parse_scenario(name: str) -> dict[str, Any]:
    """Parse the keys of a scenario from its printed name: one of the papers' forty, or any other.

    Raises:
        ConfigError: if it is no such name; whether its parts exist is checked with the run.
    """
    parts = SCENARIO.fullmatch(name)
    if parts is None:
        raise ConfigError(
            f"no scenario '{name}': expected DATASET-CLIENTS-SPLIT, as in {next(iter(SCENARIOS))}"
        )
    dataset, clients, split = parts.groups()
    return {"dataset": dataset, "split": split, "clients": int(clients)}


def _read_source(what: str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> Preset:
    """Read the preset, file, dict or scenario that a grid is made from."""
    if isinstance(what, Mapping):
        # Files that it names lie below the folder of the process.
        return replace(read_preset(_convert_to_file(what), ("",)), source=DICT_SOURCE)
    if what and (what in list_presets() or is_path(what) or complete_suffix(what) or not is_scenario(what)):
        return read_preset(open_preset(what), (what,))
    values = parse_scenario(what) if what else {}
    axes = {**build_default_axes(), **{axis: parse_axis(axis, value) for axis, value in values.items()}}
    text = yaml.safe_dump({**values, **options}, sort_keys=False)
    return Preset(axes, name="runs", text=text, source=OPTIONS_SOURCE)


def _convert_to_file(values: Mapping[str, Any]) -> YamlFile:
    """Convert a dict to the file that would contain it; refuse values that YAML does not have."""
    try:
        # Through YAML, so that a dict has the rules and the errors of a file.
        text = yaml.safe_dump(convert_to_yaml_types(values), sort_keys=False)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"the grid's dict: {' '.join(map(str, error.args))}; expected plain values"
        ) from error
    return YamlFile("the grid's dict", text.encode(), has_lines=False)


def convert_to_yaml_types(value: Any) -> Any:
    """Convert tuples, ranges, paths and NumPy's numbers within a value to YAML's types."""
    if isinstance(value, Mapping):
        return {key: convert_to_yaml_types(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range | set | frozenset):
        return [convert_to_yaml_types(inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _widen_axes(axes: Axes, seeds: str | None, additions: Sequence[str]) -> Axes:
    """Replace the seeds by those of `--seeds`, and add the values of `axis+=`."""
    if seeds is not None:
        with prefix_errors("--seeds"):
            axes = {**axes, "seed": parse_axis("seed", seeds)}
    for text in additions:
        with prefix_errors(text):
            axes = add_values(axes, text)
    return axes


def _narrow_axes(axes: Axes, filters: Sequence[str]) -> Axes:
    """Restrict the axes to the values that all filters allow."""
    all_axes = axes
    for text in filters:
        chosen = parse_filter(text)
        with prefix_errors(f"--where {text}"):
            axes = restrict_axes(axes, parse_choice(chosen, all_axes))
    return axes


def expand_preset(preset: Preset, data_dir: Path) -> tuple[RunConfig, ...]:
    """Build one configuration for every combination of the axes that is not excluded.

    Raises:
        ConfigError: if one of them is invalid, two of them are the same run, or none is left.
    """
    expander = _RunBuilder(preset, data_dir)
    order = sort_axes(preset.axes)
    seen: dict[str, RunConfig] = {}
    for combination in product(*(preset.axes[axis] for axis in order)):
        values = dict(zip(order, combination, strict=True))
        if any(is_allowed(choice, values) for choice in preset.excluded):
            continue
        run = expander.build_run(values)
        # Two combinations may be the same run, as with 0.5 and 5e-1 on one axis.
        if run.run_id in seen:
            raise ConfigError(f"the same run twice: {run.name} ({run.run_id}); check the lists for repeats")
        seen[run.run_id] = run
    if not seen:
        raise ConfigError("no run is left: the file's `exclude` leaves out every combination")
    return tuple(seen.values())


class _RunBuilder:
    """Builds runs. Costly steps, such as reading a folder of images, are done once for all of them."""

    def __init__(self, preset: Preset, data_dir: Path) -> None:
        self._preset = preset
        self._data_dir = data_dir
        self._templates: dict[tuple[GivenValue | Override, ...], RunConfig] = {}
        self._datasets: dict[str, Dataset] = {}
        self._checked: set[tuple[str, Split]] = set()

    def build_run(self, items: Mapping[str, GivenValue]) -> RunConfig:
        """Build the run with these values of the axes; an error names the line of the key."""
        held = tuple(override for override in self._preset.overrides if is_allowed(override.when, items))
        # Items compare by identity (`eq=False`): runs with the same objects have the same values, without
        # comparing them.
        kind: tuple[GivenValue | Override, ...] = (
            *(item for axis, item in items.items() if axis not in INDEPENDENT or item.is_default),
            *held,
        )
        with self._locate_errors(items, held):
            if kind not in self._templates:
                self._templates[kind] = self._complete_run(items, held)
            run = self._replace_independent(self._templates[kind], items)
            self._check_parts(run)
        return run

    def _complete_run(self, items: Mapping[str, GivenValue], held: Sequence[Override]) -> RunConfig:
        """Complete the configuration that runs with these values share: defaults, derived values."""
        values = {axis: item.value for axis, item in items.items() if axis in AXES}
        # Left out, so that `complete` sets the number of clients, and below the kind, that the data set
        # defines.
        if items["clients"].is_default:
            del values["clients"]
        if not isinstance(values["algorithm"], Mapping):
            values["algorithm"] = {"name": values["algorithm"]}
        split = values["split"] if isinstance(values["split"], Mapping) else {"kind": values["split"]}
        if items["split"].is_default:
            split = {}
        # In the order of precedence: shared keys, overrides, further axes, changes of the command line.
        fixed = {key: item.value for key, item in self._preset.fixed.items()}
        values |= fixed
        values["split"] = merge_mappings(fixed.get("split", {}), split)
        for override in held:
            values = merge_mappings(values, override.then)
        further = {axis: item for axis, item in items.items() if axis not in AXES}
        # A choice, as `algorithm.local=fedprox`, comes before an axis that is one of its settings.
        outer = [
            change
            for change in self._preset.changes
            if isinstance(change.values[0], str | Mapping)
            and any(is_within(axis, change.axis) for axis in further)
        ]
        for change in outer:
            values = change.apply_to(values)
        for axis, item in further.items():
            values = set_key(values, axis.split("."), item.value, f"axis {axis}")
        for change in self._preset.changes:
            values = values if change in outer else change.apply_to(values)
        config = complete_config(values, self._data_dir)
        check_idle(config, values, self._preset.searched)
        return config

    def _replace_independent(self, template: RunConfig, items: Mapping[str, GivenValue]) -> RunConfig:
        """Replace the values of the `INDEPENDENT` axes in `template` by the run's own."""
        return template.with_values(
            **{axis: items[axis].value for axis in INDEPENDENT if not items[axis].is_default}
        )

    def _check_parts(self, run: RunConfig) -> None:
        """Check, without the images, that the split fits the data set, and that every key has an effect."""
        if run.dataset not in self._datasets:
            self._datasets[run.dataset] = find_dataset(run.dataset, self._data_dir)
        dataset = self._datasets[run.dataset]
        # Once for each split: what it needs to know of a folder or file of the user's takes long to read.
        if (run.scenario, run.split) not in self._checked:
            kinds.check_split(
                run.split_scenario, add_partition_facts(dataset, run.split), run.split, run.seed
            )
            self._checked.add((run.scenario, run.split))
        check_keys(run, dataset, self._preset.searched)

    @contextmanager
    def _locate_errors(self, items: Mapping[str, GivenValue], held: Sequence[Override]) -> Iterator[None]:
        """Put the line of the key at fault before an error of the block."""
        try:
            yield
        except ConfigError as error:
            key = find_key(error)
            place, value = self._find_place(key, items, held)
            with prefix_errors(place):
                if isinstance(value, list) and has_list_for_value(error):
                    raise ConfigError(f"{error}; {suggest_axis('.'.join(key), value)}", key) from error
                raise

    def _find_place(
        self, key: tuple[str, ...], items: Mapping[str, GivenValue], held: Sequence[Override]
    ) -> tuple[Place | None, Any]:
        """Find the line where a key, or the nearest one above it, got its value, and the key's value.

        The line is None for the command line, the value None for a key that was not given.
        """
        # In the order in which values replace each other: the last one that has the key gave the value.
        given: list[tuple[Mapping[str, Any], Place | None]] = [
            *(({axis: item.value}, item.place) for axis, item in items.items() if axis in AXES),
            *(({key: item.value}, item.place) for key, item in self._preset.fixed.items()),
            *(
                ({name: value}, override.place.locate_part(name))
                for override in held
                for name, value in override.then.items()
            ),
            *(
                (nest_keys({axis: item.value}), item.place)
                for axis, item in items.items()
                if axis not in AXES
            ),
            *((change.apply_to({}), None) for change in self._preset.changes),
        ]
        for length in range(len(key), 0, -1):
            for values, place in reversed(given):
                if value := find_value(values, key[:length]):
                    at_key = place.locate_part(*key[1:length]) if place else None
                    return at_key, value[0] if length == len(key) else None
        return None, None

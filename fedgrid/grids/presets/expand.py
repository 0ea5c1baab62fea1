"""From a grid's preset to the configurations of its runs; errors name file, line and key."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.dealing import kinds
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.configuration.idle_settings import check_idle, check_keys
from fedgrid.engine.runtime.configuration.validation import is_of_one_value, key_of
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.data.partition_files import facts_of
from fedgrid.grids.presets.axes import Item, Override, Preset, allows
from fedgrid.grids.presets.axis_keys import AXES, in_run_order
from fedgrid.grids.presets.nested import merge, nested, value_at, with_value
from fedgrid.grids.presets.yaml_file import Place, as_axis, at

INDEPENDENT = ("clients", "seed")
"""Axes on which no default of another key depends."""


def expand(preset: Preset, data_dir: Path) -> tuple[RunConfig, ...]:
    """Return one configuration for every combination of the axes that is not excluded.

    Raises:
        ConfigError: if one of them is invalid, two of them are the same run, or none is left.
    """
    expander = _Expander(preset, data_dir)
    order = in_run_order(preset.axes)
    seen: dict[str, RunConfig] = {}
    for combination in product(*(preset.axes[axis] for axis in order)):
        values = dict(zip(order, combination, strict=True))
        labels = {axis: item.label for axis, item in values.items()}
        if any(allows(choice, labels) for choice in preset.excluded):
            continue
        run = expander.run(values)
        if run.run_id in seen:
            raise ConfigError(f"the same run twice: {run.name} ({run.run_id}); check the lists for repeats")
        seen[run.run_id] = run
    if not seen:
        raise ConfigError("no run is left: the file's `exclude` leaves out every combination")
    return tuple(seen.values())


class _Expander:
    """Makes runs. Costly steps, such as reading a folder of images, are done once for all that share them."""

    def __init__(self, preset: Preset, data_dir: Path) -> None:
        self._preset = preset
        self._data_dir = data_dir
        self._templates: dict[tuple[Item | Override, ...], RunConfig] = {}
        self._datasets: dict[str, Dataset] = {}
        self._checked: set[tuple[str, Split]] = set()

    def run(self, items: Mapping[str, Item]) -> RunConfig:
        """Return the run with these values of the axes; an error names the line of the key."""
        labels = {axis: item.label for axis, item in items.items()}
        held = tuple(override for override in self._preset.overrides if allows(override.when, labels))
        kind: tuple[Item | Override, ...] = (
            *(item for axis, item in items.items() if axis not in INDEPENDENT or item.is_default),
            *held,
        )
        with self._locate(items, held):
            if kind not in self._templates:
                self._templates[kind] = self._complete(items, held)
            run = self._vary(self._templates[kind], items)
            self._check_parts(run)
        return run

    def _complete(self, items: Mapping[str, Item], held: Sequence[Override]) -> RunConfig:
        values = {axis: item.value for axis, item in items.items() if axis in AXES}
        if items["clients"].is_default:
            del values["clients"]
        if not isinstance(values["algorithm"], Mapping):
            values["algorithm"] = {"name": values["algorithm"]}
        split = values["split"] if isinstance(values["split"], Mapping) else {"kind": values["split"]}
        if items["split"].is_default:
            split = {}
        values |= {key: value for key, (value, _) in self._preset.fixed.items()}
        values["split"] = merge(self._preset.fixed.get("split", ({}, None))[0], split)
        for override in held:
            values = merge(values, override.then)
        for axis, item in items.items():
            if axis not in AXES:
                values = with_value(values, axis.split("."), item.value, f"axis {axis}")
        for change in self._preset.changes:
            values = change.apply(values)
        config = complete(values, self._data_dir)
        check_idle(config, values, self._preset.searched)
        return config

    def _vary(self, template: RunConfig, items: Mapping[str, Item]) -> RunConfig:
        """Return `template` with the run's own values of the `INDEPENDENT` axes."""
        values = {key: getattr(template, key) for key in RunConfig.model_fields}
        axes = {axis: items[axis].value for axis in INDEPENDENT if not items[axis].is_default}
        return RunConfig(**{**values, **axes})

    def _check_parts(self, run: RunConfig) -> None:
        """Check, without the images, that the split fits the data set, and that every key acts."""
        if run.dataset not in self._datasets:
            self._datasets[run.dataset] = find(run.dataset, self._data_dir)
        dataset = self._datasets[run.dataset]
        if (run.scenario, run.split) not in self._checked:
            kinds.check(run.split_scenario, facts_of(dataset, run.split), run.split, run.seed)
            self._checked.add((run.scenario, run.split))
        check_keys(run, dataset, self._preset.searched)

    @contextmanager
    def _locate(self, items: Mapping[str, Item], held: Sequence[Override]) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            key = key_of(error)
            place, value = self._find(key, items, held)
            with at(place):
                if isinstance(value, list) and is_of_one_value(error):
                    raise ConfigError(f"{error}; {as_axis('.'.join(key), value)}", key) from error
                raise

    def _find(
        self, key: tuple[str, ...], items: Mapping[str, Item], held: Sequence[Override]
    ) -> tuple[Place | None, Any]:
        """Return the line where a key, or the nearest one above it, got its value, and the key's value.

        The line is None for the command line, the value None for a key that was not given.
        """
        given: list[tuple[Mapping[str, Any], Place | None]] = [
            *(({axis: item.value}, item.place) for axis, item in items.items() if axis in AXES),
            *(({name: value}, place) for name, (value, place) in self._preset.fixed.items()),
            *(
                ({name: value}, override.place.under(name))
                for override in held
                for name, value in override.then.items()
            ),
            *((nested({axis: item.value}), item.place) for axis, item in items.items() if axis not in AXES),
            *((change.apply({}), None) for change in self._preset.changes),
        ]
        for length in range(len(key), 0, -1):
            for values, place in reversed(given):
                if value := value_at(values, key[:length]):
                    at_key = place.under(*key[1:length]) if place else None
                    return at_key, value[0] if length == len(key) else None
        return None, None

"""From a grid's description to the configurations of its runs; errors name file, line and key."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.dealing import kinds
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.scenarios import Facts
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.configuration.idle_settings import check_idle
from fedgrid.engine.runtime.configuration.validation import explain, is_of_one_value, key_of
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.grids.presets.axes import Axes, Choice, Item, allows
from fedgrid.grids.presets.axis_keys import AXES, has, in_run_order
from fedgrid.grids.presets.changes import Change, with_value
from fedgrid.grids.presets.overrides import Override, merge
from fedgrid.grids.presets.yaml_file import Place, as_axis, at

INDEPENDENT = ("clients", "seed")
"""Axes on which no default of another key depends."""


@dataclass(frozen=True)
class Description:
    """A grid before it is expanded.

    A run's value of a key comes from the last of these that has it: `fixed`, `overrides`, axes other than
    `AXES`, `changes`.
    """

    axes: Axes
    fixed: Mapping[str, tuple[Any, Place]]
    """Keys that all runs share, each with its line."""
    overrides: tuple[Override, ...] = ()
    changes: tuple[Change, ...] = ()
    excluded: tuple[Choice, ...] = ()
    """Combinations that are no runs."""
    searched: frozenset[str] = frozenset()
    """Settings of the algorithm that a search will give other values."""

    def gives(self, key: str) -> bool:
        """Return whether the file or a change gives a key, such as `training.rounds`, to any of the runs."""
        first, *inner = path = key.split(".")
        return (
            key in self.axes
            or (first in self.fixed and has(self.fixed[first][0], inner))
            or any(has(override.then, path) for override in self.overrides)
            or any(has(change.apply({}), path) for change in self.changes)
        )


def expand(description: Description, data_dir: Path) -> tuple[RunConfig, ...]:
    """Return one configuration for every combination of the axes that is not excluded.

    Raises:
        ConfigError: if one of them is invalid, two of them are the same run, or none is left.
    """
    expander = Expander(description, data_dir)
    order = in_run_order(description.axes)
    seen: dict[str, RunConfig] = {}
    for combination in product(*(description.axes[axis] for axis in order)):
        values = dict(zip(order, combination, strict=True))
        labels = {axis: item.label for axis, item in values.items()}
        if any(allows(choice, labels) for choice in description.excluded):
            continue
        run = expander.run(values)
        if run.run_id in seen:
            raise ConfigError(f"the same run twice: {run.name} ({run.run_id}); check the lists for repeats")
        seen[run.run_id] = run
    if not seen:
        raise ConfigError("no run is left: the file's `exclude` leaves out every combination")
    return tuple(seen.values())


class Expander:
    """Makes runs. Costly steps, such as reading a folder of images, are done once for all that share them."""

    def __init__(self, description: Description, data_dir: Path) -> None:
        self._description = description
        self._data_dir = data_dir
        self._templates: dict[tuple[Item | Override, ...], RunConfig] = {}
        self._facts: dict[str, Facts] = {}
        self._checked: set[tuple[str, Split]] = set()

    def run(self, items: Mapping[str, Item]) -> RunConfig:
        """Return the run with these values of the axes.

        Raises:
            ConfigError: if it is invalid; names the line of the key.
        """
        labels = {axis: item.label for axis, item in items.items()}
        held = tuple(override for override in self._description.overrides if override.holds(labels))
        kind: tuple[Item | Override, ...] = (
            *(item for axis, item in items.items() if axis not in INDEPENDENT),
            *held,
        )
        with self._located(items, held):
            if kind not in self._templates:
                self._templates[kind] = self._complete(items, held)
            run = self._vary(self._templates[kind], items)
            self._check_split(run)
        return run

    def _complete(self, items: Mapping[str, Item], held: Sequence[Override]) -> RunConfig:
        values = {axis: item.value for axis, item in items.items() if axis in AXES}
        if not isinstance(values["algorithm"], Mapping):
            values["algorithm"] = {"name": values["algorithm"]}
        split = values["split"] if isinstance(values["split"], Mapping) else {"kind": values["split"]}
        values |= {key: value for key, (value, _) in self._description.fixed.items()}
        values["split"] = merge(self._description.fixed.get("split", ({}, None))[0], split)
        for override in held:
            values = merge(values, override.then)
        for axis, item in items.items():
            if axis not in AXES:
                values = with_value(values, axis.split("."), item.value, f"axis {axis}")
        for change in self._description.changes:
            values = change.apply(values)
        config = complete(values, self._data_dir)
        check_idle(config, values, self._description.searched)
        return config

    def _vary(self, template: RunConfig, items: Mapping[str, Item]) -> RunConfig:
        """Return `template` with the run's own values of the `INDEPENDENT` axes."""
        values = {key: getattr(template, key) for key in RunConfig.model_fields}
        axes = {axis: items[axis].value for axis in INDEPENDENT}
        try:
            return RunConfig(**{**values, **axes})
        except ValidationError as error:
            raise explain(error, RunConfig) from error

    def _check_split(self, run: RunConfig) -> None:
        """Check, without the images, that the data set has enough classes and clients for the split."""
        if (run.scenario, run.split) in self._checked:
            return
        if run.dataset not in self._facts:
            self._facts[run.dataset] = Facts.of(find(run.dataset, self._data_dir))
        kinds.check(run.split_scenario, self._facts[run.dataset], run.split, run.seed)
        self._checked.add((run.scenario, run.split))

    @contextmanager
    def _located(self, items: Mapping[str, Item], held: Sequence[Override]) -> Iterator[None]:
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
        given: list[tuple[str, Any, Place | None]] = [
            *((axis, item.value, item.place) for axis, item in items.items() if axis in AXES),
            *((name, value, place) for name, (value, place) in self._description.fixed.items()),
            *(
                (name, value, override.place.under(name))
                for override in held
                for name, value in override.then.items()
            ),
            *(
                ((path := axis.split("."))[0], with_value({}, path, item.value, axis)[path[0]], item.place)
                for axis, item in items.items()
                if axis not in AXES
            ),
            *(
                (change.keys[0], change.apply({})[change.keys[0]], None)
                for change in self._description.changes
            ),
        ]
        for length in range(len(key), 0, -1):
            for name, value, place in reversed(given):
                if name == key[0] and has(value, inner := key[1:length]):
                    found = reduce(getitem, inner, value) if length == len(key) else None
                    return place.under(*inner) if place else None, found
        return None, None

"""From a grid's description to the configurations of its runs; errors name the place of the key."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedgrid.engine.data.datasets import find
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.explain import explain, key_of
from fedgrid.engine.partition import majority
from fedgrid.engine.partition.deal import class_shares
from fedgrid.engine.partition.groups import class_sets, cluster_sizes
from fedgrid.engine.partition.scenarios import Scenario
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.run_config import RunConfig, complete
from fedgrid.grids.presets.axes import AXES, Axes, Item
from fedgrid.grids.presets.changes import Change
from fedgrid.grids.presets.overrides import Override, merge
from fedgrid.grids.presets.yaml_file import Place, at


@dataclass(frozen=True)
class Description:
    """Everything that makes a grid, nothing expanded yet."""

    axes: Axes
    fixed: Mapping[str, tuple[Any, Place]]
    """The other keys of a run, each with its place."""
    overrides: tuple[Override, ...] = ()
    changes: tuple[Change, ...] = ()


def expand(description: Description, data_dir: Path) -> tuple[RunConfig, ...]:
    """Return one configuration for every combination of the axes.

    Raises:
        ConfigError: if one of them cannot be, or two of them are the same run.
    """
    expander = Expander(description, data_dir)
    seen: dict[str, RunConfig] = {}
    for combination in product(*(description.axes[axis] for axis in AXES)):
        run = expander.run(dict(zip(AXES, combination, strict=True)))
        if run.run_id in seen:
            raise ConfigError(f"the same run twice: {run.name} ({run.run_id}); check the lists for repeats")
        seen[run.run_id] = run
    return tuple(seen.values())


class Expander:
    """Makes runs; what is costly (a folder of own images is looked through) once for all that share it."""

    def __init__(self, description: Description, data_dir: Path) -> None:
        self._description = description
        self._data_dir = data_dir
        self._templates: dict[tuple[Item, Item, Item, tuple[Override, ...]], RunConfig] = {}
        self._num_classes: dict[str, int] = {}
        self._checked: set[tuple[str, Split]] = set()

    def run(self, items: Mapping[str, Item]) -> RunConfig:
        """Return the run with these values of the axes.

        Raises:
            ConfigError: if it cannot be; names the place of the key.
        """
        template, held = self.complete(items)
        with self._located(items, held):
            run = _vary(template, items)
            self._check_split(run)
        return run

    def complete(self, items: Mapping[str, Item]) -> tuple[RunConfig, tuple[Override, ...]]:
        """Return a run with this data set, overlap and algorithm, and the overrides that hold for the values.

        Raises:
            ConfigError: for a key or value that does not exist; names its place.
        """
        labels = {axis: item.label for axis, item in items.items()}
        held = tuple(override for override in self._description.overrides if override.holds(labels))
        kind = (items["dataset"], items["overlap"], items["algorithm"], held)
        if kind not in self._templates:
            with self._located(items, held):
                self._templates[kind] = self._complete(items, held)
        return self._templates[kind], held

    def _complete(self, items: Mapping[str, Item], held: Sequence[Override]) -> RunConfig:
        values = {axis: item.value for axis, item in items.items()}
        if not isinstance(values["algorithm"], Mapping):
            values["algorithm"] = {"name": values["algorithm"]}
        values |= {key: value for key, (value, _) in self._description.fixed.items()}
        for override in held:
            values = merge(values, override.then)
        for change in self._description.changes:
            values = change.apply(values)
        return complete(values, self._data_dir)

    def _check_split(self, run: RunConfig) -> None:
        """Check, without the images, that the split asks for no more than there is."""
        if (run.scenario, run.split) in self._checked:
            return
        if run.dataset not in self._num_classes:
            self._num_classes[run.dataset] = find(run.dataset, self._data_dir).num_classes
        num_classes = self._num_classes[run.dataset]
        scenario = Scenario(run.dataset.partition(":")[0], run.overlap, run.balance, run.clients)
        majority.check(scenario, num_classes, run.split)
        if run.overlap != "majority":
            _check_clusters(scenario, num_classes, run)
        self._checked.add((run.scenario, run.split))

    @contextmanager
    def _located(self, items: Mapping[str, Item], held: Sequence[Override]) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            with at(self._find(key_of(error), items, held)):
                raise

    def _find(
        self, key: tuple[str, ...], items: Mapping[str, Item], held: Sequence[Override]
    ) -> Place | None:
        """Return where a key, or the nearest one above it, got its value; None is the command line."""
        given: list[tuple[str, Any, Place | None]] = [
            *((axis, item.value, item.place) for axis, item in items.items()),
            *((name, value, place) for name, (value, place) in self._description.fixed.items()),
            *(
                (name, value, override.place.under(name))
                for override in held
                for name, value in override.then.items()
            ),
            *(
                (change.keys[0], change.apply({})[change.keys[0]], None)
                for change in self._description.changes
            ),
        ]
        for length in range(len(key), 0, -1):
            for name, value, place in reversed(given):
                if name == key[0] and _has(value, key[1:length]):
                    return place.under(*key[1:length]) if place else None
        return None


def _check_clusters(scenario: Scenario, num_classes: int, run: RunConfig) -> None:
    split = run.split
    with _about(f"split.num_clusters = {split.num_clusters}: ", "split", "num_clusters"):
        class_sets(num_classes, split.num_clusters, run.overlap)
    with _about(f"clients = {run.clients}: ", "clients"):
        cluster_sizes(run.clients, split.num_clusters, run.balance)
    if split.proportions == "published":
        with _about("", "split", "proportions"):
            class_shares(scenario, [1] * num_classes, split, run.seed)


def _has(value: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _vary(template: RunConfig, items: Mapping[str, Item]) -> RunConfig:
    """Return a run that differs from `template` in the axes that nothing else depends on."""
    values = {key: getattr(template, key) for key in RunConfig.model_fields}
    axes = {axis: items[axis].value for axis in AXES if axis not in ("dataset", "overlap", "algorithm")}
    try:
        return RunConfig(**{**values, **axes})
    except ValidationError as error:
        raise explain(error, RunConfig) from error


@contextmanager
def _about(prefix: str, *key: str) -> Iterator[None]:
    """Say which key an error in the block is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}", key) from error

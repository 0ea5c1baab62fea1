"""What an arena is: its methods, where they are tuned and run, and the two fine-tuning protocols."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from fedgrid.engine.federation.data.names import short_name
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.arena.families import (
    Families,
    Item,
    Preset,
    allow_families,
    members,
    open_preset,
    with_axes,
)
from fedgrid.grids.arena.kept import in_files
from fedgrid.grids.arena.methods import (
    adapt_settings,
    default,
    is_reference,
    methods_of,
    parse_methods,
    plays,
    title_of,
    told_of,
)
from fedgrid.grids.presets.load import Grid, RunConfig, load_grid
from fedgrid.grids.presets.nested import merge, nested
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, SETTINGS, Protocol, RowOfArena, Settings

__all__ = ["BUDGET", "FAMILIES", "TUNING", "Arena", "RunConfig", "family_of", "load_arena"]

Params = Mapping[str, Any]
"""Settings of an algorithm, by their keys with dots."""
FAMILIES, TUNING = (Path(__file__).with_name(name) for name in ("families.yaml", "tuning.yaml"))
BUDGET = 45
"""Steps of fine-tuning, a batch each, unless the user says how many: of every method alike, or of none."""
WITH_GROUPS = (
    "nonoverlapping-balanced",
    "nonoverlapping-imbalanced",
    "overlapping-balanced",
    "overlapping-imbalanced",
    "rotated",
    "flipped",
)
"""Families whose hidden groups are there to be found. Those of label skew share their labels."""
DATASET = "digits"
OURS = "evident-groups"
"""fedgrid's own method, of which the verdict is where the user has none."""


@dataclass(frozen=True)
class Arena:
    """What a command line asks for."""

    name: str
    dataset: str
    methods: tuple[str, ...]
    """Ids, references last."""
    subjects: tuple[str, ...]
    """The methods that verdicts are about."""
    trials: int
    data_dir: Path
    changes: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    seeds: str | None = None
    tuned_on: str | None = None
    """The data set of the searches, if it is another one."""
    budget: int = BUDGET
    """Steps of fine-tuning."""

    @cached_property
    def tuning(self) -> "Arena":
        """The arena whose searches find the settings: this one, or that of `tuned_on`, without changes."""
        if self.tuned_on is None:
            return self
        return replace(self, name=_name(self.tuned_on), dataset=self.tuned_on, changes=(), tuned_on=None)

    @property
    def dataset_in_files(self) -> str:
        """The data set as the files of outcomes and settings name it."""
        return in_files(self.dataset)

    @property
    def competitors(self) -> tuple[str, ...]:
        """The methods that are tuned and ranked."""
        return tuple(name for name in self.methods if not is_reference(name))

    @cached_property
    def families(self) -> Families:
        """The scenarios and seeds, with the methods' default settings."""
        return allow_families(FAMILIES, self._load)

    @cached_property
    def tuning_families(self) -> Families:
        """The scenarios of the searches."""
        return allow_families(TUNING, self._load)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Why families that the files have cannot be had of these images, in words."""
        return (*self.families.left_out, *self.tuning.tuning_families.left_out)

    @cached_property
    def rounds(self) -> int:
        """Rounds of the shortest run."""
        return min(run.training.rounds for run in self._runs({"name": "fedavg"}))

    def entries(self, tuned: Mapping[str, Params]) -> list[tuple[RowOfArena, RunConfig]]:
        """Return every row of the arena with its run; several rows may have the same run.

        A competitor that `tuned` lacks has rows with its defaults only, as references have.
        """
        return [
            (_row(method, settings, protocol, run), run)
            for method in self.methods
            for settings in SETTINGS
            for protocol in PROTOCOLS
            if (settings == "default" or method in tuned) and plays(method, protocol)
            for run in self._runs(self.section(method, tuned.get(method, {}), settings, protocol))
        ]

    def section(self, method: str, params: Params, settings: Settings, protocol: Protocol) -> dict[str, Any]:
        """Return the section `algorithm` of a row's runs."""
        own = nested(params) if settings == "tuned" else {}
        merged: dict[str, Any] = merge(
            merge(default(method), own), adapt_settings(method, protocol, self.budget)
        )
        return merged

    def grid(self, entries: Sequence[tuple[RowOfArena, RunConfig]], tuned: Mapping[str, Params]) -> Grid:
        """Return the runs of these rows as one grid."""
        runs = {run.run_id: run for _, run in entries}
        return Grid(self.name, tuple(runs.values()), self.text(tuned), source="fedgrid arena")

    def text(self, tuned: Mapping[str, Params]) -> str:
        """Return the arena as YAML: the families' file with all sections, equal ones once."""
        sections = [
            self.section(method, tuned.get(method, {}), settings, protocol)
            for method in self.methods
            for settings in SETTINGS
            for protocol in PROTOCOLS
            if plays(method, protocol)
        ]
        unique = {repr(section): section for section in sections}
        values = open_preset(str(FAMILIES)).values
        given = {"dataset": self.dataset, "split": {**values["split"], "kind": self.families.splits}}
        given |= {"algorithm": [*unique.values()], **({"seeds": self.seeds} if self.seeds else {})}
        return yaml.safe_dump({**values, **given}, sort_keys=False)

    def _runs(self, section: Mapping[str, Any]) -> tuple[RunConfig, ...]:
        preset = with_axes(self.families.preset, algorithm=(Item(section),))
        return self._load(preset, self.filters, self.seeds).runs

    def _load(self, preset: Preset, filters: Sequence[str] = (), seeds: str | None = None) -> Grid:
        options = {"dataset": self.dataset}
        return load_grid(
            preset, options, self.changes, self.data_dir, filters=filters, seeds=seeds, name=self.name
        )


def load_arena(
    name: str | None,
    dataset: str | None,
    methods: Sequence[str],
    own: Sequence[Path],
    trials: int,
    data_dir: Path,
    *,
    changes: Sequence[str] = (),
    filters: Sequence[str] = (),
    seeds: str | None = None,
    tuned_on: str | None = None,
    budget: int = BUDGET,
) -> Arena:
    """Return the arena that a command line describes; the plugins in `own` are in use already.

    Args:
        name: of its grid; the default has the data set's.
        dataset: digits by default.
        methods: ids, several between commas; default: those whose entries say that they are in it.
        own: files with the user's own methods, which verdicts are about.
        trials: settings that are tried for each method.
        tuned_on: the data set on which they are tried; default: `dataset`. `changes` are not made there.
        budget: steps of fine-tuning.
        data_dir, changes, filters, seeds: as in `load_grid`.

    Raises:
        ConfigError: for an unknown method, or a file without one.
    """
    named = parse_methods(methods)
    mine = methods_of(own)
    chosen = dict.fromkeys((*(named or members()), *mine))
    rivals = [method for method in chosen if not is_reference(method)]
    if len(rivals) < 2:
        raise ConfigError(
            f"an arena of {', '.join(chosen)}: a verdict takes two methods that are no references; "
            "name more with --algorithms"
        )
    ordered = sorted(chosen, key=is_reference)
    subjects = mine or ((OURS,) if OURS in chosen else (rivals[0],))
    return Arena(
        name or _name(dataset or DATASET),
        dataset or DATASET,
        tuple(ordered),
        tuple(subjects),
        trials,
        data_dir,
        tuple(changes),
        tuple(filters),
        seeds,
        tuned_on,
        budget,
    )


def family_of(run: RunConfig) -> str:
    """Return the kind of a run's split, with the sizes of its groups if these are given."""
    sizes = run.split.sizes
    return run.split.kind if sizes is None else f"{run.split.kind} {'+'.join(map(str, sizes))}"


def _name(dataset: str) -> str:
    return f"arena-rows-{short_name(dataset)}"


def _row(method: str, settings: Settings, protocol: Protocol, run: RunConfig) -> RowOfArena:
    has_groups = run.split.kind in WITH_GROUPS
    family = family_of(run)
    return RowOfArena(method, title_of(method), settings, protocol, family, has_groups, told_of(method))

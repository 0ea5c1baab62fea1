"""What an arena is: its methods, where they are tuned and judged, and the two fine-tuning protocols."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.names import has_target, shorten_name
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.arena.families import (
    DATASET,
    TRAINING,
    Family,
    build_base_runs,
    build_run,
    find_members,
    judged_families,
    parse_families,
    tuning_families,
)
from fedgrid.grids.arena.methods import (
    build_adapt_settings,
    default_section,
    find_comparable_method,
    find_own_methods,
    group_count_settings,
    has_rows,
    parse_methods,
)
from fedgrid.grids.arena.stored_results import dataset_file_name
from fedgrid.grids.presets.axes import Change
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.presets.nested_values import merge_mappings, nest_keys
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, ArenaRow, Protocol, Settings
from fedgrid.tracking.verdicts.verdict import OWN_METHOD

Params = Mapping[str, Any]
"""Settings of an algorithm, by their keys with dots."""
Tuned = Mapping[tuple[str, Protocol], Params]
"""Method and protocol -> the settings that its search has selected."""
VERSION = 1
"""Version of families, seeds, protocols and budgets, which two arenas must share to be compared."""
BUDGET = 45
"""Steps of fine-tuning, a batch each, by default. Every method gets the same number, or none."""
SEEDS = "5000..5001"
"""Seeds that are used for nothing else, so that no method was developed on them."""
NULL_SEEDS = "5000..5009"
TUNING_SEED = "900"
TESTS = 4
"""Number of rounds with a test, evenly spread; a test of fine-tuned clients costs as much as seven rounds."""
ALWAYS = ("fedavg", "solo", "oracle")
"""Methods that always take part: one model for all (fine-tuned: FedAvg-FT), each client alone, and FedAvg in
each hidden group."""


@dataclass(frozen=True)
class Arena:
    """The arena that a command line describes."""

    name: str
    dataset: str
    methods: tuple[str, ...]
    """Ids of methods, references last."""
    subjects: tuple[str, ...]
    """Methods that verdicts are about."""
    trials: int
    data_dir: Path
    changes: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Names of families; all families if empty."""
    seeds: str = SEEDS
    budget: int = BUDGET
    """Steps of fine-tuning."""
    is_null: bool = False
    """Whether it only measures how often clients without groups are split."""
    unfit: tuple[str, ...] = ()
    """Reasons why the data set allows no runs of a method."""

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """Protocols under which methods are tuned and run."""
        return PROTOCOLS[:1] if self.is_null else PROTOCOLS

    @property
    def dataset_in_files(self) -> str:
        """Name of the data set in the files of outcomes and settings."""
        return dataset_file_name(self.dataset)

    @property
    def competitors(self) -> tuple[str, ...]:
        """Methods that are tuned and ranked."""
        return tuple(name for name in self.methods if not ALGORITHMS[name].is_reference)

    @cached_property
    def _judged_runs(self) -> tuple[dict[Family, tuple[RunConfig, ...]], list[str]]:
        """Runs of FedAvg by family that methods are judged on, and why other families have none."""
        chosen = [one for one in judged_families(self.dataset) if not self.only or one.name in self.only]
        return self._build_base_runs(chosen, self.seeds)

    @property
    def families(self) -> Mapping[Family, tuple[RunConfig, ...]]:
        """Families that the data set allows, each with its runs of FedAvg, one for each seed."""
        return self._judged_runs[0]

    @cached_property
    def _tuning_runs(self) -> tuple[dict[Family, tuple[RunConfig, ...]], list[str]]:
        """Runs of FedAvg by family that searches use, and why other families have none."""
        return self._build_base_runs(tuning_families(), TUNING_SEED, ["split.scored_on=validation"])

    @property
    def exclusion_notes(self) -> tuple[str, ...]:
        """Reasons why the data set allows no runs of a method or a family."""
        places: dict[tuple[str, str], list[str]] = {}
        for (method, family), reason in self._refusals.items():
            places.setdefault((method, reason.partition(";")[0]), []).append(family)
        refused = (f"{method} is not in {', '.join(names)}: {why}" for (method, why), names in places.items())
        return (*self.unfit, *self._judged_runs[1], *self._tuning_runs[1], *refused)

    @cached_property
    def _refusals(self) -> Mapping[tuple[str, str], str]:
        """Reason why a method cannot run in a family, by method and family.

        Raises:
            ConfigError: One of `subjects` can run in no family.
        """
        refused = {}
        for method in self.methods or self.subjects:
            for family, runs in {**self.families, **self._tuning_runs[0]}.items():
                try:
                    # One run stands for all seeds: what an algorithm can do does not depend on the seed.
                    self._build_run(runs[0], self._build_section(family, method, {}, PROTOCOLS[0]))
                except ConfigError as error:
                    refused[method, family.name] = str(error)
                    problem = error
            everywhere = all((method, family.name) in refused for family in self.families)
            if everywhere and method in self.subjects:
                raise problem
        return refused

    @property
    def judged_seeds(self) -> set[int]:
        """Seeds that methods are judged on."""
        return {run.seed for runs in self.families.values() for run in runs}

    def build_tuning_runs(self, method: str, protocol: Protocol) -> tuple[RunConfig, ...]:
        """Build the runs of a trial with a method's default settings."""
        return tuple(
            # Searches score the last round only, so that there is no test before it.
            self._build_run(base, self._build_section(family, method, {}, protocol), every=10**6)
            for family, runs in self._tuning_runs[0].items()
            if (method, family.name) not in self._refusals
            for base in runs
        )

    def build_entries(self, tuned: Tuned) -> list[tuple[ArenaRow, RunConfig]]:
        """Build every row of the arena with its run; several rows may have the same run.

        A competitor that `tuned` lacks has no row.
        """
        return [
            (self._build_row(family, method, protocol), run)
            for method in self.methods
            for protocol in self.protocols
            if has_rows(method, protocol) and (ALGORITHMS[method].is_reference or (method, protocol) in tuned)
            for family, runs in self.families.items()
            if (method, family.name) not in self._refusals
            for section in [self._build_section(family, method, tuned.get((method, protocol), {}), protocol)]
            for run in (self._build_run(base, section) for base in runs)
        ]

    def build_grid(self, entries: Sequence[tuple[ArenaRow, RunConfig]]) -> Grid:
        """Build one grid of the runs of these rows."""
        runs = {run.run_id: run for _, run in entries}
        text = {"arena": VERSION, "dataset": self.dataset, "seeds": self.seeds, "methods": list(self.methods)}
        text |= {"families": [family.name for family in self.families]}
        return Grid(
            self.name, tuple(runs.values()), yaml.safe_dump(text, sort_keys=False), source="fedgrid arena"
        )

    def _build_section(
        self, family: Family, method: str, params: Params, protocol: Protocol
    ) -> dict[str, Any]:
        """Build the section `algorithm` of a method's runs."""
        settings = nest_keys({**group_count_settings(method, family.group_count), **params})
        adapted = build_adapt_settings(method, protocol, self.budget)
        merged: dict[str, Any] = merge_mappings(merge_mappings(default_section(method), settings), adapted)
        return merged

    def _build_run(self, base: RunConfig, section: Mapping[str, Any], every: int | None = None) -> RunConfig:
        """Build a method's run from FedAvg's in the same family."""
        return build_run(base, section, every or max(1, base.training.rounds // TESTS), self.data_dir)

    def _build_base_runs(
        self, chosen: Iterable[Family], seeds: str, decided: Sequence[str] = ()
    ) -> tuple[dict[Family, tuple[RunConfig, ...]], list[str]]:
        """Build the runs of FedAvg in families, with the arena's data set and changes."""
        shared = {"dataset": self.dataset, "training": TRAINING.get(self.dataset, {}), "seeds": seeds}
        return build_base_runs(chosen, shared, [*self.changes, *decided], self.data_dir)

    def _build_row(self, family: Family, method: str, protocol: Protocol) -> ArenaRow:
        """Build the row of a method under a protocol in a family."""
        entry = ALGORITHMS[method]
        settings: Settings = "default" if entry.is_reference else "tuned"
        has_groups = family.num_groups > 0
        return ArenaRow(method, entry.title, settings, protocol, family.name, has_groups, entry.told)


def load_arena(
    name: str | None,
    dataset: str | None,
    methods: Sequence[str],
    own: Sequence[Path],
    trials: int,
    data_dir: Path,
    *,
    changes: Sequence[str] = (),
    only: Sequence[str] = (),
    seeds: str | None = None,
    budget: int = BUDGET,
    blind: bool = False,
    null: bool = False,
) -> Arena:
    """Build the arena that a command line describes.

    Args:
        name: Name of its grid; the default has the data set's.
        dataset: Data set, digits by default.
        methods: Ids, several between commas; by default those whose entries say that they are in it. FedAvg
            and the references always take part.
        own: Files with the user's own methods, which verdicts are about; their plugins are in use already.
        trials: Number of trials for each method and protocol.
        data_dir: Folder of the data sets.
        changes: Overrides, as in `load_grid`; none by default.
        only: Names of families, several between commas; by default all.
        seeds: Seeds as in `load_grid`, by default `SEEDS`.
        budget: Steps of fine-tuning, 45 by default.
        blind: Whether the seeds are drawn from the digests of `own` and the arena's version; False by
            default.
        null: Whether only families without groups are run, with ten seeds, and of methods only `own`, those
            that are named, or fedgrid's own; False by default.

    Raises:
        ConfigError: A method or family does not exist, or a file has no method.
    """
    if has_target(dataset or DATASET):
        raise ConfigError(f"the arena judges accuracy, which needs classes; {dataset} has numbers to predict")
    for change in map(Change.from_text, changes):
        if change.gives_axis:
            raise ConfigError(f"{change.text}: an arena has one value of each key; give one")
    named = parse_methods(methods)
    mine = find_own_methods(own)
    if blind and (seeds is not None or not own):
        raise ConfigError("--blind draws the seeds from the file of --with: give that, and leave out --seeds")
    arena = Arena(
        name or _default_name(dataset or DATASET),
        dataset or DATASET,
        mine or tuple(named) or (OWN_METHOD,),
        (),
        trials,
        data_dir,
        tuple(changes),
        parse_families(only, dataset or DATASET),
        compute_blind_seeds(own) if blind else seeds or SEEDS,
        budget,
    )
    if null:
        names = [family.name for family in judged_families(arena.dataset) if not family.num_groups]
        only_null = tuple(name for name in names if not arena.only or name in arena.only)
        if not only_null:
            raise ConfigError(
                f"--null asks for families without groups; --families has none of: {', '.join(names)}"
            )
        return replace(arena, only=only_null, seeds=seeds or NULL_SEEDS, is_null=True)
    able, unfit = (named, []) if named else find_members(arena.dataset, data_dir)
    # Each method once, in the order of the tables.
    chosen = dict.fromkeys((*able, *mine, *ALWAYS))
    rivals = [method for method in chosen if not ALGORITHMS[method].is_reference]
    references = [method for method in chosen if ALGORITHMS[method].is_reference]
    if len(rivals) < 2:
        raise ConfigError(
            f"an arena of {', '.join(chosen)}: a verdict takes two methods that are no references; "
            "name more with --algorithms"
        )
    subjects = mine or ((OWN_METHOD,) if OWN_METHOD in chosen else (find_comparable_method(rivals),))
    return replace(arena, methods=(*rivals, *references), subjects=subjects, unfit=tuple(unfit))


def compute_blind_seeds(own: Sequence[Path]) -> str:
    """Compute seeds that nobody could have tuned on: they change with every change of the files."""
    text = json.dumps([VERSION, *(sha256(path.read_bytes()).hexdigest() for path in own)])
    digest = sha256(text.encode()).digest()
    # Two seeds of three bytes of the digest, above a million and so apart from the seeds of presets.
    return ",".join(str(10**6 + int.from_bytes(digest[at : at + 3], "big")) for at in (0, 3))


def _default_name(dataset: str) -> str:
    """Build the default name of an arena's grid."""
    return f"arena-rows-{shorten_name(dataset)}"

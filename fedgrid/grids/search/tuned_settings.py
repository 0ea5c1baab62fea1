"""The option `--tuned`: the best settings of searches, for the same algorithm and data set in a grid."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.axes import Override
from fedgrid.grids.presets.axis_keys import format_axis_value
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.presets.yaml_file import Place, YamlFile, split_at_commas
from fedgrid.grids.results.grid_folder import GRIDS, SEARCH_RESULT
from fedgrid.grids.search.files import read_results
from fedgrid.grids.search.objectives import LABEL_FREE, ORACLE
from fedgrid.grids.search.space import TRAINING, build_sections
from fedgrid.tracking.scoring.selection import format_value

KINDS = {"": LABEL_FREE, ORACLE: ORACLE}
"""What may follow a search's name and a colon -> kind of best trial."""


@dataclass(frozen=True)
class TunedSettings:
    """The best settings of a search."""

    text: str
    """Text as typed: `sattler-mnist`, `sattler-mnist:oracle`."""
    kind: str
    algorithm: str
    datasets: tuple[str, ...]
    best: dict[str, Any]
    place: Place

    @property
    def override(self) -> Override:
        """The settings as an override of a preset."""
        when = {"algorithm": frozenset([self.algorithm]), "dataset": frozenset(self.datasets)}
        return Override(when, build_sections(self.best["params"]), self.place)

    def applies_to(self, run: RunConfig) -> bool:
        """Check whether the settings apply to a run."""
        return run.algorithm.name == self.algorithm and run.dataset in self.datasets

    @property
    def note(self) -> str:
        """The comment about the settings in a grid's preset."""
        of = "oracle: chosen by the hidden groups" if self.kind == ORACLE else f"by {self.best['by']}"
        settings = yaml.safe_dump(self.best["params"], default_flow_style=True, sort_keys=False, width=1000)
        return f"# tuned: {self.text}, trial {self.best['trial']} ({of}): {settings.strip()}\n"


def read_tuned(given: Sequence[str], storage: Storage) -> list[TunedSettings]:
    """Read the settings that `--tuned NAME[:oracle],...` names.

    Raises:
        ConfigError: There is no such search, it is not complete, or it has no best trial.
    """
    names = [name for text in given for name in split_at_commas(text, f"--tuned {text}")]
    if names:
        storage.pull_marks()
    settings = [_read_best(name, storage) for name in names]
    for position, one in enumerate(settings):
        # Two searches would set the same keys of the same runs, and their order would decide.
        for other in settings[:position]:
            if one.algorithm == other.algorithm and set(one.datasets) & set(other.datasets):
                raise ConfigError(
                    f"--tuned: {other.text} and {one.text} are both of {one.algorithm} on "
                    f"{', '.join(sorted({*one.datasets} & {*other.datasets}))}; leave one out"
                )
    return settings


def add_notes(grid: Grid, tuned: Sequence[TunedSettings]) -> Grid:
    """Add a comment to a grid's preset for each search, and a note on each tuned training.

    Raises:
        ConfigError: A search applies to none of its runs.
    """
    for one in tuned:
        if not any(one.applies_to(run) for run in grid.runs):
            raise ConfigError(
                f"--tuned {one.text}: no run of {one.algorithm} on {' or '.join(one.datasets)} in this grid; "
                "leave it out"
            )
    notes = [note for one in tuned for note in _describe_training(grid, one)]
    # The preset is the grid's text, in which a comment must start a line.
    newline = "" if not tuned or grid.text.endswith("\n") else "\n"
    text = grid.text + newline + "".join(one.note for one in tuned)
    return replace(grid, text=text, notes=(*grid.notes, *notes))


def _describe_training(grid: Grid, tuned: TunedSettings) -> Iterator[str]:
    """Yield how other algorithms on the same data train otherwise than the tuned one."""
    for key, value in tuned.best["params"].items():
        if key.startswith(TRAINING):
            runs = [run for run in grid.runs if run.dataset in tuned.datasets and not tuned.applies_to(run)]
            others = dict.fromkeys(str(format_axis_value(run, key)) for run in runs)
            others.pop(format_value(value), None)
            if others:
                own = f"{tuned.algorithm} trains with {key} {format_value(value)}"
                yield f"--tuned {tuned.text}: {own}, other algorithms with {', '.join(others)}"


def _read_best(text: str, storage: Storage) -> TunedSettings:
    """Read the best settings of one search."""
    name, _, kind = text.partition(":")
    if kind not in KINDS:
        raise unknown_name_error("kind of best", kind, [key for key in KINDS if key])
    results = read_results(name, storage)
    if not results["complete"]:
        raise ConfigError(
            f"--tuned {text}: {results['trials_done']} of {results['trials_asked']} trials are done; repeat "
            "the search's command to complete it"
        )
    if KINDS[kind] not in results["best"]:
        raise ConfigError(f"--tuned {text}: no trial of this search has a score to choose by")
    source = (storage.root / GRIDS / name / SEARCH_RESULT).read_bytes()
    place = Place(YamlFile(f"{name}/{SEARCH_RESULT}", source), ("best", KINDS[kind], "params"))
    return TunedSettings(
        text,
        KINDS[kind],
        results["algorithm"],
        tuple(results["datasets"]),
        results["best"][KINDS[kind]],
        place,
    )

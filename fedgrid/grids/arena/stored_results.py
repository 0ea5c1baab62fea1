"""An arena's results: outcomes of rows, and tuned settings.

Those of the built-in methods come with the package, as CSV; the others are computed.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.names import shorten_name
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.study import load
from fedgrid.redaction import format_csv
from fedgrid.tracking.scoring.study import replace_special_characters
from fedgrid.tracking.verdicts import outcomes as outcome_files
from fedgrid.tracking.verdicts.outcomes import ArenaRow, Outcome, Protocol, build_outcome, has_diverged

FOLDER = Path(__file__).with_name("kept")
OUTCOMES, SETTINGS = "outcomes.csv", "tuning.csv"


@dataclass(frozen=True)
class TunedMethod:
    """The settings that a search has selected for a method; empty for a method without a space.

    It is shown as JSON and has a line in `tuning.csv`.
    """

    dataset: str
    method: str
    protocol: Protocol
    trials: int
    """Number of trials of the search."""
    trial: int
    """Number of the best trial; 0 is that of the defaults, which stand too if there was nothing to tune."""
    validation: float
    """Its score: mean personalised accuracy on validation images."""
    params: Mapping[str, Any]
    search: str
    """Digest of everything that the search depends on except the number of trials."""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Data set, method, protocol and number of trials."""
        return self.dataset, self.method, self.protocol, self.trials


COLUMNS: Mapping[str, Callable[[str], Any]] = {
    "dataset": str,
    "method": str,
    "protocol": str,
    "trials": int,
    "trial": int,
    "validation": float,
    "settings": json.loads,
    "search": str,
}
"""Column of the file of settings -> how it is read, in the order of the fields of `TunedMethod`."""


@dataclass(frozen=True)
class StoredResults:
    """Results that need not be computed again."""

    outcomes: Mapping[tuple[str, str, str, str, str, int], Outcome] = field(default_factory=dict)
    """Outcomes by `Outcome.key`."""
    tuned: Mapping[tuple[str, str, str, int], TunedMethod] = field(default_factory=dict)
    """Settings by `TunedMethod.key`."""

    def find_settings(self, key: tuple[str, str, str, int], search: str) -> TunedMethod | None:
        """Find the settings that a search with this digest has selected, None if they are not stored."""
        tuned = self.tuned.get(key)
        # Another digest is another space, objective or set of runs.
        return tuned if tuned is not None and tuned.search == search else None

    def find_outcome(self, row: ArenaRow, run: RunConfig, dataset: str) -> Outcome | None:
        """Find the outcome of a run in a row, None if it is not stored or of another run."""
        outcome = self.outcomes.get((row.method, row.settings, row.protocol, dataset, row.family, run.seed))
        # Another id is another run: an override, or a change of the arena.
        return outcome if outcome is not None and outcome.run_id == run.run_id else None

    def explain_losses(self, dataset: str, seeds: Iterable[int], trials: int) -> tuple[str, ...]:
        """Explain why other seeds or another number of trials compute more instead of less."""
        row_seeds = sorted({outcome.seed for outcome in self.outcomes.values() if outcome.dataset == dataset})
        search_trials = sorted({tuned.trials for tuned in self.tuned.values() if tuned.dataset == dataset})
        notes = []
        if row_seeds and not set(seeds) & set(row_seeds):
            names = ", ".join(map(str, row_seeds))
            notes.append(f"rows are kept of seeds {names}: with others all methods are run, not yours alone")
        if search_trials and trials not in search_trials:
            names = " or ".join(map(str, search_trials))
            notes.append(f"settings are kept of {names} trials: with {trials} all methods are tuned and run")
        return tuple(notes)

    def split_entries(
        self, entries: Sequence[tuple[ArenaRow, RunConfig]]
    ) -> tuple[list[Outcome], list[tuple[ArenaRow, RunConfig]]]:
        """Divide rows into the outcomes that are stored, and the rows that are not."""
        outcomes = [
            (entry, self.find_outcome(*entry, dataset_file_name(entry[1].dataset))) for entry in entries
        ]
        missing = [entry for entry, outcome in outcomes if outcome is None]
        return [outcome for _, outcome in outcomes if outcome is not None], missing


def read_results(folder: Path | None = None) -> StoredResults:
    """Read the results in a folder, by default the package's; empty if it has none.

    Raises:
        ConfigError: A file there is malformed.
    """
    folder = folder or FOLDER
    places = {name: folder / name for name in (OUTCOMES, SETTINGS)}
    texts = {name: path.read_text(encoding="utf-8") for name, path in places.items() if path.is_file()}
    try:
        outcomes = outcome_files.from_csv(texts[OUTCOMES], OUTCOMES) if OUTCOMES in texts else ()
        tuned = _read_tuned(texts[SETTINGS]) if SETTINGS in texts else ()
    except ValueError as error:
        raise ConfigError(f"{folder}: {error}; install fedgrid again") from error
    return StoredResults(
        {outcome.key: outcome for outcome in outcomes},
        {one.key: one for one in tuned},
    )


def read_outcomes(
    grid: str, entries: Sequence[tuple[ArenaRow, RunConfig]], storage: Storage
) -> list[Outcome]:
    """Read the outcomes of the runs among these rows that are finished or have diverged."""
    if not entries:
        return []
    results = {run.run_id: run for run in load(grid, storage).runs if run.is_finished or has_diverged(run)}
    made = {
        run_id: dict(parts[-1].made_with)
        for run_id, result in results.items()
        if (parts := load_parts(result.folder))
    }
    return [
        build_outcome(row, results[run.run_id], made.get(run.run_id, {}), has_held_out=run.held_out > 0)
        for row, run in entries
        if run.run_id in results
    ]


def dataset_file_name(dataset: str) -> str:
    """Format the name of a data set for files of outcomes and settings: without characters of paths."""
    return replace_special_characters(shorten_name(dataset))


def format_files(outcomes: Iterable[Outcome], tuned: Sequence[TunedMethod]) -> dict[str, str]:
    """Format results as files, by name, as `read_results` takes them."""
    return {OUTCOMES: outcome_files.to_csv(outcomes), SETTINGS: _format_tuned(tuned)}


def _format_tuned(tuned: Iterable[TunedMethod]) -> str:
    """Format the file of settings: a line for each method and protocol."""
    lines = [
        (
            # Six digits, as in the file of outcomes: a comparison of two files shows changes, not rounding.
            *(*one.key, one.trial, f"{one.validation:.6g}"),
            *(json.dumps(dict(one.params), sort_keys=True), one.search),
        )
        for one in sorted(tuned, key=attrgetter("key"))
    ]
    return format_csv([COLUMNS, *lines])


def _read_tuned(text: str) -> tuple[TunedMethod, ...]:
    """Parse the text of a file of settings.

    Raises:
        ValueError: The text is no such file.
    """
    lines = csv.DictReader(io.StringIO(text))
    if lines.fieldnames != [*COLUMNS]:
        raise ValueError(f"columns {lines.fieldnames}: expected {', '.join(COLUMNS)}")
    return tuple(TunedMethod(*(read(line[name]) for name, read in COLUMNS.items())) for line in lines)

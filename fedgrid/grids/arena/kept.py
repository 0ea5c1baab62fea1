"""The arena's results that the package keeps: outcomes and tuned settings of the built-in methods, as csv."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.names import short_name
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.arena import tuned as tuned_files
from fedgrid.grids.arena.tuned import Tuned
from fedgrid.tracking.scoring.study import plain
from fedgrid.tracking.verdicts import outcomes as outcome_files
from fedgrid.tracking.verdicts.outcomes import Outcome, RowOfArena

FOLDER = Path(__file__).with_name("kept")
OUTCOMES, SETTINGS = "outcomes.csv", "tuning.csv"


@dataclass(frozen=True)
class Kept:
    """Results that need not be computed again."""

    outcomes: Mapping[tuple[str, str, str, str, str, int], Outcome] = field(default_factory=dict)
    """By `Outcome.key`."""
    tuned: Mapping[tuple[str, str, int], Tuned] = field(default_factory=dict)
    """By data set, method and number of trials."""

    def settings(self, dataset: str, method: str, trials: int, search: str) -> Tuned | None:
        """Return the settings that this very search has found, None if it is not kept."""
        found = self.tuned.get((dataset, method, trials))
        return found if found is not None and found.search == search else None

    def outcome(self, row: RowOfArena, run: RunConfig, dataset: str) -> Outcome | None:
        """Return the outcome of this very run in this row, None if it is not kept."""
        found = self.outcomes.get((row.method, row.settings, row.protocol, dataset, row.family, run.seed))
        return found if found is not None and found.run_id == run.run_id else None


def read(folder: Path | None = None) -> Kept:
    """Return the results in a folder, by default the package's; nothing if it has none.

    Raises:
        ConfigError: a file there cannot be read.
    """
    folder = folder or FOLDER
    places = {name: folder / name for name in (OUTCOMES, SETTINGS)}
    texts = {name: path.read_text(encoding="utf-8") for name, path in places.items() if path.is_file()}
    try:
        outcomes = outcome_files.from_csv(texts[OUTCOMES], OUTCOMES) if OUTCOMES in texts else ()
        tuned = tuned_files.from_csv(texts[SETTINGS]) if SETTINGS in texts else ()
    except ValueError as error:
        raise ConfigError(f"{folder}: {error}; --recompute does without these results") from error
    return Kept(
        {outcome.key: outcome for outcome in outcomes},
        {(one.dataset, one.method, one.trials): one for one in tuned},
    )


def in_files(dataset: str) -> str:
    """Return the name of a data set in files of outcomes and settings: without characters of paths."""
    return plain(short_name(dataset))


def texts_of(outcomes: Iterable[Outcome], tuned: Sequence[Tuned]) -> dict[str, str]:
    """Return file -> text of results, as `read` takes them."""
    return {OUTCOMES: outcome_files.to_csv(outcomes), SETTINGS: tuned_files.to_csv(tuned)}

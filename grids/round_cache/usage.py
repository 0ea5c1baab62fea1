"""What the round store has done for the runs of a grid so far, and what it keeps for them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from fedgrid.engine.round_cache.store import StoredFile, kept
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.times import Times, times_of
from fedgrid.grids.round_cache.retention import idle_trunks, states

TIMINGS = "timings.parquet"


@dataclass(frozen=True)
class Usage:
    """What the runs of a trunk, or of several, have had of the store, and what it keeps for them."""

    name: str
    """Scenario and seed, or the data set."""
    runs: int
    finished: int
    rounds: int
    """Rounds of all these runs so far."""
    computed: float
    """Rounds whose clients the run itself trained; a round counts by the share of these."""
    taken: float
    """The rest, which came from the store."""
    seconds: float
    """What the runs themselves spent."""
    alone_seconds: float
    """What their rounds would have cost without the store."""
    states_bytes: int
    statistics_bytes: int
    can_go_bytes: int
    """States that no unfinished run of the grid can take."""

    @property
    def hits(self) -> float | None:
        """Share of the rounds that came from the store, None before the first round."""
        return self.taken / self.rounds if self.rounds else None

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as programs read it."""
        return {**asdict(self), "hits": self.hits}


@dataclass(frozen=True)
class Account:
    """The round store as a grid sees it."""

    trunks: Mapping[str, Usage]
    datasets: Sequence[Usage]
    total: Usage
    others_bytes: int
    """Size of what is kept for other grids alone."""
    others_trunks: int

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as programs read it."""
        return {
            "trunks": [{"trunk": trunk, **usage.as_dict()} for trunk, usage in self.trunks.items()],
            "total": self.total.as_dict(),
            "other_grids": {"bytes": self.others_bytes, "trunks": self.others_trunks},
        }


def take_stock(runs: Sequence[RunConfig], storage: Storage) -> Account:
    """Return what the store has done for these runs so far, and what it keeps.

    Raises:
        RunError: if the storage cannot be read.
    """
    entries = kept(storage)
    going = {entry.file for entry in can_go(entries, runs, storage)}
    by_trunk: dict[str, list[RunConfig]] = {}
    for run in runs:
        by_trunk.setdefault(run.trunk, []).append(run)
    kept_by_trunk: dict[str, list[StoredFile]] = {trunk: [] for trunk in by_trunk}
    for entry in entries:
        kept_by_trunk.setdefault(entry.trunk, []).append(entry)
    names = _names(by_trunk)
    with _timings_in(runs, storage) as root:
        usage = {
            trunk: _usage(names[trunk], of_trunk, kept_by_trunk[trunk], going, storage, root)
            for trunk, of_trunk in by_trunk.items()
        }
    datasets: dict[str, list[Usage]] = {}
    for trunk, of_trunk in by_trunk.items():
        datasets.setdefault(of_trunk[0].dataset, []).append(usage[trunk])
    others = [entry for entry in entries if entry.trunk not in by_trunk]
    return Account(
        usage,
        [_together(dataset, of_dataset) for dataset, of_dataset in datasets.items()],
        _together("all", usage.values()),
        sum(entry.size for entry in others),
        len({entry.trunk for entry in others}),
    )


def can_go(entries: Iterable[StoredFile], runs: Sequence[RunConfig], storage: Storage) -> list[StoredFile]:
    """Return the states that none of these runs can take any more."""
    pending = (run for run in runs if not is_finished(storage, run))
    return states(entries, idle_trunks(runs, pending))


def _names(by_trunk: Mapping[str, Sequence[RunConfig]]) -> dict[str, str]:
    """Return what people call each trunk; those alike in scenario and seed get a piece of their hash."""
    names = {trunk: f"{runs[0].scenario}, seed {runs[0].seed}" for trunk, runs in by_trunk.items()}
    count = Counter(names.values())
    return {
        trunk: name if count[name] == 1 else f"{name} ({trunk.rsplit('-', 1)[1][:6]})"
        for trunk, name in names.items()
    }


def _usage(
    name: str,
    runs: Sequence[RunConfig],
    entries: Sequence[StoredFile],
    going: set[str],
    storage: Storage,
    root: Path,
) -> Usage:
    """Return the usage of the runs of a trunk, whose timings are under `root`."""
    times = [_times(folder_of(root, run)) for run in runs]
    rounds, computed = sum(one.rounds for one in times), sum(one.rounds_computed for one in times)
    return Usage(
        name=name,
        runs=len(runs),
        finished=sum(is_finished(storage, run) for run in runs),
        rounds=rounds,
        computed=computed,
        taken=rounds - computed,
        seconds=sum(one.seconds for one in times),
        alone_seconds=sum(one.alone_seconds for one in times),
        states_bytes=sum(entry.size for entry in entries if entry.is_state),
        statistics_bytes=sum(entry.size for entry in entries if not entry.is_state),
        can_go_bytes=sum(entry.size for entry in entries if entry.file in going),
    )


def _together(name: str, usage: Iterable[Usage]) -> Usage:
    """Return the sums over several trunks."""
    rows = list(usage)
    sums = [field.name for field in fields(Usage) if field.name != "name"]
    return Usage(name, **{field: sum(getattr(row, field) for row in rows) for field in sums})


def _times(folder: Path) -> Times:
    """Return what the rounds of a run took; records that are damaged count for none, as when it goes on."""
    try:
        return times_of(folder)
    except (OSError, pa.ArrowException):
        return Times()


@contextmanager
def _timings_in(runs: Sequence[RunConfig], storage: Storage) -> Iterator[Path]:
    """Give a folder that holds the runs' timings: of a URI a copy, as runs under way write the mirror's."""
    if not storage.uri:
        yield storage.root
        return
    with TemporaryDirectory(prefix="fedgrid-") as folder:
        copy = Storage(Path(folder), storage.uri)
        copy.refresh(*(f"{folder_of(copy.root, run).name}/{TIMINGS}" for run in runs))
        yield copy.root

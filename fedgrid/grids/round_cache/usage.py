"""Show, for `fedgrid cache`, how many rounds runs took from the round cache, and the size of its entries."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.round_cache.files import StoredFile, list_entries
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.tables import format_duration, format_size
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.times import Times, read_times
from fedgrid.grids.round_cache.retention import find_waiting_runs
from fedgrid.manifest import MANIFEST, TIMES

USAGE_LEGEND = (
    "runs: finished/all; rounds: of these runs so far; cached: rounds that came from\n"
    "the cache; hits: their share; spent: the runs' own time; uncached: their time if\n"
    "there were no cache; states: as large as a model each, cached for unfinished\n"
    "runs; stat.: statistics, which stay."
)
HEADINGS = ("runs", "rounds", "cached", "hits", "spent", "uncached", "states", "stat.")


@dataclass(frozen=True)
class Usage:
    """Cache hits of the runs of one or several shared prefixes, and sizes of entries; printed as JSON."""

    name: str
    """Scenario and seed, or the data set."""
    runs: int
    finished: int
    rounds: int
    """Number of rounds of all these runs so far."""
    computed: float
    """Number of rounds that the runs computed; a partial hit counts by the share of clients that the run
    trained."""
    taken: float
    """Number of the other rounds: cache hits."""
    seconds: float
    """Seconds that the runs spent."""
    uncached_seconds: float
    """Seconds that their rounds would have taken without the cache."""
    states_bytes: int
    statistics_bytes: int
    can_go_bytes: int
    """Bytes of the states that no unfinished run of any grid needs."""

    @property
    def hit_share(self) -> float | None:
        """Share of the rounds that were cache hits; None before the first round."""
        return self.taken / self.rounds if self.rounds else None

    def as_dict(self) -> dict[str, Any]:
        """Convert the values to JSON types."""
        return {**asdict(self), "hits": self.hit_share}


@dataclass(frozen=True)
class CacheUsage:
    """The usage of the round cache by the runs of one grid."""

    shared_prefixes: Mapping[str, Usage]
    total: Usage

    def as_dict(self) -> dict[str, Any]:
        """Convert the values to JSON types."""
        return {
            "shared_prefixes": [
                {"shared_prefix": shared_prefix, **usage.as_dict()}
                for shared_prefix, usage in self.shared_prefixes.items()
            ],
            "total": self.total.as_dict(),
        }


def show_cache(name: str, storage: Storage, as_json: bool, console: Console) -> None:
    """Print how much the round cache has saved a grid, and the space that its entries take.

    Args:
        name: the grid.
        storage: where it is.
        as_json: whether a JSON object is printed in place of text.
        console: where text is printed.

    Raises:
        ConfigError: if there is no such grid.
        RunError: if the storage cannot be read.
    """
    storage.pull_marks()
    runs = GridFolder(storage, name).read_runs()
    usage = measure_cache_usage(runs, storage)
    if as_json:
        print(json.dumps({"grid": name, **usage.as_dict()}))
        return
    say = partial(print_plain, console)
    rows = list(usage.shared_prefixes.values())
    console.print(build_cache_table(f"Round cache, {name}", rows, usage.total))
    say(USAGE_LEGEND)
    say()
    # Reading entries takes time too: with few hits there may be nothing saved.
    if usage.total.uncached_seconds > usage.total.seconds:
        saved = format_duration(usage.total.uncached_seconds - usage.total.seconds)
        say(f"The cache saved {saved} of {format_duration(usage.total.uncached_seconds)}.")
    if usage.total.can_go_bytes:
        size = format_size(usage.total.can_go_bytes)
        say(f"{size} of states are needed by no run: the next `fedgrid run` that computes one evicts them.")
    elif usage.total.states_bytes:
        waiting = len(find_waiting_runs(usage.shared_prefixes, storage))
        needed = "1 unfinished run needs" if waiting == 1 else f"{waiting} unfinished runs need"
        say(f"{needed} the states, which are evicted as the runs end.")


def measure_cache_usage(runs: Sequence[RunConfig], storage: Storage) -> CacheUsage:
    """Measure the cache hits of these runs so far, and the size of the entries.

    Raises:
        RunError: if the storage cannot be read.
    """
    entries = list_entries(storage)
    waiting = {run.shared_prefix for run in find_waiting_runs({run.shared_prefix for run in runs}, storage)}
    runs_by_prefix: dict[str, list[RunConfig]] = {}
    for run in runs:
        runs_by_prefix.setdefault(run.shared_prefix, []).append(run)
    entries_by_prefix: dict[str, list[StoredFile]] = {}
    for entry in entries:
        entries_by_prefix.setdefault(entry.shared_prefix, []).append(entry)
    with _open_timings(runs, storage) as root:
        usage = {
            prefix: _measure_usage(
                members, entries_by_prefix.get(prefix, []), prefix in waiting, storage, root
            )
            for prefix, members in runs_by_prefix.items()
        }
    # The total is the sum of every field: no two shared prefixes have a run or an entry in common.
    sums = [field.name for field in fields(Usage) if field.name != "name"]
    total = Usage("all", **{name: sum(getattr(row, name) for row in usage.values()) for name in sums})
    return CacheUsage(usage, total)


def _measure_usage(
    runs: Sequence[RunConfig],
    entries: Sequence[StoredFile],
    is_needed: bool,
    storage: Storage,
    root: Path,
) -> Usage:
    """Measure the usage of the runs of a shared prefix, whose timings are under `root`.

    `is_needed`: whether an unfinished run may use the states.
    """
    states_bytes = sum(entry.size for entry in entries if entry.is_state)
    times = [_read_times(build_folder_path(root, run)) for run in runs]
    rounds, computed = sum(one.rounds for one in times), sum(one.rounds_computed for one in times)
    return Usage(
        name=f"{runs[0].scenario}, seed {runs[0].seed}",
        runs=len(runs),
        finished=sum(is_finished(storage, run) for run in runs),
        rounds=rounds,
        computed=computed,
        taken=rounds - computed,
        seconds=sum(one.seconds for one in times),
        uncached_seconds=sum(one.uncached_seconds for one in times),
        states_bytes=states_bytes,
        statistics_bytes=sum(entry.size for entry in entries if not entry.is_state),
        can_go_bytes=0 if is_needed else states_bytes,
    )


def _read_times(folder: Path) -> Times:
    """Read the times of a run's rounds; damaged ones count as no rounds, with a warning."""
    try:
        return read_times(folder)
    except (DamagedFile, UnreadableFile) as error:
        warn(f"{error}; the rounds of its run do not count")
        return Times()


@contextmanager
def _open_timings(runs: Sequence[RunConfig], storage: Storage) -> Iterator[Path]:
    """Open a folder with the runs' timings; for a URI a temporary copy: active runs write to the mirror."""
    if not storage.uri:
        yield storage.root
        return
    with create_scratch_folder() as folder:
        # The mirror stays as it is: a driver on this machine may be writing the same files.
        copy = Storage(folder, storage.uri)
        names = (MANIFEST, TIMES)
        copy.refresh(*(f"{build_folder_path(copy.root, run).name}/{name}" for run in runs for name in names))
        for run in runs:
            if not is_finished(storage, run):
                copy.pull(build_folder_path(copy.root, run).name, only=("timings-",))
        yield copy.root


def build_cache_table(title: str, rows: Sequence[Usage], total: Usage) -> TextTable:
    """Build a table of the rows, and their total if there are several."""
    shown = [[row.name, *_format_cells(row)] for row in rows]
    if len(rows) > 1:
        shown += [[], [total.name, *_format_cells(total)]]
    return TextTable(("scenario", *HEADINGS), shown, title, range(1, 1 + len(HEADINGS)))


def _format_cells(row: Usage) -> list[str]:
    """Format the numbers of a row."""
    return [
        f"{row.finished}/{row.runs}",
        str(row.rounds),
        f"{row.taken:.0f}",
        "–" if row.hit_share is None else f"{row.hit_share:.0%}",
        format_duration(row.seconds),
        format_duration(row.uncached_seconds),
        format_size(row.states_bytes),
        format_size(row.statistics_bytes),
    ]

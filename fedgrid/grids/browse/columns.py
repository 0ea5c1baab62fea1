"""What is known of a run, by column: its name, settings, scores, times, and last recorded values."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, hint
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.tables import RESULT_COLUMNS
from fedgrid.grids.presets.axis_keys import (
    ALGORITHM,
    AXES,
    SETTING,
    axis_keys,
    value_of,
    variant_of,
    variant_settings,
)
from fedgrid.grids.results.asked import SUPERSEDED
from fedgrid.grids.results.axes import further_axes, name_of, naming_keys
from fedgrid.grids.results.outcome import DAMAGED, is_finished, read_scores, state
from fedgrid.grids.results.times import Times, times_of
from fedgrid.grids.trackers.annotations import Annotations, annotations_of
from fedgrid.tracking.records import SHORT_NAMES, RecordsError, read_records
from fedgrid.tracking.scoring.scores import curves

ALL = "all"
"""Stands for every column whose value is known without reading a run's records."""
IDENTITY = ("run", "run_id", "state", SUPERSEDED, "scenario", "variant", "folder")
NOTE, TAG = "note", "tags."
"""What the user has written on a run: a column, and the beginning of one for each tag, as in MLflow."""
TIMES = ("seconds", "uncached_seconds", "rounds_computed", "peak_memory_mb")


class Row:
    """A run of a grid and its values. Files are read when a value of theirs is asked for."""

    def __init__(
        self, config: RunConfig, name: str, variant: str, storage: Storage, *, is_superseded: bool = False
    ) -> None:
        self.config = config
        self.folder = folder_of(storage.root, config)
        self._storage = storage
        self._identity = {
            "run": name,
            "run_id": config.run_id,
            SUPERSEDED: is_superseded,
            "scenario": config.scenario,
            "variant": variant or None,
            "folder": self.folder.name,
        }

    def value(self, column: str) -> Any:
        """Return the value of a column, None if this run has none.

        Raises:
            RunError: if the storage cannot be read.
        """
        if column == "state":
            return self.state
        for known in (self._identity, self.scores):
            if column in known:
                return known[column]
        if column == NOTE:
            return self.annotations.note or None
        if column.startswith(TAG):
            return self.annotations.tags.get(column.removeprefix(TAG))
        if column in TIMES:
            return getattr(self._times, column) if self.is_finished else None
        if column in axis_keys([self.config]):
            return value_of(self.config, column)
        return self.recorded.get(column)

    @cached_property
    def is_finished(self) -> bool:
        """Whether the run has all of its rounds and scores, undamaged."""
        return is_finished(self._storage, self.config)

    @cached_property
    def state(self) -> str:
        """`finished`, `failed`, `damaged`, `7 of 15 rounds` or `not started`."""
        return state(self._storage, self.config)[0]

    @cached_property
    def scores(self) -> Mapping[str, Any]:
        """The final scores, none of a run that is not finished."""
        return read_scores(self.folder, self.config.run_id) if self.is_finished else {}

    @cached_property
    def recorded(self) -> Mapping[str, float]:
        """The last value of each number that is recorded by round; none of a damaged run."""
        if self.state == DAMAGED:
            return {}
        self._storage.pull(self.folder.name, skip=("state-",))
        try:
            found = curves(read_records(self.folder))
        except RecordsError:
            return {}
        measured = {name: values[values == values] for name, values in found.items()}
        return {name: values[-1].item() for name, values in measured.items() if len(values)}

    @cached_property
    def annotations(self) -> Annotations:
        """The user's note and tags."""
        return annotations_of(self.folder)

    @cached_property
    def _times(self) -> Times:
        self._storage.pull(self.folder.name, only="timings")
        return times_of(self.folder)


def rows_of(runs: Sequence[RunConfig], storage: Storage, old: Collection[RunConfig] = ()) -> list[Row]:
    """Return the runs of a grid, in its order, each with a name that tells it from the others.

    Those of them that are in `old` are superseded.
    """
    settings, naming = variant_settings(runs), naming_keys(runs)
    superseded = {run.run_id for run in old}
    return [
        Row(
            run,
            name_of(run, naming),
            variant_of(run, settings),
            storage,
            is_superseded=run.run_id in superseded,
        )
        for run in runs
    ]


def usual_columns(rows: Sequence[Row]) -> list[str]:
    """Return state, what the runs differ in, and the scores of the results table."""
    configs = [row.config for row in rows]
    axes = (*AXES, *(axis for axis in further_axes(configs) if not axis.startswith(SETTING)))
    differing = [
        axis for axis in axes if len({str(row.value(axis)) for row in rows}) > 1 or axis == ALGORITHM
    ]
    variant = ["variant"] if any(row.value("variant") for row in rows) else []
    superseded = [SUPERSEDED] if any(row.value(SUPERSEDED) for row in rows) else []
    return [*differing, *variant, *superseded, "state", *RESULT_COLUMNS, "seconds", "run_id"]


def all_columns(rows: Sequence[Row]) -> list[str]:
    """Return every column of which some run has a value, without those of the records."""
    scores = {name: None for row in rows for name in row.scores}
    keys = axis_keys(row.config for row in rows)
    settings = [key for key in keys if any(row.value(key) is not None for row in rows)]
    return list(dict.fromkeys([*IDENTITY, *_written(rows), *settings, *scores, *TIMES]))


def _written(rows: Sequence[Row]) -> list[str]:
    """Return the columns of the user's notes and tags, of which some run has a value."""
    tags = dict.fromkeys(f"{TAG}{key}" for row in rows for key in row.annotations.tags)
    return [*([NOTE] if any(row.annotations.note for row in rows) else []), *tags]


def check_columns(columns: Sequence[str], rows: Sequence[Row], option: str) -> None:
    """Check that there are such columns; `option` is what named them.

    Raises:
        ConfigError: if one is unknown; names the nearest, and how to see all.
    """
    keys = axis_keys(row.config for row in rows)
    known = {*IDENTITY, *TIMES, *keys, NOTE, *_written(rows), *(name for row in rows for name in row.scores)}
    for column in columns:
        if column in known or any(column in row.recorded for row in rows):
            continue
        names = {*known, *(name for row in rows for name in row.recorded)}
        inner = {key.rpartition(".")[2]: key for key in keys if rows and rows[0].value(key) is not None}
        near = hint(column, names, SHORT_NAMES, inner)
        raise ConfigError(
            f"{option}: unknown column '{column}'; {near}allowed: a key of a run (training.rounds), a score "
            f"({', '.join(list(RESULT_COLUMNS)[:3])}), a recorded number (temperature); `--columns all "
            "--json` shows them"
        )

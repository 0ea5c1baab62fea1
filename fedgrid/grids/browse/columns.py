"""The rows and the columns of a list of runs: a run is a row, read by `grids.results.runs`."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, hint
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SETTING, axis_keys
from fedgrid.grids.results.grid_folder import SUPERSEDED
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.result_columns import OWN_COLUMNS, RESULT_COLUMNS, columns_for
from fedgrid.grids.results.runs import read_runs
from fedgrid.grids.trackers.annotations import annotations_of
from fedgrid.tracking.names import SHORT_NAMES
from fedgrid.tracking.scoring.run import IDENTITY, NOTE, TAG, TIMES, Run

ALL = "all"
"""Stands for every column whose value is known without reading a run's records."""


def read_rows(
    configs: Sequence[RunConfig], storage: Storage, old: Collection[RunConfig] = ()
) -> tuple[Run, ...]:
    """Return runs of a grid with their states, scores, times and notes; `old` ones are superseded.

    Raises:
        RunError: if the storage cannot be read.
    """
    for config in configs if storage.uri else ():
        folder = folder_of(storage.root, config).name
        if is_finished(storage, config):
            storage.pull(folder, only=("timings",))
        else:
            storage.pull(folder, skip=("state-",))
    return tuple(map(_add_notes, read_runs(configs, storage, old)))


def _add_notes(run: Run) -> Run:
    written = annotations_of(run.folder)
    tags = {f"{TAG}{key}": value for key, value in written.tags.items()}
    return replace(run, notes={**({NOTE: written.note} if written.note else {}), **tags})


def usual_columns(rows: Sequence[Run]) -> list[str]:
    """Return state, what the runs differ in, and the scores of the results table."""
    further = dict.fromkeys(axis for row in rows for axis, _ in row.axes if not axis.startswith(SETTING))
    differing = [
        axis
        for axis in (*AXES, *further)
        if len({str(row.value(axis)) for row in rows}) > 1 or axis == ALGORITHM
    ]
    variant = ["variant"] if any(row.variant for row in rows) else []
    superseded = [SUPERSEDED] if any(row.is_superseded for row in rows) else []
    own = [name for name in OWN_COLUMNS if any(name in row.scores for row in rows)]
    scores = columns_for({name for row in rows for name in row.scores})
    return [*differing, *variant, *superseded, "state", *scores, *own, "seconds", "run_id"]


def all_columns(rows: Sequence[Run]) -> list[str]:
    """Return every column of which some run has a value, without those of the records."""
    notes = {name: None for row in rows for name in row.notes}
    settings = {key for row in rows for key, value in row.values.items() if value is not None}
    keys = (*axis_keys(), *(key for row in rows for key in row.values))
    scores = (name for row in rows for name in row.scores)
    columns = [
        *IDENTITY,
        *(name for name in (NOTE, *notes) if name in notes),
        *(key for key in keys if key in settings),
        *scores,
        *TIMES,
    ]
    return list(dict.fromkeys(columns))


def check_columns(columns: Sequence[str], rows: Sequence[Run], option: str) -> None:
    """Check that there are such columns; `option` is what named them.

    Raises:
        ConfigError: if one is unknown; names the nearest, and how to see all.
    """
    allowed = {*IDENTITY, *TIMES, NOTE, *axis_keys()}
    allowed |= {name for row in rows for part in (row.values, row.scores, row.notes) for name in part}
    for column in columns:
        if column in allowed or any(column in row.recorded for row in rows):
            continue
        names = {*allowed, *(name for row in rows for name in row.recorded)}
        keys = rows[0].values if rows else {}
        inner = {key.rpartition(".")[2]: key for key, value in keys.items() if value is not None}
        near = hint(column, names, SHORT_NAMES, inner)
        raise ConfigError(
            f"{option}: unknown column '{column}'; {near}allowed: a key of a run (training.rounds), a score "
            f"({', '.join(list(RESULT_COLUMNS)[:3])}), a recorded number (temperature); `--columns all "
            "--json` shows them"
        )

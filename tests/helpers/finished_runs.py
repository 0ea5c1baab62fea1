"""Marks of finished runs, for records that were written by hand."""

from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.integrity.mark import TIMES, TIMES_CHECKSUM, mark_of, times_mark_of
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.format import seal
from fedgrid.grids.results.outcome import RUN_ID, SCORES
from fedgrid.record_columns import DONE
from fedgrid.tracking.scoring.scores import score_run


def mark_finished(storage: Path, config: RunConfig, scores: dict[str, float] | None = None) -> Path:
    """Write the files by which a finished run is recognised; return its folder.

    Without `scores` they are those of its records, if it has any.
    """
    folder = folder_of(storage, config)
    folder.mkdir(parents=True, exist_ok=True)
    if scores is None:
        scores = score_run(folder) if (folder / "rounds.parquet").exists() else {}
    (folder / SCORES).write_text(seal({RUN_ID: config.run_id, **scores}))
    if (folder / TIMES).exists():
        (folder / TIMES_CHECKSUM).write_text(times_mark_of(folder))
    (folder / DONE).write_text(mark_of(folder, config, config.training.rounds))
    return folder

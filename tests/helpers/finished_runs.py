"""Marks of finished runs, for records that were written by hand."""

from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.grids.results.outcome import RUN_ID, SCORES
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.scoring.scores import score_run
from tests.helpers.manifests import list_files


def mark_finished(storage: Path, config: RunConfig, scores: dict[str, float] | None = None) -> Path:
    """Write scores and the manifest of a finished run; return its folder.

    Without `scores` they are those of its records, if it has any.
    """
    folder = build_folder_path(storage, config)
    folder.mkdir(parents=True, exist_ok=True)
    if scores is None:
        scores = score_run(folder) if (folder / "rounds.parquet").exists() else {}
    (folder / SCORES).write_text(seal_values({RUN_ID: config.run_id, **scores}))
    list_files(folder, rounds=config.training.rounds, rounds_done=config.training.rounds, is_finished=True)
    return folder

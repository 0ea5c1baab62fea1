"""Logs explanations to MLflow: means as metrics of the run, its records and maps as artifacts."""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.engine.storage.atomic import disk_errors, write_text
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.explain.job import FOLDER, Job, JobFiles
from fedgrid.grids.explain.read import ReadJob, summarised
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.redaction import redacted
from fedgrid.tracking import figures
from fedgrid.tracking.explained.maps import map_grid
from fedgrid.tracking.scoring.explanations import OWN_SCORES, of_runs


def log(jobs: Sequence[Job], read: Mapping[str, ReadJob], storage: Storage, writer: Writer, uri: str) -> int:
    """Log those of the jobs that MLflow lacks; return how many runs of them it does not know.

    Args:
        jobs: jobs that are done.
        read: their records, by run id and key.
        storage: where they are.
        writer: of the grid's experiment.
        uri: of the store.

    Raises:
        TrackingError: the store fails; the same call logs the rest later.
    """
    unknown: set[str] = set()
    for job in jobs:
        files = JobFiles(storage, job)
        found = read.get(f"{job.config.run_id} {job.settings.key}")
        mark = files.records.with_suffix(".mlflow.json")
        if found is None or _is_logged(mark, uri):
            continue
        with TemporaryDirectory() as folder:
            pictures = _pictures(found, Path(folder), job)
            known = writer.write_explanations(
                job.config, metrics_of(found), [files.records, files.mark, *pictures], FOLDER
            )
        if not known:
            unknown.add(job.config.run_id)
            continue
        with disk_errors(files.run):
            write_text(mark, seal({"uri": redacted(uri)}))
            files.push(mark)
    return len(unknown)


def metrics_of(read: ReadJob) -> dict[str, float]:
    """Return the means over a run's images by name, as `explanations/members_gap`; those that are defined."""
    explained = summarised([read]).explained
    style = "_as_published" if read.settings.as_published else ""
    found = {}
    for score in OWN_SCORES:
        for scenarios in of_runs(explained, read.settings.on, score).values():
            for seeds in scenarios.values():
                name = score.name.replace(" / p", "_by_p").replace(" ", "_")
                found[f"explanations/{read.settings.on}_{name}{style}"] = next(iter(seeds.values()))
    return {name: value for name, value in found.items() if isfinite(value)}


def _pictures(read: ReadJob, folder: Path, job: Job) -> list[Path]:
    shown = summarised([read]).shown
    if not shown:
        return []
    path = folder / f"maps-{job.settings.key}.png"
    figures.save(map_grid(shown), path)
    return [path]


def _is_logged(mark: Path, uri: str) -> bool:
    try:
        return bool(unseal(mark).get("uri") == redacted(uri))
    except (FileNotFoundError, DamagedFile):
        return False

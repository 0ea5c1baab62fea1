"""The parts of `benchmarks.gpu` that take whole runs: the same partition, and the hours of a grid."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.planning.estimate import Estimator, Speed, estimate_run_seconds
from fedgrid.grids.planning.images import estimate_images
from fedgrid.grids.planning.workload import find_workload
from fedgrid.grids.presets.load import load_grid

NO_DATA = Path("data")
"""The folder of images; it need not exist, as only digits are read, which come with scikit-learn."""
HOUR = 3600.0


def is_same_partition(device: str, model: str) -> bool:
    """Check whether a run on the device clusters its clients in each round as on the CPU."""
    return compute_clusters("cpu", model) == compute_clusters(device, model)


def compute_clusters(device: str, model: str) -> list[int]:
    """Compute the cluster of each round and client of a small run on digits: 12 clients, 5 rounds."""
    config = complete_config(
        {
            "algorithm": "ocfl-kmeans",
            "clients": 12,
            "model": model,
            "training": {"rounds": 5, "local_epochs": 2},
            "split": {"draws": 60, "server_images": 50},
            "evaluation": {"every": 5},
        },
        NO_DATA,
    )
    with TemporaryDirectory() as folder:
        session = Session(InProcessPool(device), NO_DATA)
        session.open(config, Storage.from_text(folder))
        for _ in range(config.training.rounds):
            session.next_round()
        records = pq.read_table(build_folder_path(Path(folder), config) / "clients.parquet")
        clusters: list[int] = records["cluster"].to_pylist()
    return clusters


def project_hours(grid: str, device: str, gains: Mapping[str, float]) -> float | None:
    """Project the hours of a preset on one GPU without a round cache.

    Images, rounds and the seconds of one process are those of `--dry-run`.

    Args:
        grid: name of a preset.
        device: as torch names it.
        gains: model -> how many times as much the best number of processes trains as one.

    Returns:
        The hours; None if a model was not measured.
    """
    runs = load_grid(grid, {}, (), NO_DATA).runs
    workloads = [find_workload(run, NO_DATA) for run in runs]
    if any(workload.model not in gains for workload in workloads):
        return None
    seconds, estimator = 0.0, Estimator(NO_DATA, device, {})
    for run, workload in zip(runs, workloads, strict=True):
        images = estimate_images(run, find_dataset(run.dataset, NO_DATA))
        speed = share_speed(estimator.measure_speed(workload), gains[workload.model])
        seconds += estimate_run_seconds(run, images, speed, run.training.rounds)
    return seconds / HOUR


def share_speed(speed: Speed, gain: float) -> Speed:
    """Compute the speed of a GPU whose processes do `gain` times as much as one."""
    return Speed(speed.seconds_per_turn / gain, speed.seconds_per_image / gain)

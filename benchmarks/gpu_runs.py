"""The parts of `benchmarks.gpu` that take whole runs: the same partition, and the hours of a grid."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.planning.estimate import Estimator, Speed, run_seconds
from fedgrid.grids.planning.images import expected_images
from fedgrid.grids.planning.workload import workload_of
from fedgrid.grids.presets.load import load_grid

NO_DATA = Path("data")
"""The folder of images; it need not exist, as only digits are read, which come with scikit-learn."""
HOUR = 3600.0


def is_same_partition(device: str, model: str) -> bool:
    """Check whether a run on the device clusters its clients in each round as on the CPU."""
    return compute_clusters("cpu", model) == compute_clusters(device, model)


def compute_clusters(device: str, model: str) -> list[int]:
    """Compute the cluster of each round and client of a small run on digits: 12 clients, 5 rounds."""
    config = complete(
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
        session.open(config, Storage.of(folder))
        for _ in range(config.training.rounds):
            session.next_round()
        records = pq.read_table(folder_of(Path(folder), config) / "clients.parquet")
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
    workloads = [workload_of(run, NO_DATA) for run in runs]
    if any(workload.model not in gains for workload in workloads):
        return None
    seconds, estimator = 0.0, Estimator(NO_DATA, device, {})
    for run, workload in zip(runs, workloads, strict=True):
        images = expected_images(run, find(run.dataset, NO_DATA))
        speed = share_speed(estimator.speed_of(workload), gains[workload.model])
        seconds += run_seconds(run, images, speed, run.training.rounds)
    return seconds / HOUR


def share_speed(speed: Speed, gain: float) -> Speed:
    """Compute the speed of a GPU whose processes do `gain` times as much as one."""
    return Speed(speed.turn / gain, speed.image / gain)

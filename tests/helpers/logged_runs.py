"""Runs that are recorded on disk, and what MLflow has of them."""

import json
import os
import zlib
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following.session import TrackerSession
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.names import format_run_name
from fedgrid.grids.trackers.tracker import TrackedGrid, Tracker
from tests.helpers.manifests import list_files
from tests.helpers.run_records import write_records, write_timings

ROUNDS = 4
TRUTH = [0, 0, 1, 1]
LABELS = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1]]


def build_config(seed: int) -> RunConfig:
    """Build a run of four clients and four rounds."""
    given = {"clients": 4, "training": {"rounds": ROUNDS}, "algorithm": "fedavg", "seed": seed}
    return complete_config(given, Path("unused"))


def new_session(storage: Path, tracker: type[Tracker] = MlflowTracker, **grid: Any) -> TrackerSession:
    """Open a tracker, MLflow by default, of the grid `mine`."""
    return TrackerSession(tracker, TrackedGrid("mine", Storage(storage), **grid))


STARTED_MS = 1_700_000_000_000


def write_run(storage: Path, config: RunConfig, rounds: int) -> None:
    """Write the run's records as after `rounds` rounds of half a second."""
    folder = build_folder_path(storage, config)
    write_records(folder, LABELS[:rounds], TRUTH, temperature_R=[0.4, 0.3, 0.2, 0.1])
    (folder / "config.json").write_text("{}\n")
    if rounds == ROUNDS:
        (folder / "scores.json").write_text("{}\n")
    ends = {number: STARTED_MS + 500 * number for number in range(1, rounds + 1)}
    write_timings(
        folder,
        [
            {"round": number, "seconds": 0.5, "peak_memory_mb": 100.0 * number, "ended_ms": at}
            for number, at in ends.items()
        ],
    )
    list_files(folder, rounds=ROUNDS, rounds_done=rounds, is_finished=rounds == ROUNDS)
    os.utime(folder)  # As when a file is replaced whole.


def unpack_tag(tag: str) -> Mapping[str, Any]:
    """Unpack the state of MLflow's page that a tag has."""
    state = json.loads(zlib.decompress(b64decode(tag.removeprefix("deflate;"))))
    assert isinstance(state, dict)
    return state


class Store:
    """The experiment `mine` as MLflow has it."""

    def __init__(self, uri: str) -> None:
        self.client = MlflowClient(tracking_uri=uri)

    @property
    def runs(self) -> dict[str, Any]:
        """MLflow's runs by name."""
        experiment = self.client.get_experiment_by_name("mine")
        matches = [] if experiment is None else self.client.search_runs([experiment.experiment_id])
        names = [run.info.run_name for run in matches]
        assert len(set(names)) == len(names), "a run is there twice"
        return dict(zip(names, matches, strict=True))

    def status(self, config: RunConfig) -> str:
        """The run's status."""
        return str(self.runs[format_run_name(config)].info.status)

    def steps(self, config: RunConfig, metric: str = "clustering/temperature") -> list[int]:
        """The rounds of a metric, as often as they are there."""
        run_id = self.runs[format_run_name(config)].info.run_id
        return sorted(point.step for point in self.client.get_metric_history(run_id, metric))

    def artifacts(self, name: str, folder: str | None = None) -> set[str]:
        """The paths of a run's artifacts."""
        return {item.path for item in self.client.list_artifacts(self.runs[name].info.run_id, folder)}

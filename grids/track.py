"""The MLflow side of a grid: one MLflow run a run, in the experiment of the grid's name."""

import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import node, python_version

from engine.errors import ConfigError
from engine.run_config import RunConfig
from tracking.mlflow_store import (
    Status,
    Tracker,
    TrackingError,
    forget,
    is_finished,
    prepare,
    tracking_uri,
)
from tracking.scores import RoundScores, of_rounds

ARTIFACTS = ("config.json", "rounds.parquet", "clients.parquet", "timings.parquet", "log.txt")
VERSIONS = ("fedgrid", "torch", "ray", "scikit-learn", "hdbscan", "numpy")


def artifact_root(storage: Path) -> Path:
    """Return where a store in `storage` keeps its artifacts."""
    return storage / "mlartifacts"


class RunLog:
    """Logs one run after another. A store that fails is reported and does not stop the training: the
    records on disk are the truth, and a run that is continued logs what the store lacks.
    """

    def __init__(self, experiment: str, storage: Path, warn: Callable[[str], None]) -> None:
        try:
            self.uri = tracking_uri(storage)
        except TrackingError as error:
            raise ConfigError(str(error)) from error
        self._experiment = experiment
        self._artifacts = artifact_root(storage)
        self._warn = warn
        self._warned: set[str] = set()
        self._tracker: Tracker | None = None
        self._commit = _commit()

    def prepare(self) -> None:
        """Create the store, if it is not there yet."""
        self._try(lambda: prepare(self.uri))

    def has(self, config: RunConfig) -> bool:
        """Return whether the store has the run, whole; True where the store cannot be asked."""
        answers: list[bool] = []
        self._try(lambda: answers.append(is_finished(self.uri, self._experiment, config.run_id)))
        return answers != [False]

    def open(self, config: RunConfig, folder: Path) -> None:
        """Find or create the run, and log the rounds on disk that it lacks."""
        self._tracker = None
        self._try(lambda: self._open(config, folder))

    def round(self, number: int, scores: RoundScores) -> None:
        """Log one round, unless the store has it."""
        if self._tracker is not None:
            tracker = self._tracker
            self._try(lambda: tracker.log_round(number, scores.as_dict()))

    def close(self, folder: Path, status: Status) -> None:
        """Upload the records and figures and set the run's status."""
        if self._tracker is not None:
            tracker = self._tracker
            self._tracker = None
            self._try(lambda: _close(tracker, folder, status))

    def forget(self, config: RunConfig) -> None:
        """Delete the run from the store, if it is there."""
        self._try(lambda: forget(self.uri, self._experiment, config.run_id))

    def _open(self, config: RunConfig, folder: Path) -> None:
        self._tracker = Tracker.open(
            self.uri,
            self._experiment,
            run_name=config.name,
            run_id=config.run_id,
            tags=self._tags(config),
            params=config.model_dump(mode="json"),
            artifact_root=self._artifacts,
        )
        if (folder / "rounds.parquet").exists():
            scored = of_rounds(folder, skip=self._tracker.logged_rounds())
            self._tracker.log_rounds((number, scores.as_dict()) for number, scores in scored)

    def _tags(self, config: RunConfig) -> dict[str, str]:
        return {
            "scenario": config.scenario,
            "dataset": config.dataset,
            "overlap": config.overlap,
            "balance": config.balance,
            "clients": str(config.clients),
            "algorithm": config.algorithm["name"],
            "seed": str(config.seed),
            "model": config.model,
            "host": node(),
            "commit": self._commit,
            "versions": ", ".join([f"python {python_version()}", *map(_version, VERSIONS)]),
        }

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except TrackingError as error:
            self._tracker = None
            if str(error) not in self._warned:
                self._warned.add(str(error))
                self._warn(f"{error}; training goes on, the records are on disk")


def _close(tracker: Tracker, folder: Path, status: Status) -> None:
    tracker.log_artifacts(folder / name for name in ARTIFACTS if (folder / name).exists())
    tracker.log_artifacts(sorted((folder / "figures").glob("*")), "figures")
    tracker.finish(status)


def _commit() -> str:
    """Return the git commit of this checkout, or "unknown" where it is not one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} unknown"

"""The storage's own MLflow store, made ready: it is there, and its artifacts are the storage's."""

import sys
from contextlib import suppress
from pathlib import Path

from fedgrid.grids.display.plain import warn
from fedgrid.grids.mlflow_log.empty_store import ensure_file
from fedgrid.tracking.mlflow.own_artifacts import keep_inside
from fedgrid.tracking.mlflow.own_files import own_file


def make_ready(uri: str, artifacts: Path) -> None:
    """Create a SQLite store that is missing, and see to its artifacts.

    Raises:
        TrackingError: as `keep_artifacts`, or the store's folder cannot be written.
    """
    own_file(uri, artifacts)  # A link that leads to no file looks like a store that is missing.
    ensure_file(uri)
    keep_artifacts(uri, artifacts)


def keep_artifacts(uri: str, artifacts: Path) -> None:
    """Set the addresses of artifacts to the storage's folder of them, and say so if runs had others.

    Raises:
        TrackingError: as `own_artifacts.keep_inside`.
    """
    _forget_places()
    if moved := keep_inside(uri, artifacts):
        warn(
            f"MLflow's store named another place for the artifacts of {moved} runs, as in a storage that was "
            f"moved or copied; from now on they are in {artifacts.resolve()}"
        )


def _forget_places() -> None:
    """Let MLflow ask the store anew: it remembers by run, for all stores, and a copy has the same runs."""
    with suppress(KeyError, AttributeError):
        sys.modules["mlflow.tracking._tracking_service.utils"]._artifact_repos_cache.clear()

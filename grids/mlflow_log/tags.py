"""What MLflow shows of a run: its tags, and the metrics of a round."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import node, python_version

from fedgrid.engine.run_config import RunConfig
from fedgrid.grids.archive.layout import is_archived
from fedgrid.grids.presets.axis_keys import AXES
from fedgrid.grids.results.axes import pairs_of
from fedgrid.tracking.mlflow.runs import Metrics
from fedgrid.tracking.scoring.scores import RoundScores

VERSIONS = ("fedgrid", "torch", "ray", "scikit-learn", "hdbscan", "numpy")
ARCHIVE = {"source": "the OCFL authors' archive"}
METRICS = (
    "temperature",
    "silhouette",
    "clusters",
    "ari",
    "ami",
    "homogeneity",
    "completeness",
    "personalised_accuracy",
    "personalised_f1",
    "personalised_loss",
    "generalised_accuracy",
    "generalised_f1",
    "generalised_loss",
    "learning_gap",
    "worst_client_accuracy",
    "train_loss",
    "train_accuracy",
    "warnings",
    "bytes_down",
    "bytes_up",
)
"""The scores of a round that MLflow gets, beside `round` itself. Its UI grows slow with more; the published
variants, balanced accuracies and all that is known of a single client are in the Parquet artifacts."""


def metrics(scores: RoundScores) -> Metrics:
    """Return the `METRICS` of a round."""
    values = scores.as_dict()
    return {name: values[name] for name in METRICS}


def tags(config: RunConfig, grid_name: str, axes: Sequence[str] = ()) -> dict[str, str]:
    """Return a tag for each axis, for the UI's filter, and the versions that the run was made with.

    `axes` are the grid's further axes; their tags have the names of the keys, as `training.local_epochs`.
    """
    return {
        "grid": grid_name,
        "scenario": config.scenario,
        "model": config.model,
        **dict(pairs_of(config, (*AXES, *axes))),
        **(ARCHIVE if is_archived(config) else origin()),
    }


@cache
def origin() -> dict[str, str]:
    """Return the host, the git commit and the versions that runs are made with here."""
    return {
        "host": node(),
        "commit": commit(),
        "versions": ", ".join([f"python {python_version()}", *map(_version, VERSIONS)]),
    }


def commit() -> str:
    """Return the git commit of this code; FEDGRID_COMMIT says it where the code travelled without git."""
    if given := os.environ.get("FEDGRID_COMMIT"):
        return given
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

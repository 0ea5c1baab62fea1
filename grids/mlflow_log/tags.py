"""A run in MLflow: its tags, and the metrics of a round."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import node, python_version

from fedgrid.engine import round_metrics
from fedgrid.engine.run_config import RunConfig
from fedgrid.grids.presets.axis_keys import AXES, SETTING
from fedgrid.grids.presets.variants import variant_of
from fedgrid.grids.results.archived import is_archived
from fedgrid.grids.results.axes import pairs_of
from fedgrid.tracking.mlflow.runs import Metrics
from fedgrid.tracking.scoring.group import declared
from fedgrid.tracking.scoring.scores import RoundScores

VERSIONS = ("fedgrid", "torch", "ray", "scikit-learn", "hdbscan", "numpy")
ARCHIVE = {"source": "the OCFL authors' archive"}


def described() -> dict[str, str]:
    """Return name -> meaning of the metrics that MLflow shows of a round, beside `round` itself.

    Declared in `engine.round_metrics` and in `tracking.scoring.scores`. They are few because MLflow's UI
    slows down with more; the others are in the Parquet artifacts.
    """
    recorded = {metric.name: metric.meaning for metric in round_metrics.ROUND_METRICS if metric.in_mlflow}
    return recorded | {score.name: score.meaning for score in declared(RoundScores) if score.in_mlflow}


def note() -> str:
    """Return a Markdown table of the metrics, which MLflow shows as the description of a grid's own run."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in described().items()]
    return "\n".join(["| metric of a round | meaning |", "| --- | --- |", *rows])


def metrics(scores: RoundScores) -> Metrics:
    """Return the metrics of a round, None where the round has none."""
    values = scores.as_dict()
    return {name: values.get(name) for name in described()}


def tags(config: RunConfig, grid_name: str, axes: Sequence[str] = ()) -> dict[str, str]:
    """Return a tag for each axis, for the UI's filter, and the versions that the run was made with.

    `axes` are the grid's further axes; their tags have the names of the keys, as `training.local_epochs`.
    Those that are settings of the algorithm together are the tag `variant`: `round 6, threshold 0.4`.
    """
    settings = [axis for axis in axes if axis.startswith(SETTING)]
    return {
        "grid": grid_name,
        "scenario": config.scenario,
        "model": config.model,
        **dict(pairs_of(config, (*AXES, *axes))),
        **({"variant": variant} if (variant := variant_of(config, settings)) else {}),
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
    """Return the git commit of this code, `-dirty` if files differ from it.

    FEDGRID_COMMIT says it where the code travelled without git.
    """
    if given := os.environ.get("FEDGRID_COMMIT"):
        return given
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} unknown"

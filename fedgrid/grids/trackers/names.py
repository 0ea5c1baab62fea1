"""Names of a run in MLflow and TensorBoard: its title, its tags, the metrics of a round, and its totals."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from platform import node, python_version
from typing import Any

from fedgrid.algorithms.contract.entry import OwnNumber
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.commit import UNKNOWN, find_version, read_commit
from fedgrid.grids.presets.axis_keys import AXES, SETTING_PREFIX, format_variant, list_axis_pairs
from fedgrid.grids.results.archive_models import is_archived
from fedgrid.grids.results.times import Times, read_times
from fedgrid.record_columns import EVERY_COLUMN, RecordColumn
from fedgrid.tracking.arrays import Score
from fedgrid.tracking.scoring.client_scores import PREDICTED, PROBABILITIES
from fedgrid.tracking.scoring.disturbances import HELD_OUT
from fedgrid.tracking.scoring.scores import ROUND_SCORES

VERSIONS = ("fedgrid", "torch", "ray", "scikit-learn", "hdbscan", "numpy")
"""Packages whose versions a run's tags have."""
ARCHIVE = {"source": "the OCFL authors' archive"}
"""Tags of an imported run, in place of this host, commit and versions."""


def metric_meanings() -> dict[str, str]:
    """Collect key -> meaning of the metrics that MLflow and TensorBoard show of a round.

    A key has a section, by which they sort their charts: `clustering/ari`. Metrics are declared in
    `record_columns`, in algorithms' entries and in `tracking.scoring.scores`. They are few because MLflow's
    UI slows down with more; the others are in the Parquet artifacts.
    """
    algorithm_numbers = (number for entry in ALGORITHMS.values() for number in entry.numbers)
    local_numbers = (number for method in LOCAL_METHODS.values() for number in method.numbers)
    declared: Sequence[RecordColumn | Score | OwnNumber] = (
        *EVERY_COLUMN["rounds"],
        *ROUND_SCORES,
        *PROBABILITIES,
        *PREDICTED,
        *HELD_OUT,
        *algorithm_numbers,
        *local_numbers,
    )
    return {f"{one.section}/{one.name}": one.meaning for one in declared if one.section}


def strip_section(key: str) -> str:
    """Remove the section from a metric's key."""
    return key.rpartition("/")[2]


def select_metrics(scores: Mapping[str, Any]) -> Mapping[str, float | int | bool | None]:
    """Select the metrics of a round by key, None where the round has none."""
    return {key: scores.get(strip_section(key)) for key in metric_meanings()}


def format_run_name(config: RunConfig, axes: Sequence[str] = ()) -> str:
    """Format a run's name in MLflow.

    It begins with what distinguishes runs, as lists show 20 characters: `ocfl-hdbscan s0 NB, rounds 5,
    digits-15`. A split with several words is shown by its initials, as in the papers; the tag `split` has it
    whole.

    Args:
        config: The run's configuration.
        axes: The grid's further axes, as in `build_tags`, none by default. Their last words are shown, unless
            two axes end in the same word.
    """
    # Two axes may end in the same word, as `training.momentum` and `algorithm.momentum`: these are written
    # out.
    last = Counter(axis.rpartition(".")[2] for axis in axes)
    own = [
        f"{word if last[word] == 1 else axis.removeprefix(SETTING_PREFIX)} {value}"
        for axis, value in list_axis_pairs(config, axes)
        for word in [axis.rpartition(".")[2]]
    ]
    kind = config.split.kind
    split = "".join(word[0] for word in kind.split("-")).upper() if "-" in kind else kind
    begin = f"{config.algorithm.name} s{config.seed} {split}"
    return ", ".join([begin, *own, f"{config.short_dataset}-{config.clients}"])


def build_tags(config: RunConfig, grid_name: str, axes: Sequence[str] = ()) -> dict[str, str]:
    """Build a tag for each axis, for the UI's filter.

    Args:
        config: The run's configuration.
        grid_name: Name of the grid.
        axes: The grid's further axes, none by default; their tags have the names of the keys, as
            `training.local_epochs`. Those that are settings of the algorithm together make the tag `variant`:
            `round 6, threshold 0.4`.
    """
    settings = [axis for axis in axes if axis.startswith(SETTING_PREFIX)]
    return {
        "grid": grid_name,
        "scenario": config.scenario,
        "model": config.model,
        **dict(list_axis_pairs(config, (*AXES, *axes))),
        **({"variant": variant} if (variant := format_variant(config, settings)) else {}),
    }


def build_source_tags(grid_name: str, config: RunConfig | None = None) -> dict[str, str]:
    """Build the tags of what made a run: this command, host, commit and versions.

    Args:
        grid_name: Name of the grid.
        config: The run's configuration, None (the default) for the grid's own run. An imported run gets the
            archive in place of this host.
    """
    # An imported run was made by others: this host and commit would be wrong.
    is_ours = config is None or not is_archived(config)
    return {**(read_origin() if is_ours else ARCHIVE), **build_command_tags(grid_name)}


def build_command_tags(grid_name: str) -> dict[str, str]:
    """Build the tags of MLflow's column *Source*, and the tag with the whole command line.

    MLflow shows of a source what follows its last slash; the tag has the command without options and paths.
    """
    program, *words = [Path(sys.argv[0]).name or "python", *sys.argv[1:]]
    entry_point = words[0] if program == "fedgrid" and words else "run"
    return {
        "mlflow.source.name": f"fedgrid {entry_point} {grid_name}",
        "mlflow.source.type": "LOCAL",
        "mlflow.project.entryPoint": entry_point,
        "command": " ".join([program, *words]),
    }


@cache
def read_origin() -> dict[str, str]:
    """Read the host, the git commit and the versions that runs are made with here.

    MLflow has its own tag for the commit, which its column *Version* shows.
    """
    code = read_commit()
    return {
        "host": node(),
        "commit": code,
        **({} if code == UNKNOWN else {"mlflow.source.git.commit": code}),
        "versions": ", ".join(
            [f"python {python_version()}", *(f"{name} {find_version(name)}" for name in VERSIONS)]
        ),
    }


def read_totals(folder: Path) -> dict[str, float]:
    """Read the totals of a run over all sessions, named as in `TOTALS`; empty before its first round."""
    times = Times()
    with suppress(DamagedFile):  # Its run is not finished: the next launch repeats it, and logs its totals.
        times = read_times(folder)
    names = ("seconds", "uncached_seconds", "rounds_computed", "peak_memory_mb") if times.rounds else ()
    return {f"cost/{name}": value for name in names if (value := getattr(times, name)) is not None}

"""The table of an attack: how much it learns under each algorithm, with the quality of the clusters.

A run's number is the mean over its clients, or over those alone in their cluster; a row's number is the mean
over seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any, TypeAlias

import numpy as np

from fedgrid.grids.analyses.analysis import JobResult, means_table
from fedgrid.grids.attack.settings import AttackKind
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.results.study import load_readable_results
from fedgrid.tracking.papers.prigent.tables import build_attack_table, is_in_setting, name_encoder
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.tables.table import Column, Table

AttackRow = Mapping[str, Any]
"""A row of results."""
Number: TypeAlias = Callable[[Sequence[AttackRow]], float]
AttackNumbers: TypeAlias = Sequence[tuple[Run, Mapping[str, float]]]
"""Each run with its numbers by group and heading, as `updates AUC`; NaN where there is none."""
ALONE = "partition alone"


def _build_mean(column: str, source: str | None = None, *, alone: bool | None = None) -> Number:
    """Build a function that computes the mean of a column over clients.

    Args:
        column: Name of the column.
        source: Source of the rows that count, `model`, `update` or `message`; None for all.
        alone: Whether clients that are alone in their cluster count, or the others; None for all.
    """

    def compute_mean(rows: Sequence[AttackRow]) -> float:
        """Compute the mean over the rows that count, NaN if there are none."""
        chosen = [
            (float(value), row.get("clients", 1))
            for row in rows
            if (value := row.get(column)) is not None
            and (source is None or row.get("of") == source)
            and (alone is None or row.get("alone") == alone)
        ]
        if not chosen:
            return nan
        values, clients = zip(*chosen, strict=True)
        # A row of a cluster's model stands for all clients of the cluster.
        return float(np.average(values, weights=clients))

    return compute_mean


COLUMNS: Mapping[AttackKind, Mapping[tuple[str, str], Number]] = {
    "membership": {
        ("cluster models", "AUC"): _build_mean("auc", "model"),
        ("cluster models", "calibrated"): _build_mean("auc_calibrated", "model"),
        ("cluster models", "if alone"): _build_mean("auc", "model", alone=True),
        ("updates", "AUC"): _build_mean("auc", "update"),
        ("updates", "calibrated"): _build_mean("auc_calibrated", "update"),
        ("updates", "if alone"): _build_mean("auc", "update", alone=True),
    },
    "class": {
        ("guessed right from", "blind"): _build_mean("blind_right"),
        ("guessed right from", "partition"): _build_mean("partition_right"),
        ("guessed right from", "model"): _build_mean("model_right"),
        ("guessed right from", "update"): _build_mean("update_right"),
        ("a class it holds", "blind"): _build_mean("blind_held"),
        ("a class it holds", "partition"): _build_mean("partition_held"),
        ("if alone", "model"): _build_mean("model_right", alone=True),
    },
    "reconstruction": {
        ("error from messages", "MSE"): _build_mean("mse", "message"),
        ("error from messages", "as they are"): _build_mean("mse_plain", "message"),
        ("error from messages", "of a random vector"): _build_mean("mse_random", "message"),
        ("error from updates", "MSE"): _build_mean("mse", "update"),
        ("error from updates", "of a class's mean"): _build_mean("mse_class", "update"),
        ("error from updates", "of a random image"): _build_mean("mse_random", "update"),
        ("error from updates", "if alone"): _build_mean("mse", "update", alone=True),
    },
}
"""Group and heading of a column -> function that computes a run's number."""
CAPTIONS: Mapping[AttackKind, str] = {
    "membership": "AUC: probability that an image a client trains on has a smaller loss than a test image "
    "that no client trains on; 0.5 gives nothing away. Cluster models: after the round; updates: the model "
    "that a client sends in it. Calibrated: the loss minus that of the other clusters' models, or of the "
    "model before the client's step.",
    "class": "Share of the clients whose majority class is guessed right. Blind: the commonest one of all "
    "other clients; partition: of those in its cluster; model: the class that its cluster's model "
    "predicts most; update: the class whose last bias grows most. A class it holds: the guess is one of the "
    "client's classes.",
    "reconstruction": "Mean squared error of pixels in [0, 1]. From messages: of a client's class means, "
    "decoded from its bits; as they are: without the scale that the server estimates; a random vector "
    "knows nothing. "
    "From updates: inverted gradients, one image a class, against the client's nearest image of that class; "
    "beside it the errors of the mean of the class at the server, and of a random image.",
}


def compute_means(result: JobResult) -> dict[str, float]:
    """Compute the numbers of a run by group and heading, as `updates AUC`; NaN where there is none."""
    columns = COLUMNS[result.job.settings.kind]
    return {" ".join(heading): mean(result.about["rows"]) for heading, mean in columns.items()}


def read_numbers(results: Sequence[JobResult]) -> AttackNumbers:
    """Read each run's numbers, with the ARI of its clusters and how many of its clients are alone.

    A warning names the runs whose records do not fit together, which are left out.
    """
    runs = load_readable_results(
        (result.run for result in results), lambda error: warn(f"{error}; its attack is left out")
    )
    return [
        (
            run,
            {
                "partition ARI": runs[run.run_id].last("ari"),
                # Read from the records, not from the attack, which may be after another round.
                ALONE: runs[run.run_id].last("clients_alone"),
                **compute_means(result),
            },
        )
        for result in results
        if (run := result.run).run_id in runs
    ]


def build_kind_table(kind: AttackKind, numbers: AttackNumbers, after: int | None = None) -> Table:
    """Build the table of one kind of attack.

    Args:
        kind: The kind.
        numbers: Each run with its numbers.
        after: Round that was attacked; None, the default, for the last one.
    """
    headings = [("partition", "ARI"), ("partition", "alone"), *COLUMNS[kind]]
    return means_table(
        f"attack-{kind}",
        f"Attack: {kind}" + (f", after round {after}" if after else ""),
        CAPTIONS[kind] + " Alone: clients whose cluster has no other. –: none. Means over clients and seeds.",
        {" ".join(heading): Column(heading[1], heading[0]) for heading in headings},
        numbers,
        {ALONE: 1},
    )


def compare_published(numbers: AttackNumbers) -> Table | None:
    """Compare our errors of messages with Prigent et al.'s Table II; None without runs of its setting."""
    errors: dict[str, list[float]] = {}
    for run, run_numbers in numbers:
        if (level := find_level(run)) and not np.isnan(error := run_numbers["error from messages MSE"]):
            errors.setdefault(level, []).append(error)
    return build_attack_table(errors)


def find_level(run: Run) -> str | None:
    """Find a run's row of Prigent et al.'s Table II: `none` or a flip probability; None if it has none."""
    if run.dataset != "mnist" or not is_in_setting(run) or name_encoder(run) != "federated":
        return None
    return "none" if run.keys.get("algorithm.quantise") == "false" else run.keys.get("algorithm.flip")

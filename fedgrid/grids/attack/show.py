"""The table of an attack: how much it learns under each algorithm, beside how well that clusters.

A run's number is the mean over its clients, or over those alone in their cluster; a row's that over seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fedgrid.grids.attack.settings import AttackKind
from fedgrid.tracking.papers.prigent.tables import encoder_of, is_in_setting
from fedgrid.tracking.scoring.axes import scenario_words
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.tables.table import Column, Row, Table, number

AttackRow = Mapping[str, Any]
"""A row of results."""
Number: TypeAlias = Callable[[Sequence[AttackRow]], float]
NAN = float("nan")
SummaryRows = list[dict[str, Any]]
LEVEL = "level"
"""In a summary: the row of a published table that an algorithm's runs stand beside, if any."""


def _mean(column: str, of: str | None = None, *, alone: bool | None = None) -> Number:
    """Return a function for the mean of a column over clients: of a source, of those alone."""

    def mean(rows: Sequence[AttackRow]) -> float:
        chosen = [
            (float(value), row.get("clients", 1))
            for row in rows
            if (value := row.get(column)) is not None
            and (of is None or row.get("of") == of)
            and (alone is None or row.get("alone") == alone)
        ]
        if not chosen:
            return NAN
        values, clients = zip(*chosen, strict=True)
        return float(np.average(values, weights=clients))

    return mean


COLUMNS: Mapping[AttackKind, Mapping[tuple[str, str], Number]] = {
    "membership": {
        ("cluster models", "AUC"): _mean("auc", "model"),
        ("cluster models", "calibrated"): _mean("auc_calibrated", "model"),
        ("cluster models", "if alone"): _mean("auc", "model", alone=True),
        ("updates", "AUC"): _mean("auc", "update"),
        ("updates", "calibrated"): _mean("auc_calibrated", "update"),
        ("updates", "if alone"): _mean("auc", "update", alone=True),
    },
    "class": {
        ("guessed right from", "blind"): _mean("blind_right"),
        ("guessed right from", "partition"): _mean("partition_right"),
        ("guessed right from", "model"): _mean("model_right"),
        ("guessed right from", "update"): _mean("update_right"),
        ("a class it holds", "blind"): _mean("blind_held"),
        ("a class it holds", "partition"): _mean("partition_held"),
        ("if alone", "model"): _mean("model_right", alone=True),
    },
    "reconstruction": {
        ("error from messages", "MSE"): _mean("mse", "message"),
        ("error from messages", "as they are"): _mean("mse_plain", "message"),
        ("error from messages", "of a random vector"): _mean("mse_random", "message"),
        ("error from updates", "MSE"): _mean("mse", "update"),
        ("error from updates", "of a class's mean"): _mean("mse_class", "update"),
        ("error from updates", "of a random image"): _mean("mse_random", "update"),
        ("error from updates", "if alone"): _mean("mse", "update", alone=True),
    },
}
"""Group and heading of a column -> a run's number."""
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


def summary_of(
    kind: AttackKind, pairs: Sequence[tuple[Run, AttackRow]], results: Mapping[str, Run]
) -> SummaryRows:
    """Return a row for each scenario and algorithm: names, and lists of the runs' numbers."""
    by_run: dict[str, list[AttackRow]] = {}
    runs = {run.run_id: run for run, _ in pairs}
    for run, row in pairs:
        by_run.setdefault(run.run_id, []).append(row)
    rows: dict[tuple[Any, str], dict[str, Any]] = {}
    for run_id, of_run in by_run.items():
        run = runs[run_id]
        row = rows.setdefault(
            (run.scenario, run.algorithm),
            {"scenario": scenario_words(run.scenario), "algorithm": run.algorithm, LEVEL: level_of(run)},
        )
        numbers = {
            "partition ARI": results[run_id].last("ari"),
            "partition alone": results[run_id].last("clients_alone"),
            **{" ".join(heading): of(of_run) for heading, of in COLUMNS[kind].items()},
        }
        for name, value in numbers.items():
            row.setdefault(name, []).append(None if np.isnan(value) else float(value))
    return list(rows.values())


def table_of(kind: AttackKind, summary: SummaryRows, after: int | None = None) -> Table:
    """Return the table for the terminal; `after` is the round that was attacked, None the last one."""
    headings = [("partition", "ARI"), ("partition", "alone"), *COLUMNS[kind]]
    scenarios = {row["scenario"] for row in summary}
    return Table(
        f"attack-{kind}",
        f"Attack: {kind}"
        + (f", {summary[0]['scenario']}" if len(scenarios) == 1 else "")
        + (f", after round {after}" if after else ""),
        CAPTIONS[kind] + " Alone: clients whose cluster has no other. –: none. Means over clients and seeds.",
        tuple(Column(name, group) for group, name in headings),
        tuple(
            Row(
                row["algorithm"],
                tuple(
                    number(
                        [NAN if value is None else value for value in row[f"{group} {name}"]],
                        expected=len(row[f"{group} {name}"]),
                        digits=1 if name == "alone" else 3,
                    )
                    for group, name in headings
                ),
                section=row["scenario"] if len(scenarios) > 1 else "",
            )
            for row in summary
        ),
        corner="algorithm",
    )


def level_of(run: Run) -> str | None:
    """Return a run's row of Prigent et al.'s Table II: `none` or a flip probability; None if it has none."""
    if run.dataset != "mnist" or not is_in_setting(run) or encoder_of(run) != "federated":
        return None
    return "none" if run.keys.get("algorithm.quantise") == "false" else run.keys.get("algorithm.flip")

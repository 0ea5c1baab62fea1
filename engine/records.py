"""What a run leaves behind, row by row; the same bytes every time, so no clock reading here.

`rounds` has one row a round, `clients` one row a round and client. Everything else (scores, tables,
figures) is computed from these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fedgrid.algorithms.contract.base import Diagnostics, Labels
from fedgrid.engine.clients.messages import TrainReport
from fedgrid.engine.training.confusion import Counts, Scores, scores

SCORES = {
    "loss": pa.float64(),
    "accuracy": pa.float64(),
    "f1_union": pa.float64(),
    "f1_own": pa.float64(),
    "balanced_accuracy": pa.float64(),
    "recall": pa.list_(pa.float64()),
}
"""`f1_union` averages over the classes true or predicted (as published), `f1_own` over the true ones;
`recall` has one value a class, NaN where the class is absent."""

TESTS = ("local_own", "local_server", "cluster_own", "cluster_server")
"""Which model (the locally trained one; its cluster's, after aggregation) on which test set (the client's
own; the server's)."""

ROUNDS = pa.schema(
    {
        "round": pa.int32(),
        "temperature": pa.float64(),
        "clusters": pa.int32(),
        "clustered": pa.bool_(),
        "bytes_down": pa.int64(),
        "bytes_up": pa.int64(),
        "excluded": pa.int32(),
        "warnings": pa.int32(),
        "mean_norm": pa.float64(),
        "max_norm": pa.float64(),
        "silhouette": pa.float64(),
    }
)

CLIENTS = pa.schema(
    {
        "round": pa.int32(),
        "client": pa.int32(),
        "cluster": pa.int32(),
        "true_cluster": pa.int32(),
        "part": pa.string(),
        "placed": pa.string(),
        "excluded": pa.bool_(),
        "train_images": pa.int32(),
        "test_images": pa.int32(),
        "train_loss": pa.float64(),
        "train_accuracy": pa.float64(),
        "update_norm": pa.float64(),
        **{f"{test}_{name}": kind for test in TESTS for name, kind in SCORES.items()},
    }
)

LATER = {
    "rounds": ("silhouette",),
    "clients": ("part", "placed"),
    "timings": ("computed_by", "reached_clients", "trained_clients", "waited_seconds", "alone_seconds"),
}
"""Columns that the records of earlier versions lack, in their order: null in the rounds from then."""

TIMINGS = pa.schema(
    {
        "round": pa.int32(),
        "seconds": pa.float64(),
        "train_seconds": pa.float64(),
        "cluster_seconds": pa.float64(),
        "evaluate_seconds": pa.float64(),
        "slowest_client": pa.int32(),
        "slowest_client_seconds": pa.float64(),
        "peak_memory_mb": pa.float64(),
        "computed_by": pa.string(),
        "reached_clients": pa.int32(),
        "trained_clients": pa.int32(),
        "waited_seconds": pa.float64(),
        "alone_seconds": pa.float64(),
    }
)
"""What a clock or the kernel says.

`seconds` are those that the run itself was at work, without `waited_seconds` for another run to finish the
same round. `computed_by` is the id of the run that trained the round's clients: this one, or another from
which it was taken (`engine.round_cache.cached_round`). Of the `reached_clients`, who have an update in this
round, this run trained `trained_clients` itself. `alone_seconds` are what the round would have cost it alone.
`peak_memory_mb` is of the server's and the clients' processes together, each its peak since it started (see
`engine.clients.peak_memory`)."""


PARTS = ("trained", "excluded", "dropped", "not asked", "not joined")
"""What part a client had in a round: `trained` sent an update that counts, `excluded` one that is NaN or
infinite, `dropped` none although it was asked."""


@dataclass(frozen=True)
class RoundRecord:
    """The rows of one round."""

    round: Mapping[str, Any]
    clients: Sequence[Mapping[str, Any]]
    timing: Mapping[str, Any]
    warnings: tuple[str, ...]
    """In words, for the log; `round` holds their number."""


def round_row(
    *,
    number: int,
    temperature: float | None,
    clusters: int,
    diagnostics: Diagnostics,
    bytes_down: int,
    bytes_up: int,
    excluded: int,
) -> dict[str, Any]:
    """Return the row of `ROUNDS`; `number` counts from 1."""
    return {
        "round": number,
        "temperature": temperature,
        "clusters": clusters,
        "clustered": diagnostics.clustered,
        "bytes_down": bytes_down,
        "bytes_up": bytes_up,
        "excluded": excluded,
        "warnings": excluded + len(diagnostics.warnings),
        "mean_norm": diagnostics.mean_norm,
        "max_norm": diagnostics.max_norm,
        "silhouette": diagnostics.silhouette,
    }


def client_row(
    *,
    number: int,
    client: int,
    part: str,
    placed: str | None = None,
    report: TrainReport | None,
    labels_K: Labels,
    truth_K: Labels,
    train_images: int,
    test_images: int,
    tests: Mapping[str, Counts | None],
) -> dict[str, Any]:
    """Return the row of `CLIENTS` of one client; what was not trained or tested leaves nulls.

    `part` is one of `PARTS`; `placed` says why the client was put into a cluster that it came late for.
    """
    row: dict[str, Any] = {
        "round": number,
        "client": client,
        "cluster": int(labels_K[client]),
        "true_cluster": int(truth_K[client]),
        "part": part,
        "placed": placed,
        "excluded": part == "excluded",
        "train_images": train_images,
        "test_images": test_images,
        "train_loss": report.train_loss if report else None,
        "train_accuracy": report.train_accuracy if report else None,
        "update_norm": report.update_norm if report else None,
    }
    for test, counts in tests.items():
        row |= _score_columns(test, None if counts is None else scores(counts))
    return row


def _score_columns(test: str, result: Scores | None) -> dict[str, Any]:
    if result is None:
        return {f"{test}_{name}": None for name in SCORES}
    values = {
        "loss": result.loss,
        "accuracy": result.accuracy,
        "f1_union": result.f1_union,
        "f1_own": result.f1_own,
        "balanced_accuracy": result.balanced_accuracy,
        "recall": result.recall_L.tolist(),
    }
    return {f"{test}_{name}": value for name, value in values.items()}

"""The records of a run: schemas and rows of `rounds.parquet`, `clients.parquet` and `timings.parquet`.

`rounds` has one row per round, `clients` one row per round and client; both have the same bytes whenever the
run is repeated. Wall-clock times and peak memory are in `timings`. Scores, tables and figures are computed
from the records. A new number of a round is declared in `engine.round_metrics`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fedgrid.algorithms.contract.base import Labels
from fedgrid.engine import round_metrics
from fedgrid.engine.clients.messages import TrainReport
from fedgrid.engine.disturbances.faults import FAULT
from fedgrid.engine.partition.scenarios import CENTRALISED
from fedgrid.engine.round_metrics import RoundOutcome
from fedgrid.engine.training.confusion import TestScores
from fedgrid.engine.uplink.accountant import CLUSTER_EPSILON, EPSILON

SCORES = {
    "loss": pa.float64(),
    "accuracy": pa.float64(),
    "f1_union": pa.float64(),
    "f1_own": pa.float64(),
    "balanced_accuracy": pa.float64(),
    "recall": pa.list_(pa.float64()),
}
"""`f1_union` averages over the classes that are true or predicted (as published), `f1_own` over those in the
test set; `recall` has one value per class, NaN for a class that the test set lacks."""

TESTS = ("local_own", "local_server", "cluster_own", "cluster_server")
"""Model (the client's after local training; its cluster's after aggregation) and test set (the client's own;
the server's)."""
GLOBAL_TESTS = ("global_own", "global_server")
"""The same of the one model for all, where `evaluation.global_model` asks for it."""


COUNTS, MEMBERS, MESSAGE = "counts", "members", "message"
"""Columns of algorithms that fill them (`Traits.columns`): how many clients chose each model in a round;
the clients whose models a client's cluster averages, where clusters may overlap; with `message` those of
`MESSAGE_BYTES` and `MESSAGE_SECONDS`."""
MESSAGE_BYTES = {"message_bytes": pa.int64(), "encoder_bytes": pa.int64()}
"""Of `rounds.parquet`: what newcomers said about their data in this round, and what their encoder cost: its
federated training before round 1, and its way to them. Both are part of the round's traffic."""
MESSAGE_SECONDS = {"message_seconds": pa.float64(), "epoch_seconds": pa.float64()}
"""Of `timings.parquet`: means over clients of the time of a message, and of a local epoch without tests; null
in rounds without any."""
NONE: frozenset[str] = frozenset()


def rounds_schema(columns: Collection[str] = NONE) -> pa.Schema:
    """Return the columns of `rounds.parquet`: the round's number, then `ROUND_METRICS`."""
    numbers = {metric.name: metric.type for metric in round_metrics.ROUND_METRICS}
    counts = {COUNTS: pa.list_(pa.int32())} if COUNTS in columns else {}
    noise = round_metrics.NOISE_METRICS if EPSILON in columns else ()
    norms = round_metrics.CENTRALISED_METRICS if CENTRALISED in columns else ()
    further = {metric.name: metric.type for metric in (*noise, *norms)}
    message = MESSAGE_BYTES if MESSAGE in columns else {}
    return pa.schema({"round": pa.int32(), **numbers, **counts, **further, **message})


ROUND_NUMBERS = frozenset(rounds_schema({COUNTS, EPSILON, CENTRALISED, MESSAGE}).names)
"""Every name that a column of some run's `rounds.parquet` has."""


def clients_schema(global_model: bool = False, columns: Collection[str] = NONE) -> pa.Schema:
    """Return the columns of `clients.parquet`; arguments as of `schemas`."""
    tests = TESTS + GLOBAL_TESTS * global_model
    fault = {FAULT: pa.string()} if FAULT in columns else {}
    members = {MEMBERS: pa.list_(pa.int32())} if MEMBERS in columns else {}
    spent = dict.fromkeys((EPSILON, CLUSTER_EPSILON), pa.float64()) if EPSILON in columns else {}
    return pa.schema(
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
            **{f"{test}_{name}": kind for test in tests for name, kind in SCORES.items()},
            **members,
            **fault,
            **spent,
        }
    )


CLIENTS = clients_schema()
"""Of a run that does not test the global model."""

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
        "uncached_seconds": pa.float64(),
        "ended_ms": pa.int64(),
    }
)
"""Wall-clock times and peak memory of a round.

`seconds` excludes `waited_seconds`, the time spent waiting for another run that computed the same round.
`computed_by` is the id of the run that trained the clients of this round: this run, or the one whose round
was taken from the cache (`engine.round_cache.cached_round`). `reached_clients` have an update in this round;
`trained_clients` of them were trained by this run. `uncached_seconds` is the time that the round would have
taken without the cache. `peak_memory_mb` is the sum over the server's and the clients' processes of the peak
of each since it started (`engine.clients.peak_memory`). `ended_ms` is the Unix time of the round's end in
milliseconds."""

EVERY_TIMING = pa.schema([*TIMINGS, *pa.schema(MESSAGE_SECONDS)])
"""Those of any algorithm."""


def schemas(global_model: bool = False, columns: Collection[str] = NONE) -> dict[str, pa.Schema]:
    """Return name of the file, without its suffix -> columns.

    `global_model` is `evaluation.global_model`, `columns` are the run's own (`algorithm_of.own_columns`).
    """
    clients = clients_schema(global_model, columns)
    timings = EVERY_TIMING if MESSAGE in columns else TIMINGS
    return {"rounds": rounds_schema(columns), "clients": clients, "timings": timings}


PARTS = ("trained", "excluded", "dropped", "not asked", "not joined", "spent")
"""A client's part in a round: `trained` sent a usable update, `excluded` one that is NaN or infinite,
`dropped` was sampled but sent none, `not asked` was not sampled, `not joined` is not in the federation
yet, `spent` was sampled but has not enough left of its privacy budget."""


@dataclass(frozen=True)
class RoundRecord:
    """The rows of one round."""

    round: Mapping[str, Any]
    clients: Sequence[Mapping[str, Any]]
    timing: Mapping[str, Any]
    warnings: tuple[str, ...]
    """Lines for `log.txt`; `round` has their number."""


def round_row(number: int, outcome: RoundOutcome, columns: Collection[str] = NONE) -> dict[str, Any]:
    """Return the row of `rounds.parquet`; `number` counts from 1, `columns` are as in `schemas`."""
    own: dict[str, Any] = {COUNTS: outcome.diagnostics.counts} if COUNTS in columns else {}
    if MESSAGE in columns:
        own |= {name: getattr(outcome, name) for name in MESSAGE_BYTES}
    if CENTRALISED in columns:
        own |= {metric.name: metric.value(outcome) for metric in round_metrics.CENTRALISED_METRICS}
    return {"round": number, **round_metrics.values(outcome), **own}


def client_row(
    *,
    number: int,
    client: int,
    part: str,
    placed: str | None = None,
    members: Sequence[int] | None = None,
    report: TrainReport | None,
    labels_K: Labels,
    truth_K: Labels,
    train_images: int,
    test_images: int,
    tests: Mapping[str, TestScores | None],
) -> dict[str, Any]:
    """Return a client's row of `CLIENTS`, null where it was not trained or not tested.

    `part` is one of `PARTS`. `placed` is the reason for the cluster of a client that was absent from the
    clustering. `members` are written where the algorithm has that column.
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
    for test, result in tests.items():
        row |= _score_columns(test, result)
    return row if members is None else row | {MEMBERS: list(members)}


def _score_columns(test: str, result: TestScores | None) -> dict[str, Any]:
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

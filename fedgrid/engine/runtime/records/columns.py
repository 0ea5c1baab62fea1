"""The columns of a run's Parquet files, each declared once: name, type, meaning.

The schemas in `runtime.records.schemas` and `explain.explanations.records` are made of them, and the tables
of the documentation. The numbers of a round are in `federation.round.metrics`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from fedgrid.engine.federation.record_names import (
    CLUSTER_EPSILON,
    COUNTS,
    EPSILON,
    FAULT,
    MEMBERS,
    PARTS,
    SCORES,
)


@dataclass(frozen=True)
class RecordColumn:
    """The declaration of one column."""

    name: str
    type: pa.DataType
    meaning: str
    """One sentence for the documentation."""


def schema_of(columns: Iterable[RecordColumn]) -> pa.Schema:
    """Return the schema of these columns, in their order."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])


RECALL = "recall"
_MODELS = {
    "local_own": "The client's model after local training, on its own test images",
    "local_server": "The client's model after local training, on the server's images",
    "cluster_own": "The model that the client is served after the round, on its own test images",
    "cluster_server": "The model that the client is served after the round, on the server's images",
    "global_own": "The one model for all, on the client's own test images (`evaluation.global_model`)",
    "global_server": "The one model for all, on the server's images (`evaluation.global_model`)",
}
_SCORES = {
    "loss": "mean cross-entropy, in nats",
    "accuracy": "share of right answers",
    "f1_union": "mean F1 over the classes that are true or predicted, as published",
    "f1_own": "mean F1 over the classes in the test set",
    "balanced_accuracy": "mean recall over the classes in the test set",
    "recall": "recall of each class, NaN for one that the test set lacks",
}

ROUND = RecordColumn("round", pa.int32(), "Number of the round, from 1.")
OF_COUNTS = RecordColumn(COUNTS, pa.list_(pa.int32()), "How many clients chose each model (IFCA).")
BYTES_OF_MESSAGES = (
    RecordColumn(
        "message_bytes",
        pa.int64(),
        "Bytes of what newcomers said about their data in this round; in `bytes_up` too.",
    ),
    RecordColumn(
        "encoder_bytes",
        pa.int64(),
        "Bytes of the encoder's federated training before round 1, and of its way to newcomers; in "
        "`bytes_up` and `bytes_down` too.",
    ),
)
"""Of `rounds.parquet`, with `message`."""

CLIENT = (
    ROUND,
    RecordColumn("client", pa.int32(), "The client, from 0."),
    RecordColumn("cluster", pa.int32(), "The cluster that it is in after the round."),
    RecordColumn("true_cluster", pa.int32(), "Its hidden group in this round."),
    RecordColumn("part", pa.string(), f"What it did: {', '.join(f'`{part}`' for part in PARTS)}."),
    RecordColumn(
        "placed",
        pa.string(),
        "Why a client that was absent from the clustering is in its cluster; else null.",
    ),
    RecordColumn("excluded", pa.bool_(), "Whether its update was left out because it is NaN or infinite."),
    RecordColumn("train_images", pa.int32(), "Number of its training images."),
    RecordColumn("test_images", pa.int32(), "Number of its test images."),
    RecordColumn("train_loss", pa.float64(), "Running mean cross-entropy of its last local epoch."),
    RecordColumn("train_accuracy", pa.float64(), "Running accuracy of its last local epoch."),
    RecordColumn(
        "update_norm", pa.float64(), "Euclidean norm of its update over the whole state, as it was sent."
    ),
)
"""Of `clients.parquet`, before its tests; null where the client was not trained."""
OF_MEMBERS = RecordColumn(
    MEMBERS,
    pa.list_(pa.int32()),
    "The clients whose models its cluster averages, where clusters may overlap (FLIS).",
)
OF_FAULT = RecordColumn(FAULT, pa.string(), "What it does as an attacker; null of an honest client.")
SPENT = (
    RecordColumn(EPSILON, pa.float64(), "Its epsilon so far, at `privacy.delta`."),
    RecordColumn(
        CLUSTER_EPSILON,
        pa.float64(),
        "The same of all present members of its cluster as one, whose data change together.",
    ),
)
"""Of `clients.parquet` of runs with noise."""


def of_tests(tests: Iterable[str]) -> tuple[RecordColumn, ...]:
    """Return the columns of some of `TESTS` and `GLOBAL_TESTS`; null where there was no test."""
    return tuple(
        RecordColumn(
            f"{test}_{name}",
            pa.list_(pa.float64()) if name == RECALL else pa.float64(),
            f"{_MODELS[test]}: {_SCORES[name]}.",
        )
        for test in tests
        for name in SCORES
    )


TIMING = (
    ROUND,
    RecordColumn("seconds", pa.float64(), "Wall-clock time of the round, without `waited_seconds`."),
    RecordColumn("train_seconds", pa.float64(), "Of these, the clients' training."),
    RecordColumn("cluster_seconds", pa.float64(), "Of these, the algorithm's step: clustering, averaging."),
    RecordColumn("evaluate_seconds", pa.float64(), "Of these, the tests of the models after the round."),
    RecordColumn("slowest_client", pa.int32(), "The client whose training and tests took longest."),
    RecordColumn("slowest_client_seconds", pa.float64(), "How long they took."),
    RecordColumn(
        "peak_memory_mb",
        pa.float64(),
        "Sum over the server's and the clients' processes of the peak of each since it started.",
    ),
    RecordColumn(
        "computed_by",
        pa.string(),
        "Id of the run that trained the clients: this one, or the one whose round was taken from the cache.",
    ),
    RecordColumn("reached_clients", pa.int32(), "Number of clients that have an update in this round."),
    RecordColumn("trained_clients", pa.int32(), "Number of those that this run has trained."),
    RecordColumn(
        "waited_seconds", pa.float64(), "Time spent waiting for another run that computed the same round."
    ),
    RecordColumn("uncached_seconds", pa.float64(), "Time that the round would have taken without the cache."),
    RecordColumn("ended_ms", pa.int64(), "Unix time of the round's end, in milliseconds."),
)
"""Of `timings.parquet`: wall-clock times and peak memory of a round."""
MESSAGE_SECONDS = (
    RecordColumn(
        "message_seconds",
        pa.float64(),
        "Mean time over clients of a message about their data; null in rounds without any.",
    ),
    RecordColumn(
        "epoch_seconds",
        pa.float64(),
        "Mean time over clients of a local epoch without tests; null in rounds without any.",
    ),
)
"""Of `timings.parquet`, with `message`."""

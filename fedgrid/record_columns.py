"""The columns of a run's Parquet files, each declared once: name, type, meaning, and what it can hold.

Schemas, the checks of what was read (`parquet_files`), MLflow's metrics of a round and the tables of the
documentation follow from the declarations. The engine's first floor writes rows by the names in
`engine.federation.record_names`. Records of a version without a column read as null.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

LARGEST_EXACT = 1 << 53
"""Largest whole number up to which a float holds all of them."""
LARGEST_NUMBER = 1e50
"""Bound of columns without a range: far beyond a norm of float32 numbers."""
LARGEST_COUNT = 1 << 31
"""Bound of numbers of rounds, clients or clusters."""


@dataclass(frozen=True)
class RecordColumn:
    """The declaration of one column: name, type, meaning and range."""

    name: str
    """Name of the column."""
    type: pa.DataType
    """Type of its values, as Arrow calls it."""
    meaning: str
    """One sentence for the documentation and for MLflow."""
    least: float = -LARGEST_NUMBER
    """Least value."""
    greatest: float = LARGEST_NUMBER
    """Greatest value."""
    required: bool = False
    """Whether every row has a value."""
    infinite: bool = False
    """Whether a value may be infinite, as a training that diverged leaves them."""
    only: str = ""
    """Requirements of the column, separated by spaces: keys of `evaluation`, words of `Traits.columns`."""
    section: str = ""
    """Its section among MLflow's metrics; empty: MLflow does not show it."""


def build_schema(columns: Iterable[RecordColumn]) -> pa.Schema:
    """Build the schema of these columns, in their order."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def build_schemas(columns: Collection[str] = ()) -> dict[str, pa.Schema]:
    """Build the schema of each of a run's record files.

    Args:
        columns: the run's own (`run_algorithm.list_own_columns`): words of `RecordColumn.only`, and numbers
            of a round that an algorithm's entry declares.

    Returns:
        Name of the file, without its suffix -> its schema.
    """
    # The rest of `columns` are names of numbers, sorted so that the file does not depend on a set's order.
    own = set(columns)
    words = " ".join(column.only for declared in EVERY_COLUMN.values() for column in declared).split()
    numbers = [RecordColumn(name, pa.float64(), "") for name in sorted(own.difference(words))]
    chosen = {
        file: [column for column in declared if own.issuperset(column.only.split())]
        for file, declared in EVERY_COLUMN.items()
    }
    chosen["rounds"] += numbers
    return {file: build_schema(own_columns) for file, own_columns in chosen.items()}


def _bytes_column(name: str, meaning: str, *, only: str = "", section: str = "") -> RecordColumn:
    """Declare a column of bytes."""
    return RecordColumn(name, pa.int64(), meaning, 0, LARGEST_EXACT, only=only, section=section)


def _seconds_column(name: str, meaning: str, *, required: bool = False, only: str = "") -> RecordColumn:
    """Declare a column of seconds."""
    return RecordColumn(name, pa.float64(), meaning, 0, 1e10, required=required, only=only)


def _float_column(
    name: str, meaning: str, least: float = -LARGEST_NUMBER, greatest: float = LARGEST_NUMBER, **facts: Any
) -> RecordColumn:
    """Declare a column of floats."""
    return RecordColumn(name, pa.float64(), meaning, least, greatest, **facts)


ROUND = RecordColumn("round", pa.int32(), "Number of the round, from 1.", 1, LARGEST_COUNT, required=True)
"""The first column of every file."""

ROUNDS = (
    ROUND,
    _float_column(
        "temperature",
        "Half the root mean square of the cosine distances between the clients' updates.",
        0,
        2,
        section="clustering",
    ),
    RecordColumn(
        "clusters", pa.int32(), "Number of clusters after the round.", 0, LARGEST_COUNT, section="clustering"
    ),
    RecordColumn(
        "clustered",
        pa.bool_(),
        "Whether the algorithm decided on a partition, even an unchanged one.",
        required=True,
    ),
    _bytes_column("bytes_down", "Bytes of the models that were sent to clients.", section="cost"),
    _bytes_column("bytes_up", "Bytes of the updates that the server received.", section="cost"),
    RecordColumn("excluded", pa.int32(), "Number of updates left out because they are NaN or infinite."),
    RecordColumn("warnings", pa.int32(), "Number of warnings in `log.txt`.", section="other"),
    _float_column(
        "mean_norm",
        "Largest norm of a cluster's mean update, if the algorithm uses it (Sattler).",
        infinite=True,
    ),
    _float_column(
        "max_norm", "Largest norm of a client's update, if the algorithm uses it (Sattler).", infinite=True
    ),
    _float_column(
        "silhouette",
        "Mean silhouette of the partition on the distances that the algorithm uses; needs no hidden groups. "
        "None for one cluster, and if every client is alone.",
        -1,
        1,
        section="clustering",
    ),
    RecordColumn("counts", pa.list_(pa.int32()), "How many clients chose each model (IFCA).", only="counts"),
    _float_column(
        "epsilon",
        "Largest epsilon of any client so far, at `privacy.delta`; only of runs with noise.",
        infinite=True,
        only="epsilon",
        section="privacy",
    ),
    _float_column(
        "update_l2",
        "Euclidean norm of the update over the parameters; only of split centralised.",
        only="centralised",
    ),
    _float_column(
        "update_l2_state",
        "Euclidean norm of the update over parameters and BatchNorm's buffers; only of split centralised.",
        only="centralised",
    ),
    _float_column(
        "weights_l1_change",
        "L1 norm of the parameters after the round minus that before, of which the OCFL papers' epsilon_1 is "
        "a tenth; only of split centralised.",
        only="centralised",
    ),
    _bytes_column(
        "message_bytes",
        "Bytes of what newcomers said about their data in this round; in `bytes_up` too.",
        only="message",
    ),
    _bytes_column(
        "encoder_bytes",
        "Bytes of the encoder's federated training before round 1, and of its way to newcomers; in "
        "`bytes_up` and `bytes_down` too.",
        only="message",
    ),
)
"""Columns of `rounds.parquet`, a row for each round."""

RECALL = "recall"
"""The score that is a list, with a value for each class."""
TESTS = {
    "local_own": "The client's model after local training, on its own test images",
    "local_server": "The client's model after local training, on the server's images",
    "personalised": "The model that the client is served after the round, on its own test images",
    "generalised": "The model that the client is served after the round, on the server's images",
    "global_own": "The one model for all, on the client's own test images (`evaluation.global_model`)",
    "global": "The one model for all, on the server's images (`evaluation.global_model`)",
}
"""Model and test set -> what they are; null where there was no test."""
SCORES = {
    "loss": "mean cross-entropy, in nats; of numbers to predict the mean squared error",
    "accuracy": "share of right answers",
    "f1_union": "mean F1 over the classes that are true or predicted, as published",
    "f1": "mean F1 over the classes in the test set",
    "balanced_accuracy": "mean recall over the classes in the test set",
    RECALL: "recall of each class, NaN for one that the test set lacks",
    "auc": "AUC of a class against the rest, mean over those in the test set (`evaluation.probabilities`)",
    "ece": "expected calibration error, 15 bins (`evaluation.probabilities`)",
    "r2": "R2 of numbers to predict: 1 minus their squared errors over those of the test set's mean",
}
"""Score of a test -> what it is. All but the loss and R2, which may be negative, are shares."""


def _build_test_columns() -> Iterator[RecordColumn]:
    """Yield the columns of every test and score."""
    for test, model in TESTS.items():
        for score, words in SCORES.items():
            # Columns of optional tests and scores exist only in runs that ask for them.
            only = "global_model " if test.startswith("global") else ""
            only += {"auc": "probabilities", "ece": "probabilities", "r2": "target"}.get(score, "")
            is_loss = score == "loss"
            yield RecordColumn(
                f"{test}_{score}",
                pa.list_(pa.float64()) if score == RECALL else pa.float64(),
                f"{model}: {words}.",
                -LARGEST_NUMBER if is_loss or score == "r2" else 0,
                LARGEST_NUMBER if is_loss else 1,
                infinite=is_loss or score == "r2",
                only=only,
            )


CLIENTS = (
    ROUND,
    RecordColumn("client", pa.int32(), "The client, from 0.", 0, LARGEST_COUNT, required=True),
    RecordColumn("cluster", pa.int32(), "The cluster that it is in after the round.", required=True),
    RecordColumn("true_cluster", pa.int32(), "Its hidden group in this round.", required=True),
    RecordColumn(
        "group", pa.string(), "What the data, or a file, call that group (split natural, file).", only="group"
    ),
    RecordColumn(
        "part",
        pa.string(),
        "What it did: `trained`, `excluded`, `dropped`, `not asked`, `not joined`, `held out`, `spent`.",
    ),
    RecordColumn(
        "placed",
        pa.string(),
        "Why a client that was absent from the clustering is in its cluster; else null.",
    ),
    RecordColumn("excluded", pa.bool_(), "Whether its update was left out because it is NaN or infinite."),
    RecordColumn("train_images", pa.int32(), "Number of its training images."),
    RecordColumn("test_images", pa.int32(), "Number of its test images."),
    RecordColumn("train_loss", pa.float64(), "Running mean loss of its last local epoch.", infinite=True),
    _float_column("train_accuracy", "Running accuracy of its last local epoch.", 0, 1),
    _float_column(
        "update_norm", "Euclidean norm of its update over the whole state, as it was sent.", infinite=True
    ),
    *_build_test_columns(),
    _float_column(
        "test_mean", "Mean of the numbers to predict in its test set, standardised.", only="target"
    ),
    _float_column(
        "test_square", "Mean of the squares of the numbers to predict in its test set.", 0, only="target"
    ),
    RecordColumn(
        "members",
        pa.list_(pa.int32()),
        "The clients whose models its cluster averages, where clusters may overlap (FLIS).",
        only="members",
    ),
    RecordColumn(
        "fault", pa.string(), "What it does as an attacker; null of an honest client.", only="fault"
    ),
    _float_column("epsilon", "Its epsilon so far, at `privacy.delta`.", infinite=True, only="epsilon"),
    _float_column(
        "cluster_epsilon",
        "Epsilon of all present members of its cluster as one, whose data change together.",
        infinite=True,
        only="epsilon",
    ),
)
"""Columns of `clients.parquet`, a row for each round and client; null where the client was not trained."""


TIMINGS = (
    ROUND,
    _seconds_column("seconds", "Wall-clock time of the round, without `waited_seconds`.", required=True),
    _seconds_column("train_seconds", "Part of `seconds`: the clients' training."),
    _seconds_column("cluster_seconds", "Part of `seconds`: the algorithm's step."),
    _seconds_column("evaluate_seconds", "Part of `seconds`: the tests of the models after the round."),
    RecordColumn(
        "slowest_client", pa.int32(), "The client whose training and tests took longest.", 0, LARGEST_COUNT
    ),
    _seconds_column("slowest_client_seconds", "Seconds that training and tests of `slowest_client` took."),
    _float_column(
        "peak_memory_mb",
        "Sum over the server's and the clients' processes of the peak of each since it started.",
        0,
        1e12,
    ),
    RecordColumn(
        "computed_by",
        pa.string(),
        "Id of the run that trained the clients: this one, or the one whose round was taken from the cache.",
    ),
    RecordColumn("reached_clients", pa.int32(), "Number of clients that have an update in this round."),
    RecordColumn("trained_clients", pa.int32(), "Number of those that this run has trained."),
    _seconds_column("waited_seconds", "Time spent waiting for another run that computed the same round."),
    _seconds_column("uncached_seconds", "Time that the round would have taken without the cache."),
    RecordColumn("ended_ms", pa.int64(), "Unix time of the round's end, in milliseconds.", 0, 2e14),
    _seconds_column(
        "message_seconds",
        "Mean time over clients of a message about their data; null in rounds without any.",
        only="message",
    ),
    _seconds_column(
        "epoch_seconds",
        "Mean time over clients of a local epoch without tests; null in rounds without any.",
        only="message",
    ),
)
"""Columns of `timings.parquet`: wall-clock times and peak memory of a round."""

EVERY_COLUMN = {"rounds": ROUNDS, "clients": CLIENTS, "timings": TIMINGS}
"""Name of a file, without its suffix -> every column that some run has. Rounds and clients have the same
bytes whenever the run is repeated."""

_DECLARED = {column.name: column for columns in EVERY_COLUMN.values() for column in columns}
"""Name -> declaration of every column."""


def find_column(name: str) -> RecordColumn:
    """Find the declaration of a column; any number is allowed in one without."""
    return _DECLARED.get(name) or RecordColumn(name, pa.float64(), "")

"""What tracking reads from a run's Parquet files: arrays by column, nulls as NaN.

Shapes: R rounds, K clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ROUND_COLUMNS = (
    "temperature",
    "silhouette",
    "clusters",
    "clustered",
    "bytes_down",
    "bytes_up",
    "excluded",
    "warnings",
)
LATER = ("silhouette",)
"""Columns that the records of earlier versions lack."""
TESTS = ("local_own", "local_server", "cluster_own", "cluster_server")
"""Which model (the locally trained one; its cluster's) on which test set (the client's own; the server's)."""
TEST_SCORES = ("loss", "accuracy", "f1_union", "f1_own", "balanced_accuracy")
CLIENT_COLUMNS = (
    "cluster",
    "true_cluster",
    "train_loss",
    "train_accuracy",
    *(f"{test}_{score}" for test in TESTS for score in TEST_SCORES),
)

Array = NDArray[Any]


class RecordsError(ValueError):
    """A run's records are missing or do not fit together."""


@dataclass(frozen=True)
class Records:
    """The records of R whole rounds of one run."""

    round_R: Array
    """Numbers of the rounds, from 1, ascending."""
    rounds: Mapping[str, Array]
    """`ROUND_COLUMNS`, each of shape (R,)."""
    clients: Mapping[str, Array]
    """`CLIENT_COLUMNS`, each of shape (R, K), clients ascending; NaN where a test was not made."""

    @property
    def truth_K(self) -> Array:
        """The hidden group of each client."""
        return np.asarray(self.clients["true_cluster"][0])


def of_rows(round_row: Mapping[str, Any], client_rows: Sequence[Mapping[str, Any]]) -> Records:
    """Return the records of one round that is still in memory."""
    rows = sorted(client_rows, key=lambda row: int(row["client"]))
    return Records(
        np.array([round_row["round"]]),
        {name: np.array([_number(round_row[name])]) for name in ROUND_COLUMNS},
        {name: np.array([[_number(row[name]) for row in rows]]) for name in CLIENT_COLUMNS},
    )


def read(run_folder: Path) -> Records:
    """Return the records of a run, finished or not.

    A run that was killed may have left a round in one file and not yet in the other: such a round is
    left out.

    Raises:
        RecordsError: if there is no whole round yet, or the files do not fit together.
    """
    rounds = _table(run_folder / "rounds.parquet", ("round", *ROUND_COLUMNS)).sort_by("round")
    clients = _table(run_folder / "clients.parquet", ("round", "client", *CLIENT_COLUMNS)).sort_by(
        [("round", "ascending"), ("client", "ascending")]
    )
    whole_R = np.intersect1d(rounds["round"].to_numpy(), clients["round"].to_numpy())
    if not len(whole_R):
        raise RecordsError(f"{run_folder} has no finished round yet; let the run go on and try again")
    rounds, clients = _only(rounds, whole_R), _only(clients, whole_R)
    if len(rounds) != len(whole_R) or len(clients) % len(whole_R):
        raise RecordsError(f"the records in {run_folder} are not one row a round and client; run it again")
    shape = (len(whole_R), len(clients) // len(whole_R))
    return Records(
        whole_R,
        {name: rounds[name].to_numpy() for name in ROUND_COLUMNS},
        {name: clients[name].to_numpy().reshape(shape) for name in CLIENT_COLUMNS},
    )


def _table(path: Path, columns: Sequence[str]) -> pa.Table:
    if not path.exists():
        raise RecordsError(f"no {path.name} in {path.parent}; a run's folder has one after its first round")
    try:
        there = pq.read_schema(path).names
        table = pq.read_table(path, columns=[name for name in columns if name in there or name not in LATER])
        for name in LATER:
            if name in columns and name not in there:
                table = table.append_column(name, pa.nulls(len(table), pa.float64()))
        return table
    except (pa.ArrowException, OSError) as error:
        raise RecordsError(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def _only(table: pa.Table, rounds_R: Array) -> pa.Table:
    return table.filter(pa.array(np.isin(table["round"].to_numpy(), rounds_R)))


def _number(value: Any) -> Any:
    return np.nan if value is None else value

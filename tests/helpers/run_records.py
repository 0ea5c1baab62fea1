"""Records as the engine writes them, without a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.engine.federation.record_names import SCORES, TESTS
from fedgrid.record_columns import build_schemas
from tests.helpers.manifests import list_files

WHOLE = ("round", "client", "cluster", "true_cluster")
TESTED = tuple(f"{test}_{score}" for test in TESTS for score in SCORES if score != "recall")


def write_records(
    folder: Path,
    labels_RK: Sequence[Sequence[int]],
    truth_K: Sequence[int],
    *,
    temperature_R: Sequence[float] | None = None,
    clustered: Sequence[int] = (),
    columns: Mapping[str, Sequence[Sequence[float | str | None]]] | None = None,
) -> Path:
    """Write labels and, where given, per-client `columns`; the rest is null.

    Args:
        folder: of the run, made if missing.
        labels_RK: cluster of each client by round.
        truth_K: hidden group of each client.
        temperature_R: of each round; 0.5 by default.
        clustered: rounds, from 1, in which a partition was chosen.
        columns: name -> R rows of K values; all clients train in all rounds unless it has another `part`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rounds = [
        {
            "round": number,
            "temperature": temperature_R[number - 1] if temperature_R else 0.5,
            "clusters": len(set(labels_K)),
            "clustered": number in clustered,
            "bytes_down": 100 * number,
            "bytes_up": 10 * number,
            "excluded": 0,
            "warnings": 0,
            "silhouette": float("nan"),
            "mean_norm": float("nan"),
            "max_norm": float("nan"),
        }
        for number, labels_K in enumerate(labels_RK, start=1)
    ]
    clients: list[dict[str, Any]] = [
        {
            "round": number,
            "client": client,
            "cluster": label,
            "true_cluster": truth_K[client],
            "part": "trained",
            "train_loss": 1.0 / number,
            "train_accuracy": 0.5,
            **dict.fromkeys(TESTED, None),
            **{name: rows[number - 1][client] for name, rows in (columns or {}).items()},
        }
        for number, labels_K in enumerate(labels_RK, start=1)
        for client, label in enumerate(labels_K)
    ]
    floats = [*TESTED, "train_loss", "train_accuracy"]
    floats += [name for name in (columns or {}) if name not in (*floats, "part")]
    types = {**dict.fromkeys(WHOLE, pa.int32()), "part": pa.string()}
    schema = pa.schema({**types, **dict.fromkeys(floats, pa.float64())})
    timings = [
        {
            "round": row["round"],
            "seconds": 0.5,
            "uncached_seconds": 0.5,
            "peak_memory_mb": 100.0 * row["round"],
        }
        for row in rounds
    ]
    pq.write_table(pa.Table.from_pylist(rounds), folder / "rounds.parquet")
    pq.write_table(pa.Table.from_pylist(clients, schema=schema), folder / "clients.parquet")
    write_timings(folder, timings)
    return folder


def write_timings(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write `timings.parquet` with the columns that the first row has, rounds from 1 on, and list it."""
    rows = [{"round": number, **row} for number, row in enumerate(rows, start=1)]
    schema = pa.schema([field for field in build_schemas()["timings"] if field.name in rows[0]])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "timings.parquet")
    list_files(folder)

"""A run's folder as the engine writes it, without the engine."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracking.records import TEST_SCORES, TESTS

WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    def write(
        labels_RK: Sequence[Sequence[int]],
        truth_K: Sequence[int],
        *,
        temperature_R: Sequence[float] | None = None,
        clustered: Sequence[int] = (),
        columns: Mapping[str, Sequence[Sequence[float | None]]] | None = None,
    ) -> Path:
        """Write labels and, where given, per-client `columns` (R rows of K values); the rest is null."""
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
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
                "mean_norm": None,
                "max_norm": None,
            }
            for number, labels_K in enumerate(labels_RK, start=1)
        ]
        clients: list[dict[str, Any]] = [
            {
                "round": number,
                "client": client,
                "cluster": label,
                "true_cluster": truth_K[client],
                "train_loss": 1.0 / number,
                "train_accuracy": 0.5,
                **dict.fromkeys((f"{test}_{score}" for test in TESTS for score in TEST_SCORES), None),
                **{name: rows[number - 1][client] for name, rows in (columns or {}).items()},
            }
            for number, labels_K in enumerate(labels_RK, start=1)
            for client, label in enumerate(labels_K)
        ]
        floats = {f"{test}_{score}": pa.float64() for test in TESTS for score in TEST_SCORES}
        whole = ("round", "client", "cluster", "true_cluster")
        schema = pa.schema(
            {**dict.fromkeys(whole, pa.int32()), "train_loss": pa.float64(), "train_accuracy": pa.float64()}
            | floats
        )
        pq.write_table(pa.Table.from_pylist(rounds), folder / "rounds.parquet")
        pq.write_table(pa.Table.from_pylist(clients, schema=schema), folder / "clients.parquet")
        return folder

    return write

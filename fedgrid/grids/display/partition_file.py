"""Write who holds what to a file that split `file` reads: `runtime.data.partition_files`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.engine.federation.data.partition import TEST, TRAIN, Partition
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.data.partition_files import CLIENT, EXAMPLE, GROUP, PART
from fedgrid.engine.runtime.data.tables import PARQUET
from fedgrid.redaction import csv_text


def write_partition(path: Path, partition: Partition, groups_K: Sequence[str], pool_size: int) -> None:
    """Write csv, or Parquet by the suffix: a row an example, or one a client and example if they share any.

    Official test images are in no row, nor are groups if all clients are in one.

    Raises:
        DataError: the file cannot be written.
    """
    columns = _columns(partition, groups_K, pool_size)
    try:
        if path.suffix == PARQUET:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), path)
        else:
            text = csv_text([list(columns), *zip(*columns.values(), strict=True)])
            path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; name another file") from error


def _columns(partition: Partition, groups_K: Sequence[str], pool_size: int) -> dict[str, list[Any]]:
    rows: list[tuple[int, int, str]] = []
    for client, (train, test) in enumerate(zip(partition.train_K, partition.test_K, strict=True)):
        rows += [(example, client, TRAIN) for example in train.tolist()]
        if not partition.is_official:
            rows += [(example, client, TEST) for example in test.tolist()]
    rows.sort()
    examples = [example for example, _, _ in rows]
    are_shared = len(set(examples)) < len(examples)
    values: dict[str, list[Any]] = {
        EXAMPLE: examples,
        CLIENT: [client for _, client, _ in rows],
        GROUP: [groups_K[client] for _, client, _ in rows],
        PART: [part for _, _, part in rows],
    }
    if len(set(groups_K)) == 1:
        del values[GROUP]
    if partition.is_official:
        del values[PART]
    if are_shared:
        return values
    del values[EXAMPLE]
    whole = {name: np.full(pool_size, None) for name in values}
    for name, column in values.items():
        whole[name][examples] = column
    return {name: column.tolist() for name, column in whole.items()}

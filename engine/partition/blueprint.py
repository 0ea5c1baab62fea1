"""Class counts of each client as a csv file in the OCFL authors' format (a dataset blueprint).

A header, one row for the server's test set, then two rows per client:

    client_id,partition,total_samples,0,1,2
    orchestrator,central_test_set,30,10,10,10
    0,train_set,7,4,3,0
    0,test_set,3,1,2,0

Shapes: K clients, L classes.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.data.images import ClassLabels
from fedgrid.engine.errors import DataError

COLUMNS = ["client_id", "partition", "total_samples"]
SERVER = ("orchestrator", "central_test_set")
PARTITIONS = ("train_set", "test_set")


@dataclass(frozen=True, eq=False)
class Blueprint:
    """Number of images of each class that each client and the server hold."""

    train_KL: NDArray[np.int64]
    """Training images, shape (K, L)."""
    test_KL: NDArray[np.int64]
    """Test images, shape (K, L)."""
    server_L: NDArray[np.int64]
    """Images of the server's test set, shape (L,)."""
    classes: tuple[str, ...]
    """L column titles: class numbers, or the names in the file that was read."""

    def to_csv(self) -> str:
        """Return the text of the file; `read_blueprint` returns the same counts and titles."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*COLUMNS, *self.classes])
        writer.writerow([*SERVER, self.server_L.sum(), *self.server_L])
        for client, parts in enumerate(zip(self.train_KL, self.test_KL, strict=True)):
            for partition, counts_L in zip(PARTITIONS, parts, strict=True):
                writer.writerow([client, partition, counts_L.sum(), *counts_L])
        return text.getvalue()

    def write(self, path: Path) -> None:
        """Write the csv file.

        Raises:
            DataError: the file cannot be written.
        """
        try:
            path.write_text(self.to_csv(), encoding="utf-8", newline="")
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror}; name another file") from error


def of(
    held_K: Sequence[tuple[ClassLabels, ClassLabels]], server_labels: ClassLabels, num_classes: int
) -> Blueprint:
    """Count the classes that each client has for training and for tests, and those of the server."""

    def counts_L(labels: ClassLabels) -> NDArray[np.int64]:
        return np.bincount(labels, minlength=num_classes)

    return Blueprint(
        train_KL=np.stack([counts_L(train) for train, _ in held_K]),
        test_KL=np.stack([counts_L(test) for _, test in held_K]),
        server_L=counts_L(server_labels),
        classes=tuple(str(label) for label in range(num_classes)),
    )


def read_blueprint(path: Path) -> Blueprint:
    """Read a blueprint.

    Raises:
        DataError: the file is missing or not a blueprint; with file and line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a blueprint csv file: {error}") from error
    classes = _classes(path, rows)
    counts: dict[tuple[str, str], NDArray[np.int64]] = {}
    for line, row in enumerate(rows[1:], start=2):
        key, counts_L = _row(f"{path}, line {line}", row, len(classes))
        if key in counts:
            raise DataError(f"{path}, line {line}: a second row for {key[0]} {key[1]}; keep one")
        counts[key] = counts_L
    num_clients = max(len({client_id for client_id, _ in counts if client_id != SERVER[0]}), 1)
    for key in [SERVER, *((str(client), part) for client in range(num_clients) for part in PARTITIONS)]:
        if key not in counts:
            raise DataError(
                f"{path}, line {len(rows)}: the file ends without a row '{','.join(key)}'; a blueprint "
                f"has one {SERVER[0]} row, and a {' and a '.join(PARTITIONS)} row for each client from 0 up"
            )
    train_KL, test_KL = (
        np.stack([counts[str(client), partition] for client in range(num_clients)])
        for partition in PARTITIONS
    )
    return Blueprint(train_KL, test_KL, counts[SERVER], classes)


def _classes(path: Path, rows: list[list[str]]) -> tuple[str, ...]:
    """Return the titles of the class columns."""
    header = rows[0] if rows else []
    classes = header[len(COLUMNS) :]
    if header[: len(COLUMNS)] != COLUMNS or not classes or len(set(classes)) != len(classes):
        raise DataError(
            f"{path}, line 1: expected the columns {','.join(COLUMNS)} and a unique title for each class, "
            f"found '{','.join(header)}'"
        )
    return tuple(classes)


def _row(where: str, row: list[str], num_classes: int) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """Return client and partition of a row, and its counts, shape (L,)."""
    if len(row) != len(COLUMNS) + num_classes:
        raise DataError(
            f"{where}: expected {len(COLUMNS) + num_classes} values as in line 1, found {len(row)}"
        )
    key = (row[0], row[1])
    if key != SERVER and not (row[0].isdecimal() and row[1] in PARTITIONS):
        raise DataError(
            f"{where}: expected '{','.join(SERVER)}' or a client number and one of {', '.join(PARTITIONS)}, "
            f"found '{row[0]},{row[1]}'"
        )
    for text in row[2:]:
        if not text.isdecimal():
            raise DataError(f"{where}: '{text}' is not a number of images; write whole numbers from 0 up")
    total, *counts = (int(text) for text in row[2:])
    if total != sum(counts):
        raise DataError(f"{where}: total_samples is {total}, but the classes add up to {sum(counts)}")
    return key, np.array(counts, np.int64)

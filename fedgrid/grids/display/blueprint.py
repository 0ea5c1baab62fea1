"""Count the images of each class at each client, as a table and as a csv file (a dataset blueprint).

The file has the format of OCFL's authors: a header, one row for the server's test set, then two rows for each
client:

    client_id,partition,total_samples,0,1,2
    orchestrator,central_test_set,30,10,10,10
    0,train_set,7,4,3,0
    0,test_set,3,1,2,0

Shapes: K clients, L classes.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import ClassLabels
from fedgrid.engine.federation.errors import DataError
from fedgrid.grids.display.text_table import TextTable
from fedgrid.redaction import format_csv

FIRST_COLUMNS = ["client_id", "partition", "total_samples"]
SERVER_KEY = ("orchestrator", "central_test_set")
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
    """L column titles: class numbers, or the names of the classes."""

    def format_csv(self) -> str:
        """Format the csv file's text, from which `read_blueprint` reads the same counts and titles."""
        client_rows = (
            [client, partition, counts_L.sum(), *counts_L]
            for client, parts in enumerate(zip(self.train_KL, self.test_KL, strict=True))
            for partition, counts_L in zip(PARTITIONS, parts, strict=True)
        )
        server = [*SERVER_KEY, self.server_L.sum(), *self.server_L]
        return format_csv([[*FIRST_COLUMNS, *self.classes], server, *client_rows])

    def write_csv(self, path: Path) -> None:
        """Write the csv file.

        Raises:
            DataError: the file cannot be written.
        """
        try:
            path.write_text(self.format_csv(), encoding="utf-8", newline="")
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror}; name another file") from error


def count_classes(
    held_K: Sequence[tuple[ClassLabels, ClassLabels]], server_labels: ClassLabels, classes: Sequence[str]
) -> Blueprint:
    """Count the images of each class that clients have for training and tests, and the server's."""

    def counts_L(labels: ClassLabels) -> NDArray[np.int64]:
        return np.bincount(labels, minlength=len(classes))

    return Blueprint(
        train_KL=np.stack([counts_L(train) for train, _ in held_K]),
        test_KL=np.stack([counts_L(test) for _, test in held_K]),
        server_L=counts_L(server_labels),
        classes=tuple(classes),
    )


def read_blueprint(path: Path) -> Blueprint:
    """Read a blueprint.

    Raises:
        DataError: the file is missing or not a blueprint.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        # By client and partition: the authors' files are read whatever the order of their rows.
        counts = {(row[0], row[1]): np.array(row[2:], np.int64) for row in rows}
        num_clients = (len(rows) - 1) // len(PARTITIONS)
        keys = [SERVER_KEY, *((str(client), part) for client in range(num_clients) for part in PARTITIONS)]
        counts_RL = np.stack([counts[key] for key in keys])
    except (OSError, ValueError, OverflowError, IndexError, KeyError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a blueprint csv file: {error}") from error
    classes = tuple(header[len(FIRST_COLUMNS) :])
    # The first number of each row is its total, which the file repeats and the counts must match.
    totals_R, counts_RL = counts_RL[:, 0], counts_RL[:, 1:]
    if (
        header[: len(FIRST_COLUMNS)] != FIRST_COLUMNS
        or len(rows) != len(keys)
        or counts_RL.shape[1] != len(set(classes))
        or (counts_RL < 0).any()
        or (counts_RL.sum(axis=1) != totals_R).any()
    ):
        raise DataError(
            f"{path} is not a blueprint: expected the columns {','.join(FIRST_COLUMNS)} and one for each "
            "class, a "
            f"row of the {SERVER_KEY[0]}, and {' and '.join(PARTITIONS)} rows of each client from 0 up; "
            "counts "
            "must add up"
        )
    return Blueprint(counts_RL[1::2], counts_RL[2::2], counts_RL[0], classes)


def build_class_count_table(
    blueprint: Blueprint, groups_K: Sequence[int], names_K: Sequence[str]
) -> TextTable:
    """Build a table of the images per class in every client's training and test set, ordered by hidden group.

    Args:
        blueprint: the counts.
        groups_K: hidden group of each client.
        names_K: name of the group of each client.
    """
    headings = ("client", "group", "set", "images", *blueprint.classes)
    rows: list[list[str]] = []
    by_group = sorted(range(len(groups_K)), key=lambda client: groups_K[client])
    for before, client in zip([None, *by_group], by_group, strict=False):
        if before is not None and groups_K[client] != groups_K[before]:
            rows.append([])
        rows.append([str(client), names_K[client], "train", *_format_counts(blueprint.train_KL[client])])
        rows.append(["", "", "test", *_format_counts(blueprint.test_KL[client])])
    rows += [[], ["server", "", "test", *_format_counts(blueprint.server_L)]]
    numbers = [place for place, heading in enumerate(headings) if heading != "set"]
    return TextTable(headings, rows, numbers=numbers, names=4)


def _format_counts(counts_L: NDArray[np.int64]) -> list[str]:
    """Format a row's total and counts; a class without images is a dot, so that gaps are visible."""
    return [str(counts_L.sum()), *(str(count) if count else "·" for count in counts_L)]

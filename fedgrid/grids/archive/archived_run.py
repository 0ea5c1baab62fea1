"""One run of the archive, in the columns of our records. Columns that its files lack are null.

Shapes: R rounds, K clients, L classes, N = R x K rows, by round and then by client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.partition.scenarios import (
    PUBLISHED_NUM_CLUSTERS,
    Scenario,
    compute_cluster_sizes,
    find_cluster_sizes,
)
from fedgrid.grids.archive.csv_files import CsvTable, build_line_error, parse_count, parse_number, read_lines
from fedgrid.grids.archive.layout import MAPPING, TEMPERATURE, RunFiles
from fedgrid.grids.display import blueprint
from fedgrid.record_columns import build_schemas

TRAINING = "training_metrics.csv"
TESTS = {
    "before_update_metrics.csv": "local_own",
    "after_update_generalizability.csv": "local_server",
    "after_update_metrics.csv": "personalised",
}
"""File -> model and test set, which the file's name does not say. Cluster models were not tested on the
server's test set."""
BLUEPRINT = "dataset blueprint"

Labels = NDArray[np.int32]
Columns = dict[str, Any]


@dataclass(frozen=True)
class ArchivedRun:
    """The records of one run of the archive."""

    rounds: pa.Table
    """Table as in `record_columns.ROUNDS`, R rows."""
    clients: pa.Table
    """Table as in `record_columns.CLIENTS`, N rows."""
    absent: tuple[str, ...]
    """Names of the files that are missing."""


def read_run(run: RunFiles, *, published_truth: bool) -> ArchivedRun:
    """Read one run.

    Args:
        run: Where its files are.
        published_truth: Whether the hidden groups are those of the authors' notebook instead of those of the
            images. The notebook scored one scenario with group sizes that it did not have.

    Raises:
        DataError: A required file is missing, or a file is malformed; the message names the file and the
            line.
    """
    scenario = run.scenario
    labels_RK = _read_labels(run)
    num_rounds, num_clients = labels_RK.shape
    # Before round 1 all clients are in one cluster, so that a first partition counts as a clustering.
    before_RK = np.concatenate([np.broadcast_to(labels_RK[0, 0], (1, num_clients)), labels_RK[:-1]])
    clustered_R = (labels_RK != before_RK).any(axis=1)
    rounds = {
        "round": np.arange(1, num_rounds + 1),
        "clusters": [len(np.unique(labels_K)) for labels_K in labels_RK],
        "clustered": clustered_R,
        **_read_temperature(run, clustered_R),
    }
    clients = {
        "round": np.repeat(np.arange(1, num_rounds + 1), num_clients),
        "client": np.tile(np.arange(num_clients), num_rounds),
        "cluster": labels_RK.ravel(),
        "true_cluster": np.tile(_build_truth(scenario, published=published_truth), num_rounds),
        **_read_image_counts(run, num_rounds),
        **_read_training(run.folder / TRAINING, labels_RK.shape),
    }
    for name, test in TESTS.items():
        clients |= _read_test(
            run.folder / name, test, labels_RK.shape, DATASETS[scenario.dataset].num_classes
        )
    schema = build_schemas()
    return ArchivedRun(
        _build_table(rounds, schema["rounds"]), _build_table(clients, schema["clients"]), _list_absent(run)
    )


def _list_absent(run: RunFiles) -> tuple[str, ...]:
    """List the files that a run of this kind should have and lacks."""
    measured = run.measures_temperature or run.algorithm.startswith("ocfl")
    expected = {name: run.folder / name for name in (MAPPING, TRAINING, *TESTS)}
    expected |= {TEMPERATURE: run.folder / TEMPERATURE} if measured else {}
    expected[BLUEPRINT] = run.blueprint
    return tuple(name for name, path in expected.items() if not path.exists())


def _read_labels(run: RunFiles) -> Labels:
    """Read the clusters, shape (R, K), numbered in the order in which their names appear.

    A renamed cluster gets a new number, because the published Table 2 counts that as a change.
    """
    path, num_clients = run.folder / MAPPING, run.scenario.num_clients
    if not path.exists():
        if run.measures_temperature:
            return np.zeros((len(read_lines(run.folder / TEMPERATURE)), num_clients), np.int32)
        raise DataError(f"{path} is missing; expected one in each run's folder")
    (first, titles), *lines = read_lines(path)
    if titles != [str(client) for client in range(num_clients)]:
        raise build_line_error(
            path, first, f"titles {','.join(titles)}", f"the clients 0 to {num_clients - 1}"
        )
    if not lines:
        raise build_line_error(path, first, "no line after the titles", "one a round")
    # Some files have an index column without a title.
    index_width = int(len(lines[0][1]) == num_clients + 1)
    numbers: dict[str, int] = {}
    labels_RK = np.empty((len(lines), num_clients), np.int32)
    for index, (line, cells) in enumerate(lines):
        if len(cells) != num_clients + index_width:
            raise build_line_error(path, line, f"{len(cells)} values", f"{num_clients + index_width}")
        names = cells[index_width:]
        labels_RK[index] = [numbers.setdefault(name, len(numbers)) for name in names]
    return labels_RK


def _read_temperature(run: RunFiles, clustered_R: NDArray[np.bool_]) -> Columns:
    """Read the temperature of each round, which the archive has up to the round of the clustering."""
    path = run.folder / TEMPERATURE
    if not path.exists():
        return {}
    lines = read_lines(path)
    temperatures = []
    for index, (line, cells) in enumerate(lines):
        if parse_count(path, line, "round", cells[0]) != index:
            raise build_line_error(path, line, f"round {cells[0]}", f"{index}: each round from 0 on")
        temperatures.append(parse_number(path, line, "temperature", cells[-1]))
    until = int(np.argmax(clustered_R)) + 1 if clustered_R.any() else len(clustered_R)
    if len(lines) != until:
        expected = f"{until}, up to the round of the clustering or else the last one in {MAPPING}"
        raise build_line_error(path, lines[-1][0], f"the end after {len(lines)} rounds", expected)
    return {"temperature": temperatures + [None] * (len(clustered_R) - until)}


def _build_truth(scenario: Scenario, *, published: bool) -> Labels:
    """Build the hidden groups, shape (K,)."""
    sizes = find_cluster_sizes(scenario, PUBLISHED_NUM_CLUSTERS)
    if published:
        sizes = compute_cluster_sizes(scenario.num_clients, PUBLISHED_NUM_CLUSTERS, scenario.balance)
    # The clients are numbered group by group, so that the sizes are enough.
    return np.repeat(np.arange(PUBLISHED_NUM_CLUSTERS, dtype=np.int32), sizes)


def _read_image_counts(run: RunFiles, num_rounds: int) -> Columns:
    """Read the number of images of each client, if the archive has it.

    Raises:
        DataError: The numbers of clients or classes are not those of the scenario.
    """
    path, scenario = run.blueprint, run.scenario
    if not path.exists():
        return {}
    held = blueprint.read_blueprint(path)
    expected = (scenario.num_clients, DATASETS[scenario.dataset].num_classes)
    if held.train_KL.shape != expected:
        found_here = "{} clients and {} classes".format(*held.train_KL.shape)
        raise build_line_error(path, 1, found_here, "{} and {}".format(*expected))
    return {
        "train_images": np.tile(held.train_KL.sum(axis=1), num_rounds),
        "test_images": np.tile(held.test_KL.sum(axis=1), num_rounds),
    }


def _read_training(path: Path, shape: tuple[int, int]) -> Columns:
    """Read the clients' scores of training, if the file exists."""
    if not path.exists():
        return {}
    table = CsvTable(path, ("iteration", "node_id", "loss", "accuracy"))
    # The file may have its rows in any order; records are sorted by round and then by client.
    rows_N = table.find_rows_RK("iteration", "node_id", *shape).ravel()
    accuracy_N = table.parse_column("accuracy", least=0, most=1, may_lack=False)
    return {"train_loss": table.parse_column("loss")[rows_N], "train_accuracy": accuracy_N[rows_N]}


def _read_test(path: Path, test: str, shape: tuple[int, int], num_classes: int) -> Columns:
    """Read the clients' scores of a test, if the file exists."""
    if not path.exists():
        return {}
    classes = [f"accuracy_per_{label}" for label in range(num_classes)]
    table = CsvTable(path, ("epoch", "node_id", "test_loss", "accuracy", "f1score", *classes))
    rows_N = table.find_rows_RK("epoch", "node_id", *shape).ravel()
    scores = {
        "loss": table.parse_column("test_loss"),
        "accuracy": table.parse_column("accuracy", least=0, most=1, may_lack=False),
        "f1_union": table.parse_column("f1score", least=0, most=1, may_lack=False),
    }
    recall_NL = np.stack([table.parse_column(name, least=0, most=1) for name in classes], axis=1)
    # The archive has NaN as accuracy of a class that a client has no test images of.
    num_tested_N = (~np.isnan(recall_NL)).sum(axis=1)
    scores["balanced_accuracy"] = np.nansum(recall_NL, axis=1) / np.where(num_tested_N, num_tested_N, np.nan)
    if test == "local_server":
        # The server's test set has all classes, so the union of true and predicted classes is the true ones.
        scores["f1"] = scores["f1_union"]
    columns: Columns = {f"{test}_{name}": values_N[rows_N] for name, values_N in scores.items()}
    return columns | {f"{test}_recall": list(recall_NL[rows_N])}


def _build_table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Build a table of these columns; those of the schema that are absent are null."""
    size = len(columns["round"])
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(size, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)

"""Published numbers in `tests/reference`, and the full archive in `../shared` where it is available."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

REFERENCE = Path(__file__).parents[1] / "reference"
ARCHIVE = Path(__file__).parents[2].parent / "shared" / "reference" / "archive"
needs_archive = pytest.mark.skipif(
    not ARCHIVE.is_dir(), reason="NOT CHECKED AGAINST THE AUTHORS' FULL ARCHIVE: shared/reference is missing"
)

FOLDERS = {
    "BNC": "baseline",
    "SCL": "sattler",
    "BCL": "briggs",
    "OCFL-KM": "kmeans",
    "OCFL-AFF": "affinity",
    "OCFL-MS": "meanshift",
    "OCFL-HDB": "HDBSCAN",
}
SIZES = {
    ("balanced", 15): (5, 5, 5),
    ("balanced", 30): (10, 10, 10),
    ("imbalanced", 15): (3, 7, 5),
    ("imbalanced", 30): (7, 14, 9),
}
OVERLAPS = {"overlaping": "overlapping", "nonoverlaping": "nonoverlapping"}
"""The archive's spelling -> ours."""

RunKey = tuple[str, ...]


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_published() -> list[dict[str, str]]:
    """Read the rows of Tables 1 and 2 of MNIST and CIFAR10."""
    rows = read_rows(REFERENCE / "published_clustering.csv")
    return [row for row in rows if row["dataset"] in ("MNIST", "CIFAR10")]


def read_published_explanations(**parts: str) -> list[dict[str, str]]:
    """Read the rows of `published_xai.csv`, which lies next to the archive, with these values."""
    rows = read_rows(ARCHIVE.parent / "published_xai.csv")
    return [row for row in rows if all(row[key] == value for key, value in parts.items())]


def build_key(row: Mapping[str, str]) -> RunKey:
    return tuple(row[key] for key in ("dataset", "overlap", "balance", "n", "algorithm"))


def format_key(row: Mapping[str, str]) -> str:
    return "-".join(build_key(row))


def read_labels(row: Mapping[str, str]) -> np.ndarray:
    """Read the cluster names of a run, shape (rounds, clients)."""
    return _read_partitions()[build_key(row)]


def read_temperatures(row: Mapping[str, str]) -> list[float]:
    """Read the temperature of each round of an OCFL run, up to its clustering round."""
    rows = read_rows(REFERENCE / "archive_temperatures.csv")
    return [float(line["temperature"]) for line in rows if build_key(line) == build_key(row)]


def find_archived_results(row: Mapping[str, str]) -> Path:
    *scenario, algorithm = build_key(row)
    name = "_".join([FOLDERS[algorithm], *scenario])
    return ARCHIVE.joinpath("experiments", *scenario, name, "results")


def read_archived_labels(row: Mapping[str, str]) -> np.ndarray:
    """Read the labels of a run from the archive.

    Four CIFAR10 files of Briggs have an index column that the header lacks: clients come last.
    """
    num_clients = int(row["n"])
    with (find_archived_results(row) / "cluster_id_mapping.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [str(client) for client in range(num_clients)]
    return np.array([row[-num_clients:] for row in rows])


def round_twice(value: float) -> float:
    """Round as the published file was: to five digits and then to four (0.509855 -> 0.50985 -> 0.5098)."""
    return float(np.round(np.round(value, 5), 4))


@cache
def _read_partitions() -> dict[RunKey, np.ndarray]:
    rounds: dict[RunKey, list[list[str]]] = {}
    for row in read_rows(REFERENCE / "archive_partitions.csv"):
        labels = rounds.setdefault(build_key(row), [])
        assert int(row["first_round"]) == len(labels) + 1
        labels.extend([row["clusters"].split()] * (int(row["last_round"]) - len(labels)))
    return {run: np.array(labels) for run, labels in rounds.items()}

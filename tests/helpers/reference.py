"""The authors' archive in `shared/reference`, and the published rows of MNIST and CIFAR10."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference"
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


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def published() -> list[dict[str, str]]:
    path = REFERENCE / "published_clustering.csv"
    rows = rows_of(path) if path.exists() else []
    return [row for row in rows if row["dataset"] in ("MNIST", "CIFAR10")]


def results(row: Mapping[str, str]) -> Path:
    scenario = [row[key] for key in ("dataset", "overlap", "balance", "n")]
    name = "_".join([FOLDERS[row["algorithm"]], *scenario])
    return REFERENCE.joinpath("archive", "experiments", *scenario, name, "results")


def name_of(row: Mapping[str, str]) -> str:
    return "-".join(row[key] for key in ("dataset", "overlap", "balance", "n", "algorithm"))


def labels_of(folder: Path, num_clients: int) -> np.ndarray:
    """Four CIFAR10 files of Briggs have an index column that the header lacks: clients come last."""
    with (folder / "cluster_id_mapping.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [str(client) for client in range(num_clients)]
    return np.array([row[-num_clients:] for row in rows])


def four_digits(value: float) -> float:
    """The published file was rounded to five digits and then to four (0.509855 -> 0.50985 -> 0.5098)."""
    return float(np.round(np.round(value, 5), 4))

"""Clients with identical rows: what differs is the order of sums, and that is no group."""

import csv

import pyarrow.parquet as pq
import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from tests.helpers.small_runs import NOWHERE, play

ROUNDS = 4
ALGORITHMS = {
    "ocfl-affinity": {},
    "ocfl-hdbscan": {},
    "ocfl-kmeans": {},
    "ocfl-meanshift": {},
    "louvain": {},
    "leiden": {},
    "sattler": {"cooldown": 1, "epsilon_1": 1.0, "epsilon_2": 0.0},
    "briggs": {"round": 2, "centre": True},
    "evident-groups": {},
    "ward-told": {"round": 2},
}


@pytest.fixture(scope="module")
def partition(tmp_path_factory):
    """Return the file by which clients of a group hold the same 40 digits, for the sizes of groups."""

    def write(*sizes):
        path = tmp_path_factory.mktemp("partition") / "partition.csv"
        groups = [group for group, size in enumerate(sizes) for _ in range(size)]
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["example", "client", "part"])
            for client, group in enumerate(groups):
                first = 60 * group
                rows.writerows((first + place, client, "train") for place in range(40))
                rows.writerows((first + place, client, "test") for place in range(40, 60))
        return {"kind": "file", "path": str(path), "test_leakage": "published", "server_images": 20}

    files = {sizes: write(*sizes) for sizes in ((8,), (4, 4))}
    return files.__getitem__


@pytest.fixture
def clusters(tmp_path):
    """Return a function that runs a federation and returns the last clusters, and the temperatures."""

    def run(name, split, **training):
        config = complete_config(
            {
                "clients": 8,
                "algorithm": {"name": name, **ALGORITHMS[name]},
                "training": {"rounds": ROUNDS, "local_epochs": 1, "batch_size": 64, **training},
                "split": split,
                "evaluation": {"every": ROUNDS},
            },
            NOWHERE,
        )
        folder = play(config, tmp_path, cache=None)
        rows = pq.read_table(folder / "clients.parquet").to_pylist()
        temperatures = pq.read_table(folder / "rounds.parquet")["temperature"].to_pylist()
        return [row["cluster"] for row in rows if row["round"] == ROUNDS], temperatures

    return run


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("sizes", [(8,), (4, 4)], ids=["one group", "two groups"])
def test_clients_with_identical_rows_are_one_cluster(name, sizes, partition, clusters):
    """All 40 rows are one batch. Two groups of four are told apart: duplicates hide nothing."""
    last, temperatures = clusters(name, partition(sizes))
    assert last == [group for group, size in enumerate(sizes) for _ in range(size)]
    assert any(temperatures) == (len(sizes) > 1)


def test_groups_are_found_in_models_that_hardly_move(partition, clusters):
    """Models are compared, of which an update is a hundred-thousandth: it is no rounding."""
    last, _ = clusters("louvain", partition((4, 4)), learning_rate=1e-5)
    assert last == [0, 0, 0, 0, 1, 1, 1, 1]

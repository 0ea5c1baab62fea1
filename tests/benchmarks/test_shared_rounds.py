"""The least that the runs of a shared prefix must train, counted by hand."""

from pathlib import Path

import pytest

from benchmarks.shared_rounds import count_needed_rounds
from fedgrid.engine.runtime.configuration.complete import complete_config


def run(algorithm, seed=0):
    given = {"clients": 4, "algorithm": algorithm, "seed": seed, "training": {"rounds": 3}}
    return complete_config(given, Path("unused"))


ONE, PAIRS, ODD = (dict(enumerate(labels)) for labels in ([0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 2]))
RENAMED = {client: 1 - label for client, label in PAIRS.items()}
BNC, KMEANS, HDBSCAN = run("fedavg"), run("ocfl-kmeans"), run("ocfl-hdbscan")


@pytest.mark.parametrize(
    ("labels", "needed"),
    [
        ([(BNC, [ONE, ONE, ONE])], 3),
        ([(BNC, [ONE, ONE, ONE]), (KMEANS, [ONE, ONE, PAIRS])], 3),
        ([(BNC, [ONE, ONE, ONE]), (KMEANS, [PAIRS, PAIRS, PAIRS])], 5),
        ([(KMEANS, [PAIRS, PAIRS, PAIRS]), (HDBSCAN, [RENAMED, RENAMED, RENAMED])], 3),
        ([(KMEANS, [PAIRS, PAIRS, PAIRS]), (HDBSCAN, [PAIRS, ODD, ODD])], 3.5),
        ([(BNC, [ONE, ONE, ONE]), (run("fedavg", seed=1), [ONE, ONE, ONE])], 6),
    ],
    ids=[
        "alone",
        "parts after its last training",
        "parts in round 1",
        "same clusters, other names",
        "one cluster of two in common",
        "another seed",
    ],
)
def test_trainings_that_differ_in_no_history_are_needed_once(labels, needed):
    assert count_needed_rounds(labels) == pytest.approx(needed)

"""The three hidden groups of 30 clients are found although clients come and go: digits, whole runs.

Algorithms that have clustered alike take one another's rounds from the round cache.
"""

from pathlib import Path

import pytest
from sklearn.metrics import adjusted_rand_score

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid

pytestmark = pytest.mark.slow

NOWHERE = Path("no-data-needed")
QUICKSTART = {
    run.algorithm.name: run.algorithm.model_dump() for run in load_grid("quickstart", {}, (), NOWHERE).runs
}
FINDS_THE_GROUPS = ("ocfl-kmeans", "ocfl-affinity", "ocfl-hdbscan", "briggs")
NEWCOMERS = {4: 0, 14: 1, 27: 2}
"""One of each hidden group: clients 0 to 9, 10 to 19 and 20 to 29."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def rows_of_rounds(folder, algorithm, rounds, **given):
    """Return the rows of the clients, for each round of a run."""
    config = complete_config(
        {
            "algorithm": QUICKSTART.get(algorithm, algorithm),
            "clients": 30,
            "training": {"rounds": rounds, "local_epochs": 2},
            "evaluation": {"every": rounds},
            **given,
        },
        NOWHERE,
    )
    session = Session(InProcessPool(), NOWHERE, cache=CacheOptions())
    session.open(config, Storage.from_text(folder))
    return [session.next_round().clients for _ in range(rounds)]


def ari(rows):
    return adjusted_rand_score([row["true_cluster"] for row in rows], [row["cluster"] for row in rows])


@pytest.mark.parametrize("algorithm", [*FINDS_THE_GROUPS, "louvain"])
def test_with_half_of_the_clients_a_round(folder, algorithm):
    rounds = 14 if algorithm == "briggs" else 7  # Briggs clusters in round 6, and then meets the others.
    history = rows_of_rounds(folder, algorithm, rounds, participation=0.5)
    assert [sum(row["part"] == "trained" for row in rows) for rows in history] == [15] * rounds
    assert ari(history[-1]) == 1


@pytest.mark.parametrize("algorithm", FINDS_THE_GROUPS)
def test_with_a_fifth_of_the_clients_dropping_out(folder, algorithm):
    history = rows_of_rounds(folder, algorithm, 8 if algorithm == "briggs" else 6, dropout=0.2)
    assert {row["part"] for rows in history for row in rows} == {"trained", "dropped"}
    assert ari(history[-1]) == 1


@pytest.mark.parametrize("algorithm", FINDS_THE_GROUPS)
def test_with_three_newcomers_after_the_clustering(folder, algorithm):
    """They wait together until round 8, in which each joins its own group, by far the nearest."""
    history = rows_of_rounds(folder, algorithm, 8, joins=dict.fromkeys(NEWCOMERS, 8))
    *_, before, last = history
    assert {before[client]["part"] for client in NEWCOMERS} == {"not joined"}
    assert len({before[client]["cluster"] for client in NEWCOMERS}) == 1
    assert {row["client"] for row in last if row["placed"]} == set(NEWCOMERS)
    assert ari(last) == 1
    for client in NEWCOMERS:
        told = last[client]["placed"].removeprefix("mean cosine distances ")
        distances = dict(map(float, pair.split(": ")) for pair in told.split(", "))
        nearest, second, third = sorted(distances, key=distances.__getitem__)
        assert nearest == last[client]["cluster"]
        assert distances[nearest] < 0.2
        assert 1 < distances[second] < distances[third]

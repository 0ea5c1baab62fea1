"""Images of small runs explained by the models that the runs were tested with."""

from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fedgrid.engine.runtime.run import checkpoint
from fedgrid.grids.explain.compute.explained_run import explain_run
from fedgrid.grids.explain.compute.settings import ExplanationSettings
from fedgrid.tracking import records
from tests.helpers.small_runs import CLIENTS, NOWHERE, ROUNDS, build_early_run, config, play

FEWEST = {0: 11, 3: 11, 5: 11}
"""Client -> its number of test images, of those that have the fewest."""


@cache
def played(name):
    """Return a run, its last state, and the recorded accuracy of each client's own test."""
    run = build_early_run(name)
    with TemporaryDirectory() as root:
        folder = play(run, root, cache=None)
        accuracy_K = records.read_records(folder).clients["personalised_accuracy"][-1]
        return run, checkpoint.load_state(folder, ROUNDS), accuracy_K


@cache
def explained(name, on="members", images=2, steps=4, **settings):
    run, progress, _ = played(name)
    wanted = ExplanationSettings(on=on, round=ROUNDS, images=images, steps=steps, **settings)
    return explain_run(run, progress, NOWHERE, wanted).to_pylist()


@pytest.mark.parametrize("name", ["ocfl-kmeans", "ifca", "per-fedavg", "lg-fedavg"])
def test_explained_models_are_those_that_the_run_was_tested_with(name):
    """Over all test images of a client, the share of right predictions is the accuracy of the records: of its
    cluster's model, the one it chooses, the adapted one, the one with its personal entries."""
    rows = explained(name, images=min(FEWEST.values()), steps=1)
    right = {
        client: np.mean([row["label"] == row["prediction"] for row in rows if row["client"] == client])
        for client in FEWEST
    }
    assert right == {client: played(name)[2][client] for client in FEWEST}


@pytest.mark.parametrize("model", ["tinyvgg", "digitnet"])
def test_runs_in_bfloat16_are_explained_by_feature_maps_and_by_pixels(model, tmp_path):
    run = config(clients=3, model=model, training={"rounds": 1, "precision": "bfloat16"})
    state = checkpoint.load_state(play(run, tmp_path, cache=None), 1)
    wanted = ExplanationSettings(on="members", round=1, images=1, steps=4)
    rows = explain_run(run, state, NOWHERE, wanted).to_pylist()
    assert len(rows) == 3
    assert all(0 <= row["insertion"] <= 1 and max(row["map"]) in (0, 255) for row in rows)


def test_image_has_the_same_bits_beside_others_and_alone():
    one, two = explained("ocfl-kmeans", images=1), explained("ocfl-kmeans", images=2)
    assert len(two) == 2 * CLIENTS
    assert two[::2] == one


def test_all_algorithms_explain_the_same_images_of_members_and_of_the_server():
    for on in ("members", "server"):
        keys = [
            [(row["client"], row["holder"], row["place"], row["label"]) for row in explained(name, on)]
            for name in ("fedavg", "ocfl-kmeans")
        ]
        assert keys[0] == keys[1]


def test_images_of_others_are_held_by_no_member_and_one_cluster_has_none():
    labels_K = played("ocfl-kmeans")[1].state.labels_K
    rows = explained("ocfl-kmeans", "others")
    assert rows
    assert all(labels_K[row["holder"]] != labels_K[row["client"]] == row["cluster"] for row in rows)
    assert explained("fedavg", "others") == []


def test_as_published_each_cluster_draws_its_own_images_from_black():
    rows = explained("ocfl-kmeans", images=350, as_published=True)
    clusters = np.unique(played("ocfl-kmeans")[1].state.labels_K)
    assert {row["cluster"] for row in rows} == set(clusters.tolist())
    assert len(rows) == 11 + 13 + 12 + 11 + 15 + 11, "all there are"
    # 64 pixels by 10: 7 intervals, the last one short.
    assert {len(row["insertion_curve"]) for row in rows} == {8}
    others = explained("ocfl-kmeans", "others", images=350, as_published=True)
    assert len(clusters) > 1
    assert len(others) == (len(clusters) - 1) * len(rows)

"""Clients whose data move to another hidden group: what they hold, the records, the oracle."""

import numpy as np
import pytest

from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.partition.scenarios import compute_class_sets
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_cases import start
from tests.helpers.small_runs import NOWHERE, config, find_differing, play, rows

DRIFT = {0: {"round": 2, "to": 2}}


def client(number, **given):
    return prepare_setup(config(**given), NOWHERE)[0].clients[number]


@pytest.mark.parametrize("split", ["nonoverlapping-balanced", "overlapping-balanced"])
def test_a_client_draws_images_of_its_new_groups_classes_and_keeps_its_own_until_then(split):
    before, moving = (client(0, split={"kind": split}, drift=drift) for drift in ({}, DRIFT))
    other_seed = client(0, split={"kind": split}, drift=DRIFT, seed=1)
    assert moving.moved.train.images.tobytes() != other_seed.moved.train.images.tobytes()
    assert moving.train.images.tobytes() == before.train.images.tobytes()
    assert (moving.moved.round_index, moving.moved.group) == (1, 2)
    labels = {*moving.moved.train.labels.tolist(), *moving.moved.test.labels.tolist()}
    assert labels <= set(compute_class_sets(10, 3, split.partition("-")[0])[2])
    assert len(moving.moved.train) > 10 < len(moving.moved.test) + 5


def test_after_a_move_no_test_image_of_a_client_is_trained_on_by_another():
    setup, _ = prepare_setup(config(drift={0: {"round": 2, "to": 2}, 5: {"round": 3, "to": 0}}), NOWHERE)
    sets = [(data.train, data.test) for data in setup.clients]
    sets += [(data.moved.train, data.moved.test) for data in setup.clients if data.moved]
    trained = {image.tobytes() for train, _ in sets for image in train.images}
    assert not trained & {image.tobytes() for _, test in sets for image in test.images}


def test_where_groups_turn_images_a_client_keeps_its_images_turned_otherwise():
    data = client(
        1, split={"kind": "rotated", "num_clusters": 4, "draws": None}, drift={1: {"round": 2, "to": 3}}
    )
    for now, later in ((data.train, data.moved.train), (data.test, data.moved.test)):
        assert np.array_equal(np.rot90(now.images, 2, axes=(2, 3)), later.images), "90 to 270 degrees"
        assert now.labels.tolist() == later.labels.tolist()


def test_official_test_images_are_those_of_the_new_groups_labels():
    data = client(0, split={"tested_on": "official"}, drift=DRIFT)
    assert set(data.moved.test.labels.tolist()) == set(data.moved.train.labels.tolist())


def test_a_mover_that_flips_labels_flips_them_after_its_move_too():
    plain = client(0, drift=DRIFT)
    attacker = client(0, drift=DRIFT, faults={"label_flip": [0]})
    assert attacker.moved.train.labels.tolist() == (9 - plain.moved.train.labels).tolist()
    assert attacker.moved.test.labels.tolist() == plain.moved.test.labels.tolist()


def test_records_change_with_the_data_and_rounds_before_the_move_are_those_of_the_run_without(tmp_path):
    still, moving = config("ocfl-kmeans"), config("ocfl-kmeans", drift={0: {"round": 3, "to": 2}})
    for run in (still, moving):
        play(run, tmp_path)
    records = rows(moving, tmp_path, "clients")
    assert repr(records[:12]) == repr(rows(still, tmp_path, "clients")[:12])
    assert [row["true_cluster"] for row in records if row["client"] == 0] == [0, 0, 2]
    held = prepare_setup(moving, NOWHERE)[0].clients[0].moved
    assert (records[12]["train_images"], records[12]["test_images"]) == (len(held.train), len(held.test))
    assert find_differing(moving, tmp_path) == []


def test_the_oracle_moves_the_client_to_the_cluster_of_its_new_group(tmp_path):
    run = config("oracle", drift=DRIFT)
    play(run, tmp_path)
    for row in rows(run, tmp_path, "clients"):
        assert row["cluster"] == row["true_cluster"]


def test_the_oracle_keeps_its_models_when_clients_move():
    oracle = create_algorithm("oracle")
    groups_K = np.array([2, 0, 0, 1, 2])
    state = oracle.reveal(start(oracle, 5, (1.0, 2.0)), groups_K)
    moved = oracle.reveal(state, np.array([2, 0, 1, 1, 2]), groups_K)
    assert state.labels_K.tolist() == [0, 1, 1, 2, 0]
    assert moved.labels_K.tolist() == [0, 1, 2, 2, 0]
    assert moved.models is state.models


def test_moved_clients_are_found_when_all_are_met_again_and_the_messages_are_paid_for(tmp_path):
    """Digits as codes: client 0 moves in round 2, all describe their data again before round 3."""
    algorithm = {"name": "embeddings", "encoder": "pixels", "flip": 0.0, "recluster_every": 2}
    run = config(algorithm, drift=DRIFT)
    play(run, tmp_path)
    records = rows(run, tmp_path, "clients")
    cluster_of = {(row["round"], row["client"]): row["cluster"] for row in records}
    assert [cluster_of[at, 0] == cluster_of[at, 5] for at in (2, 3)] == [False, True]
    sent = [row["bytes_up"] for row in rows(run, tmp_path, "rounds")]
    assert sent[0] == sent[2] > sent[1]

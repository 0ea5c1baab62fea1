"""PACFL: angles of bases by hand, merges, newcomers, and its two extremes."""

import numpy as np
import pytest
import torch

from fedgrid import Layout, State
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.rivals.pacfl import BasisMessage, Pacfl, PacflSettings, measure_angle
from tests.helpers.small_runs import config, play, rows

LAYOUT = Layout(("weight",), ((1,),), 1)


def build_message(degrees):
    return {"basis": np.array([[np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]], np.float32)}


def meet(state, degrees, **settings):
    messages = {client: build_message(angle) for client, angle in degrees.items()}
    return Pacfl(PacflSettings(**settings)).meet(state, messages, LAYOUT, np.random.default_rng(0))


def build_state(num_clients):
    return State((np.zeros(1, np.float32),), np.zeros(num_clients, np.int64))


def test_basis_has_singular_vectors_of_each_class():
    """Class 2 has one image, (3, 4); class 5 two parallel ones and a short one beside them."""
    images = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 5.0], [1.0, 0.0]])[:, None, None]
    basis = BasisMessage(vectors=1).describe(images, torch.tensor([2, 5, 5, 5]), 10, None)["basis"]
    np.testing.assert_allclose(np.abs(basis), [[0.6, 0.8], [0.0, 1.0]], atol=1e-6)


def test_angle_is_the_least_of_all_pairs_whatever_the_signs():
    basis = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert measure_angle(basis[:1], -basis[:1]) == 0
    assert measure_angle(basis[:1], np.array([[-np.sqrt(0.5), np.sqrt(0.5)]])) == pytest.approx(45)
    assert measure_angle(basis, np.array([[np.sqrt(0.75), 0.5]])) == pytest.approx(30)


def test_linkage_decides_the_last_merge():
    """0, 10 and 24 degrees, twice 30: pairs average (24 + 14) / 2 = 19 to (0, 10)."""
    degrees = {0: 0, 1: 10, 2: 24}
    assert meet(build_state(3), degrees, angle=18.9).labels_K.tolist() == [0, 0, 1]
    assert meet(build_state(3), degrees, angle=19.1).labels_K.tolist() == [0, 0, 0]
    four = {0: 0, 1: 2, 2: 6, 3: 16}
    # After (0, 2), then 6: pairs have (16 + 14 + 10) / 3 = 13.33, two rows (15 + 10) / 2 = 12.5.
    assert meet(build_state(4), four, angle=13.0).labels_K.tolist() == [0, 0, 0, 1]
    assert meet(build_state(4), four, angle=13.0, linkage="weighted").labels_K.tolist() == [0, 0, 0, 0]


def test_newcomers_join_or_found_a_cluster_and_others_keep_their_numbers():
    state = meet(build_state(5), {1: 0, 2: 40, 3: 41})
    assert state.labels_K.tolist() == [1, 0, 1, 1, 1], "who has not joined is in the largest cluster"
    state = State((np.float32([5]), np.float32([7])), state.labels_K, state.arrays)
    joined = meet(state, {0: 80, 4: 2})
    assert joined.labels_K.tolist() == [2, 0, 1, 1, 0]
    assert [model.tolist() for model in joined.models] == [[5.0], [7.0], [7.0]]


@pytest.mark.parametrize(("angle", "like"), [(90, "fedavg"), (0, "solo")])
def test_extremes_are_fedavg_and_local_training_to_the_bit(angle, like, tmp_path):
    states = []
    for algorithm in (like, {"name": "pacfl", "angle": angle}):
        run = config(algorithm, participation=0.5, training={"rounds": 2})
        states.append(checkpoint.load_state(play(run, tmp_path), 2).state.models)
    assert np.stack(states[0]).tobytes() == np.stack(states[1]).tobytes()


def test_newcomers_and_held_out_clients_join_their_group(tmp_path):
    """Nine clients in three groups of three, of which client 0 joins late, and others never train."""
    run = config({"name": "pacfl", "angle": 20}, clients=9, held_out=0.2, joins={0: 3}, split={"draws": 100})
    play(run, tmp_path)
    last = [row for row in rows(run, tmp_path, "clients") if row["round"] == run.training.rounds]
    assert [row["cluster"] for row in last] == [0, 0, 0, 1, 1, 1, 2, 2, 2]

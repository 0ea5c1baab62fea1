"""FeSEM: k-means of models in round 1, then the nearest centres, on vectors of one and two entries."""

import numpy as np
import pytest

from fedgrid import Conditions, Layout, State, Updates
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.rivals.fesem import FeSEM, FeSEMSettings
from tests.helpers.small_runs import config, play

LAYOUT = Layout(("weight",), ((1,),), 1)


def build_updates(values, **given):
    vectors = {client: np.array([value], np.float32) for client, value in values.items()}
    return Updates(vectors, LAYOUT, **given)


def take_step(state, values, weigh="equal", **given):
    algorithm = FeSEM(FeSEMSettings(num_clusters=2, weigh=weigh))
    return algorithm.step(state, 0, build_updates(values, **given), np.random.default_rng(0))


def build_state(models, labels):
    return State(tuple(np.array([model], np.float32) for model in models), np.array(labels))


def read(state):
    return [float(model[0]) for model in state.models], state.labels_K.tolist()


def test_first_round_is_kmeans_and_absent_clients_join_the_largest_cluster():
    """From 1: models 1.1, 5, 1.3, 5.2, 4.8; client 5 is absent."""
    state, diagnostics = take_step(build_state([1], [0] * 6), {0: 0.1, 1: 4, 2: 0.3, 3: 4.2, 4: 3.8})
    models, labels = read(state)
    assert models == pytest.approx([1.2, 5.0])
    assert labels == [0, 1, 0, 1, 1, 1]
    assert diagnostics.clustered


@pytest.mark.parametrize(("weigh", "first"), [("equal", 2.5), ("images", 1.75)])
def test_clients_move_to_the_nearest_centre_that_they_started_from(weigh, first):
    """Centres 0 and 10: models 1 (from 0), 4 (from 10: moves), 11; by images 3 : 1 the first mean is 1.75."""
    state, _ = take_step(
        build_state([0, 10], [0, 1, 1]), {0: 1, 1: -6, 2: 1}, weigh, images={0: 3, 1: 1, 2: 1}
    )
    assert read(state) == ([first, 11.0], [0, 0, 1])


def test_empty_cluster_keeps_its_centre_and_ties_go_to_the_first():
    state, _ = take_step(build_state([0, 2], [0, 1]), {0: 1, 1: -2})
    assert read(state) == ([0.5, 2.0], [0, 0])


def test_held_out_client_is_placed_and_moves_no_centre():
    state = FeSEM(FeSEMSettings()).place(build_state([0, 10], [0, 1, 0]), build_updates({2: 6}))
    assert read(state) == ([0.0, 10.0], [0, 1, 1])


def test_equal_clients_make_one_cluster_and_a_warning():
    state, diagnostics = take_step(build_state([0], [0, 0]), {0: 1, 1: 1})
    assert read(state) == ([1.0], [0, 0])
    assert "num_clusters = 2" in diagnostics.warnings[0]


def test_more_clusters_than_clients_are_refused():
    conditions = Conditions(1, has_reference_images=False, training={})
    assert "num_clusters" in FeSEM(FeSEMSettings()).problem(conditions)


@pytest.mark.parametrize(("weigh", "weights"), [("equal", "none"), ("images", "images")])
def test_one_cluster_is_fedavg_to_the_bit(weigh, weights, tmp_path):
    states = []
    for algorithm in ("fedavg", {"name": "fesem", "num_clusters": 1, "weigh": weigh}):
        run = config(algorithm, weights=weights, participation=0.5, training={"rounds": 2})
        states.append(checkpoint.load_state(play(run, tmp_path), 2).state.models[0])
    assert states[0].tobytes() == states[1].tobytes()

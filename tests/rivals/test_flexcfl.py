"""FlexCFL: groups from directions, places of newcomers, and the pull between groups, on short vectors."""

import numpy as np

from fedgrid import Conditions, Layout, Presence, State, Updates
from fedgrid.rivals.flexcfl import FlexCFL, FlexCFLSettings
from tests.helpers.small_runs import config, play, rows

LAYOUT = Layout(("weight", "buffer"), ((2,), (1,)), 2)
DELTAS = {0: [1, 0.1, 3], 1: [0, 2, 0], 3: [3, 0, 1], 4: [0.1, 1, 6]}
"""Clients 0 and 3 go one way, 1 and 4 another; the last entry is a buffer."""


def build_updates(vectors):
    return Updates({client: np.array(each, np.float32) for client, each in vectors.items()}, LAYOUT)


def found_groups(**settings):
    algorithm = FlexCFL(FlexCFLSettings(num_clusters=2, **settings))
    rng = np.random.default_rng(0)
    state = algorithm.init(LAYOUT, 6, lambda number: np.float32([10, 20, 0]), rng)
    return algorithm, *algorithm.step(state, 0, build_updates(DELTAS), rng)


def read(state):
    return [model.astype(np.float64).round(4).tolist() for model in state.models], state.labels_K.tolist()


def test_groups_of_round_1_are_by_direction():
    _, state, diagnostics = found_groups()
    models, labels = read(state)
    assert labels == [0, 1, 0, 0, 1, 0], "clients 2 and 5, without a group, have the label of the first"
    assert models == [[12.0, 20.05, 2.0], [10.05, 21.5, 3.0], [10.0, 20.0, 0.0]]
    assert state.arrays["has_group"].tolist() == [True, True, False, True, True, False]
    assert diagnostics.clustered


def test_newcomers_train_the_initial_model_and_join_the_nearest_direction():
    algorithm, state, _ = found_groups(pretrain_steps=7)
    present, rng = Presence((0, 1, 2, 3, 4), (1, 2)), np.random.default_rng(0)
    orders = algorithm.orders(state, 1, present, LAYOUT, rng)
    assert [(one.client, one.candidates, one.steps) for one in orders] == [(1, (1,), None), (2, (2,), 7)]
    state, diagnostics = algorithm.step(state, 1, build_updates({1: [1, 1, 1], 2: [-1, 1, 0]}), rng)
    models, labels = read(state)
    assert labels == [0, 1, 1, 0, 1, 0]
    assert models == [[12.0, 20.05, 2.0], [11.05, 22.5, 4.0], [10.0, 20.0, 0.0]], "2 is in no mean"
    assert list(diagnostics.placed) == [2]
    placed = algorithm.place(state, build_updates({5: [-3, 0.1, 0]}))
    assert placed.labels_K.tolist() == [0, 1, 1, 0, 1, 1]


def test_groups_move_together_by_the_formula():
    """g = (3, 4), (1, 0), eta = 0.1: (2.818, 3.636), (1.039, 0.078); buffers stay."""
    algorithm, state, _ = found_groups(group_rate=0.1)
    models = tuple(np.float32(each) for each in ([2, 4, 5], [0, 0, 6], [0, 0, 0]))
    state = State(models, state.labels_K, state.arrays)
    rng = np.random.default_rng(0)
    moved, _ = algorithm.step(state, 1, build_updates({0: [1, 0, 0], 1: [1, 0, 0]}), rng)
    assert read(moved)[0] == [[2.8182, 3.6364, 5.0], [1.0392, 0.0784, 6.0], [0.0, 0.0, 0.0]]
    alone, _ = algorithm.step(state, 1, build_updates({0: [1, 0, 0]}), rng)
    assert read(alone)[0][:2] == [[3.0, 4.0, 5.0], [0.0, 0.0, 6.0]], "only groups that trained"


def test_first_round_orders_twenty_clients_a_group():
    algorithm = FlexCFL(FlexCFLSettings(num_clusters=1))
    rng = np.random.default_rng(0)
    state = algorithm.init(LAYOUT, 50, lambda number: np.zeros(3, np.float32), rng)
    orders = algorithm.orders(state, 0, Presence(tuple(range(40)), (0,)), LAYOUT, rng)
    assert len({order.client for order in orders}) == 20
    assert {order.steps for order in orders} == {50}


def test_equal_clients_make_one_group_and_a_warning():
    algorithm = FlexCFL(FlexCFLSettings(num_clusters=2))
    rng = np.random.default_rng(0)
    state = algorithm.init(LAYOUT, 2, lambda number: np.zeros(3, np.float32), rng)
    state, diagnostics = algorithm.step(state, 0, build_updates({0: [1, 0, 0], 1: [2, 0, 0]}), rng)
    assert len(state.models) == 2
    assert "num_clusters = 2" in diagnostics.warnings[0]


def test_more_groups_than_clients_are_refused():
    conditions = Conditions(2, has_reference_images=False, training={})
    assert "num_clusters" in FlexCFL(FlexCFLSettings(num_clusters=3)).problem(conditions)


def test_newcomers_and_held_out_clients_join_a_group(tmp_path):
    run = config({"name": "flexcfl", "pretrain_steps": 5}, clients=9, held_out=0.2, joins={0: 2})
    play(run, tmp_path)
    last = [row for row in rows(run, tmp_path, "clients") if row["round"] == run.training.rounds]
    assert [row["cluster"] for row in last] == [0, 0, 0, 1, 1, 1, 2, 2, 2]

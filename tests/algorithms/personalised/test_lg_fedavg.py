"""LG-FedAvg: Liang et al. 2020; last layers shared, the others personal."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Adaptation, Presence, Traffic
from fedgrid.algorithms.personalised.lg_fedavg import find_personal_ranges
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import Layout
from fedgrid.engine.federation.clients.messages import EvaluateTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.training.confusion import compute_scores
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_cases import rng
from tests.helpers.small_runs import CLIENTS, NOWHERE, CountingPool, config, content, play, rows

NORMALISED = Layout(
    ("0.weight", "1.weight", "1.bias", "2.weight", "2.bias", "1.mean", "1.variance", "1.batches"),
    ((4, 2), (4,), (4,), (3, 4), (3,), (4,), (4,), ()),
    31,
)
"""A layer without bias, BatchNorm, a layer: 8, 8 and 15 parameters, then nine buffers of BatchNorm."""
MODEL, HEAD = 21674, 96 * 10 + 10
"""Entries of digitnet, and of its last layer."""


@pytest.mark.parametrize(
    ("shared", "expected"),
    [(0, [(0, 40)]), (1, [(0, 16), (31, 40)]), (2, [(0, 8)]), (3, []), (9, [])],
)
def test_buffers_stay_with_the_layer_that_they_belong_to(shared, expected):
    assert find_personal_ranges(NORMALISED, shared) == expected


def run(shared=1, rounds=3, **given):
    training = {"rounds": rounds, **given.pop("training", {})}
    return config(
        {"name": "lg-fedavg", "shared": shared, **given.pop("settings", {})}, training=training, **given
    )


def columns(run, root, *names):
    return {name: [row[name] for row in rows(run, root, "clients")] for name in names}


def model_of(folder, round_number):
    """Return the server's only model."""
    return checkpoint.load_state(folder, round_number).state.models[0]


TESTED = ("train_loss", "local_own_loss", "local_own_accuracy", "personalised_loss", "personalised_accuracy")


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_with_nothing_shared_every_client_has_the_numbers_of_solo(participation, tmp_path):
    """Up to rounding: solo adds an update to a model, LG-FedAvg remembers what it has trained."""
    ours, solo = run(0, participation=participation), config("solo", participation=participation)
    for each in (ours, solo):
        play(each, tmp_path)
    expected, found = (columns(each, tmp_path, *TESTED) for each in (solo, ours))
    for name in TESTED:
        np.testing.assert_allclose(
            np.array(found[name], float), np.array(expected[name], float), rtol=1e-4, atol=1e-6
        )
    assert {row["bytes_up"] for row in rows(ours, tmp_path, "rounds")} == {0}
    assert set(columns(ours, tmp_path, "update_norm")["update_norm"]) <= {0.0, None}


def test_with_everything_shared_a_run_has_the_bytes_of_fedavg(tmp_path):
    plain, ours = config("fedavg"), run(3)
    folders = [play(each, tmp_path) for each in (plain, ours)]
    models = [model_of(folder, 3).tobytes() for folder in folders]
    records = [[content(folder / f"{name}.parquet") for name in ("rounds", "clients")] for folder in folders]
    assert models[0] == models[1]
    assert records[0] == records[1]
    assert not list(folders[1].glob("state-client-*"))


def test_clients_are_tested_with_the_shared_layer_over_their_own_lower_ones(tmp_path):
    """Put together here from the state and the clients' memories; the server alone has no whole model."""
    ours = run(1)
    folder = play(ours, tmp_path)
    model = model_of(folder, 3)
    setup, _ = prepare_setup(ours, NOWHERE)
    initial = draw_initial_vector(ours.model, image_inputs(1, 8, 8), 10, ours.root_seed, 0)
    assert model[:-HEAD].tolist() == initial[:-HEAD].tolist()
    assert not np.isclose(model[-HEAD:], initial[-HEAD:]).all()
    memories = checkpoint.load_state(folder, 3).memories
    last = [row for row in rows(ours, tmp_path, "clients") if row["round"] == 3]
    for client, row in enumerate(last):
        whole = np.concatenate([memories[client]["personal"], model[-HEAD:]])
        [report] = ClientWorker(setup).evaluate([EvaluateTask(client, 0)], [whole])
        assert compute_scores([report.own])[0]["loss"] == row["personalised_loss"]
        assert row["generalised_loss"] is None


def test_warm_up_is_fedavg_and_shares_its_rounds(tmp_path):
    plain, ours = config("fedavg"), run(1, settings={"warmup_rounds": 2})
    play(plain, tmp_path)
    pool = CountingPool()
    play(ours, tmp_path, pool)
    assert {number for number, _ in pool.trained} == {3}
    down = [row["bytes_down"] for row in rows(ours, tmp_path, "rounds")]
    assert down == [CLIENTS * 4 * MODEL] * 2 + [CLIENTS * 4 * HEAD]


def test_orders_and_served_models_change_with_the_end_of_the_warm_up():
    algorithm = create_algorithm("lg-fedavg", {"shared": 1, "warmup_rounds": 1})
    state = algorithm.init(NORMALISED, 2, lambda number: np.zeros(40, np.float32), rng())
    everybody = Presence((0, 1), (0, 1))
    assert [order.rule for order in algorithm.orders(state, 0, everybody, NORMALISED, rng())] == [
        PLAIN,
        PLAIN,
    ]
    assert algorithm.served(state, NORMALISED).adaptation is None
    state = state.keep(rounds_done=np.array([1]))
    [order, _] = algorithm.orders(state, 1, everybody, NORMALISED, rng())
    assert order.rule.personal == ((0, 16), (31, 40))
    assert algorithm.served(state, NORMALISED).adaptation == Adaptation(order.rule, 0)
    assert algorithm.traffic(order, NORMALISED) == Traffic(down=4 * 15), "what is shared; up is measured"


def test_newcomer_is_served_the_shared_head_over_the_initial_lower_layers(tmp_path):
    """Client 5 joins in round 2 of 2, but drops out of none: before it trains, nobody tests it."""
    ours = run(1, rounds=2, joins={5: 2})
    play(ours, tmp_path)
    own = [row["personalised_loss"] for row in rows(ours, tmp_path, "clients") if row["client"] == 5]
    assert own[0] is None
    assert np.isfinite(own[1])

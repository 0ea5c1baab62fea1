"""Ditto: Li et al. 2021, by hand, and what it is equal to."""

import numpy as np
import pytest
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector, read_vector
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.ditto import DittoRule
from tests.helpers.plugin_files import DROPOUT, MODEL
from tests.helpers.scalar_client import ScalarClient
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import RATE, WHOLE, build_network, descend, read_tensors


def test_two_steps_of_one_weight():
    """With lambda 1, eta 0.1: v = 0.1 * 4, then 0.4 + 0.1 (3.6 - 0.4); w = 0.4, then 0.4 + 0.1 * 3.6."""
    rule = DittoRule(pull=1.0)
    weight, memory = ScalarClient(0.0, 0.1).train(rule, 2)
    assert (weight, memory["own"].item()) == (pytest.approx(0.76), pytest.approx(0.72))
    _, memory = ScalarClient(1.0, 0.1, memory=memory).train(rule, 1)
    assert memory["own"].item() == pytest.approx(0.72 + 0.1 * (3.28 + 0.28)), "pulled to the new w"


def test_a_pull_of_one_over_the_rate_steps_from_the_common_model():
    _, memory = ScalarClient(1.0, 0.1, memory={"own": np.array([3.0])}).train(DittoRule(pull=10.0), 1)
    assert memory["own"].item() == pytest.approx(1.0 + 0.1)


def test_own_models_are_pulled_and_served_and_absent_clients_keep_theirs(tmp_path):
    """Two rounds of one batch each by hand, half of the clients in each."""
    run = config({"name": "ditto", "pull": 0.5}, participation=0.5, training={"rounds": 2, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    common = draw_initial_vector(run.model, image_inputs(1, 8, 8), 10, run.root_seed)
    own: dict[int, np.ndarray] = {}
    clients = rows(run, tmp_path, "clients")
    for of_round in (clients[: run.clients], clients[run.clients :]):
        trained = [row["client"] for row in of_round if row["part"] == "trained"]
        sent = []
        for client in trained:
            images, labels = read_tensors(setup.clients[client].train)
            before = own.get(client, common)
            for model in (before, common):
                module = build_network(model)
                descend(cross_entropy(module(images), labels), list(module.parameters()))
                sent.append(read_vector(module))
            own[client] = sent.pop(-2) - np.float32(RATE * 0.5) * (before - common)
        common = np.mean(sent, axis=0)
        for row in of_round:
            images, labels = read_tensors(setup.clients[row["client"]].test)
            loss = cross_entropy(build_network(own.get(row["client"], common))(images), labels)
            assert row["personalised_loss"] == pytest.approx(loss.item(), rel=1e-4)
    stored = checkpoint.load_state(folder, 2)
    np.testing.assert_allclose(stored.state.models[0], common, atol=1e-6)
    assert sorted(stored.memories) == sorted(own)
    for client, model in own.items():
        np.testing.assert_allclose(stored.memories[client]["own"], model, atol=1e-6)


@pytest.mark.parametrize("pull", [0.0, 1.0])
def test_the_common_model_is_that_of_fedavg(pull, tmp_path):
    """To the bit, with dropout, whose draws the own model's steps leave as they are."""
    (tmp_path / "models.py").write_text(DROPOUT)
    active.use_plugins([tmp_path / "models.py"])
    models = []
    for algorithm in ("fedavg", {"name": "ditto", "pull": pull}):
        run = config(algorithm, clients=3, model="dropout-layer", training={"rounds": 2, "augment": ["crop"]})
        folder = play(run, tmp_path / str(len(models)), cache=None)
        models.append(checkpoint.load_state(folder, 2).state.models[0].tobytes())
    active.use_plugins()
    assert models[0] == models[1]


def test_without_a_pull_clients_train_alone(tmp_path):
    """As `solo`, whose server adds up what clients keep here."""
    training = {"rounds": 2, "momentum": 0.9, "keep_optimizer_state": True}
    ditto, solo = (
        config(name, clients=3, training=training) for name in ({"name": "ditto", "pull": 0}, "solo")
    )
    own = checkpoint.load_state(play(ditto, tmp_path), 2).memories
    alone = checkpoint.load_state(play(solo, tmp_path), 2).state.models
    for client, model in enumerate(alone):
        np.testing.assert_allclose(own[client]["own"], model, atol=1e-6)


def test_own_models_have_statistics_of_their_own(tmp_path):
    """After two rounds of a batch, with momentum 0.1: 0.19 of the mean of the client's own pixels."""
    (tmp_path / "own.py").write_text(MODEL.replace("nn.Flatten()", "nn.Flatten(), nn.BatchNorm1d(64)"))
    active.use_plugins([tmp_path / "own.py"])
    run = config("ditto", clients=3, model="own-model", training={"rounds": 2, **WHOLE})
    stored = checkpoint.load_state(play(run, tmp_path), 2)
    active.use_plugins()
    for client, data in enumerate(prepare_setup(run, NOWHERE)[0].clients):
        buffers = stored.memories[client]["own"][-129:]
        means = data.train.images.reshape(-1, 64).mean(axis=0) / 255
        np.testing.assert_allclose(buffers[:64], 0.19 * means, atol=1e-6)
        assert buffers[-1] == 2


def test_own_models_that_diverge_are_a_warning_of_each_round(tmp_path):
    run = config({"name": "ditto", "pull": 1e30}, training={"rounds": 3})
    play(run, tmp_path)
    last = rows(run, tmp_path, "rounds")[-1]
    assert (last["excluded"], last["warnings"]) == (0, run.clients)

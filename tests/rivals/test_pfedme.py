"""pFedMe: T. Dinh et al. 2020, by hand, and what it is equal to."""

import numpy as np
import pytest
from torch.nn.functional import cross_entropy

from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.pfedme import MoreauRule
from tests.helpers.plugin_files import MODEL
from tests.helpers.scalar_client import ScalarClient
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import WHOLE, build_network, read_tensors


def build_rule(tested="personal", **given):
    return MoreauRule(**{"pull": 1.0, "inner_steps": 2, "inner_rate": 0.1, "tested": tested, **given})


def test_two_batches_of_one_weight():
    """With lambda 1, eta_p 0.1, K 2, eta 0.5: theta = 0.4, 0.72, w = 0.36; then theta goes on from 0.72."""
    weight, memory = ScalarClient(0.0, 0.5).train(build_rule(), 1)
    assert (weight, memory["own"].item()) == (pytest.approx(0.36), pytest.approx(0.72))
    first = 0.72 + 0.1 * (3.28 - 0.36)
    second = first + 0.1 * (4 - first - (first - 0.36))
    weight, memory = ScalarClient(0.0, 0.5).train(build_rule(), 2)
    assert (weight, memory["own"].item()) == pytest.approx((0.36 + 0.5 * (second - 0.36), second))
    weight, memory = ScalarClient(0.0, 0.5).train(build_rule("local"), 2)
    assert memory["own"].item() == weight


def test_personal_models_start_from_the_common_one_in_each_round():
    memory = {"own": np.array([9.0])}
    weight, _ = ScalarClient(0.0, 0.5, memory=memory).train(build_rule(), 1)
    assert weight == pytest.approx(0.36)


def play_last(algorithm, root, **given):
    """Play two rounds; return the last state and the clients' rows."""
    training = {"rounds": 2, **given.pop("training", {})}
    run = config(algorithm, training=training, **given)
    stored = checkpoint.load_state(play(run, root), 2)
    return run, stored, rows(run, root, "clients")[-run.clients :]


def test_without_a_pull_the_common_model_stays(tmp_path):
    _, stored, _ = play_last({"name": "pfedme", "pull": 0}, tmp_path, clients=3)
    (tmp_path / "first").mkdir()
    run = config({"name": "pfedme", "pull": 0}, clients=3, training={"rounds": 1})
    first = checkpoint.load_state(play(run, tmp_path / "first"), 1).state
    assert stored.state.models[0].tobytes() == first.models[0].tobytes()
    assert stored.memories[0]["own"].tobytes() != first.models[0].tobytes()


def test_a_pull_of_one_over_the_rate_and_one_inner_step_is_fedavg(tmp_path):
    settings = {"name": "pfedme", "pull": 10, "inner_steps": 1, "inner_rate": 0.1}
    _, ours, _ = play_last(settings, tmp_path, clients=3, training={"learning_rate": 0.1})
    _, plain, _ = play_last("fedavg", tmp_path, clients=3, training={"learning_rate": 0.1})
    np.testing.assert_allclose(ours.state.models[0], plain.state.models[0], atol=1e-5)


@pytest.mark.parametrize("name", ["pfedme", "pfedme-as-published"])
def test_clients_are_served_the_model_of_their_last_training(name, tmp_path):
    """Half of the clients train in each of two rounds; one that never has is served the common model."""
    run, stored, last = play_last(name, tmp_path, participation=0.5)
    setup, _ = prepare_setup(run, NOWHERE)
    assert len(stored.memories) < run.clients
    for row in last:
        model = stored.memories.get(row["client"], {}).get("own", stored.state.models[0])
        images, labels = read_tensors(setup.clients[row["client"]].test)
        loss = cross_entropy(build_network(model)(images), labels).item()
        assert row["personalised_loss"] == pytest.approx(loss, rel=1e-5)
        if name == "pfedme-as-published" and row["part"] == "trained":
            assert row["personalised_loss"] == row["local_own_loss"]


def test_statistics_are_those_of_the_personal_models_passes(tmp_path):
    """K = 5 passes a batch, in the personal and in the common model."""
    (tmp_path / "own.py").write_text(MODEL.replace("nn.Flatten()", "nn.Flatten(), nn.BatchNorm1d(64)"))
    active.use_plugins([tmp_path / "own.py"])
    _, stored, _ = play_last("pfedme", tmp_path, clients=3, model="own-model", training=WHOLE)
    active.use_plugins()
    counters = [model[-1] for model in (stored.state.models[0], stored.memories[0]["own"])]
    assert counters == [10, 10]

"""APFL: Deng et al. 2020, by hand, and what it is equal to."""

import numpy as np
import pytest
from torch.nn.functional import cross_entropy

from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.apfl import MixtureRule
from tests.helpers.plugin_files import DROPOUT, MODEL
from tests.helpers.scalar_client import ScalarClient
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import WHOLE, build_network, read_tensors


def train(weight, rule, num_steps=1, **memory):
    arrays = {name: np.array([value]) for name, value in memory.items()}
    weight, memory = ScalarClient(weight, 0.1, memory=arrays).train(rule, num_steps)
    return weight, *(memory[name].item() for name in ("own", "mixture", "alpha"))


def test_a_step_of_one_weight():
    """With alpha 0.5, eta 0.1: w = 1 + 0.1 * 3; the mixture 0.65; v = 0.1 * 0.5 * 3.35."""
    found = train(1.0, MixtureRule(alpha=0.5, adaptive=False), own=0.0)
    assert found == pytest.approx((1.3, 0.1675, (1.3 + 0.1675) / 2, 0.5))


def test_a_step_of_alpha_takes_the_models_of_the_mixture():
    """From 0.25, as remembered: the mixture is 0.75 * 1.3 = 0.975, so alpha moves by 0.1 * -1.3 * 3.025."""
    rule = MixtureRule(alpha=0.9, adaptive=True)
    _, own, mixture, alpha = train(1.0, rule, own=0.0, alpha=0.25)
    assert (own, alpha) == pytest.approx((0.1 * 0.25 * 3.025, 0.0)), "0.25 - 0.39325 is cut"
    assert mixture == pytest.approx(1.3)
    assert train(1.0, rule, own=2.0, alpha=0.25)[-1] == pytest.approx(0.25 + 0.1 * 0.7 * (4 - 1.475))


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_common_model_is_that_of_fedavg(adaptive, tmp_path):
    """To the bit, with dropout, whose draws the mixture's steps leave as they are."""
    (tmp_path / "models.py").write_text(DROPOUT)
    active.use_plugins([tmp_path / "models.py"])
    models = []
    for algorithm in ("fedavg", {"name": "apfl", "adaptive": adaptive}):
        run = config(algorithm, clients=3, model="dropout-layer", training={"rounds": 2, "augment": ["crop"]})
        folder = play(run, tmp_path / str(len(models)), cache=None)
        models.append(checkpoint.load_state(folder, 2).state.models[0].tobytes())
    active.use_plugins()
    assert models[0] == models[1]


def test_alpha_0_is_fedavg_after_local_training_and_1_is_solo(tmp_path):
    """`local` tests of a run are those of the trained models, before the mean."""
    training = {"rounds": 2}
    for alpha, name, tested in ((0, "fedavg", "local_own_loss"), (1, "solo", "personalised_loss")):
        runs = [
            config(algorithm, clients=3, training=training)
            for algorithm in ({"name": "apfl", "alpha": alpha}, name)
        ]
        for run in runs:
            play(run, tmp_path)
        served, other = (rows(run, tmp_path, "clients") for run in runs)
        found = [row["personalised_loss"] for row in served]
        assert found == pytest.approx([row[tested] for row in other], rel=0 if alpha == 0 else 1e-5)


def test_clients_are_served_the_mixture_of_their_last_training(tmp_path):
    """Half of the clients train in each of two rounds; one that never has is served the common model."""
    run = config("apfl", participation=0.5, training={"rounds": 2, **WHOLE})
    stored = checkpoint.load_state(play(run, tmp_path), 2)
    setup, _ = prepare_setup(run, NOWHERE)
    assert len(stored.memories) < run.clients
    for row in rows(run, tmp_path, "clients")[run.clients :]:
        memory = stored.memories.get(row["client"], {})
        model = memory.get("mixture", stored.state.models[0])
        images, labels = read_tensors(setup.clients[row["client"]].test)
        loss = cross_entropy(build_network(model)(images), labels).item()
        assert row["personalised_loss"] == pytest.approx(loss, rel=1e-5)


def test_mixtures_have_statistics_of_their_own(tmp_path):
    """After two rounds of a batch, with momentum 0.1: 0.19 of the mean of the client's own pixels."""
    (tmp_path / "own.py").write_text(MODEL.replace("nn.Flatten()", "nn.Flatten(), nn.BatchNorm1d(64)"))
    active.use_plugins([tmp_path / "own.py"])
    run = config("apfl", clients=3, model="own-model", training={"rounds": 2, **WHOLE})
    stored = checkpoint.load_state(play(run, tmp_path), 2)
    active.use_plugins()
    for client, data in enumerate(prepare_setup(run, NOWHERE)[0].clients):
        buffers = stored.memories[client]["mixture"][-129:]
        means = data.train.images.reshape(-1, 64).mean(axis=0) / 255
        np.testing.assert_allclose(buffers[:64], 0.19 * means, atol=1e-6)
        assert buffers[-1] == 2

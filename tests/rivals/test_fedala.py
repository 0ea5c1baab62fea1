"""FedALA: Zhang et al. 2023; clients mix the common model into their own, entry by entry."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.models.flat_vectors import FlatModule, read_layout, write_vector
from fedgrid.engine.federation.training.local import Moment, train_client
from fedgrid.engine.federation.training.settings import Training
from fedgrid.engine.runtime.run import checkpoint
from tests.helpers.small_cases import start
from tests.helpers.small_runs import config, play, rows

TRAINING = Training(rounds=1, local_epochs=1, batch_size=4, optimizer="sgd", learning_rate=0.1).local
IMAGES = torch.from_numpy(np.random.default_rng(7).integers(0, 256, (9, 1, 1, 6)).astype(np.uint8))
LABELS = torch.arange(9) % 3


def build_module():
    """Build a model with BatchNorm: its last two tensors are the head's 4 x 3 weights and 3 biases."""
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))


def draw_model(seed):
    model = np.random.default_rng(seed).uniform(0.1, 0.9, 60).astype(np.float32)
    model[-1] = 3  # The counter of batches.
    return model


def build_rule(**settings):
    algorithm = create_algorithm("fedala", settings)
    model = draw_model(0)
    return algorithm.served(start(algorithm, 2, model), read_layout(build_module())).adaptation.rule


def mix(received, memory, *, steps=0, round_index=0, **settings):
    """Mix, then train for `steps`, one client; the part of its images is drawn by the round."""
    return train_client(
        FlatModule(build_module()),
        received,
        IMAGES,
        LABELS,
        TRAINING,
        np.random.default_rng(1),
        memory,
        rule=build_rule(**settings),
        max_steps=steps,
        moment=Moment(round_index, make_own_rng=lambda: np.random.default_rng(round_index)),
    )


def mix_by_hand(received, own, mixing, num_passes, rate=1.0):
    """Mix as Algorithm 1 does, on 7 of the 9 images in batches of 4; also list the losses of the passes."""
    head = slice(4 * 6 + 4 + 8, 4 * 6 + 4 + 8 + 15)
    begin = int(np.random.default_rng(0).integers(9 - 7 + 1))
    apart = torch.from_numpy(received[head] - own)
    mixing, losses = torch.from_numpy(mixing), []
    model = received.copy()
    for _ in range(num_passes):
        for part in (slice(begin, begin + 4), slice(begin + 4, begin + 7)):
            model[head] = own + (mixing * apart).numpy()
            module = build_module()
            write_vector(module, model)
            loss = cross_entropy(module(IMAGES[part] / 255), LABELS[part])
            gradients = torch.autograd.grad(loss, list(module[-1].parameters()))
            gradient = torch.cat([each.flatten() for each in gradients])
            mixing = (mixing - rate * gradient * apart).clamp(0, 1)
        losses.append(loss.item())
    model[head] = own + (mixing * apart).numpy()
    return model, mixing.numpy(), losses


def test_later_mixture_is_one_pass_of_algorithm_1():
    """Lower tensors and statistics are those received, although a pass moves the latter."""
    received, own = draw_model(1), draw_model(2)[-24:-9]
    mixing = np.linspace(0.2, 1, 15, dtype=np.float32)
    expected, expected_mixing, _ = mix_by_hand(received, own, mixing, 1)
    result = mix(received, {"own": own, "mixing": mixing}, batch=4)
    np.testing.assert_allclose(result.model, expected, atol=1e-6)
    np.testing.assert_allclose(result.memory["mixing"], expected_mixing, atol=1e-6)
    assert np.abs(expected_mixing - mixing).max() > 0.01
    assert result.memory["own"].tobytes() == result.model[-24:-9].tobytes()


@pytest.mark.parametrize(("most", "expected"), [(3, 3), (100, 11)])
def test_first_mixture_passes_until_the_loss_stands_still(most, expected):
    """Eleven passes are the fewest; these losses have a small deviation by then."""
    received, own = draw_model(1), draw_model(2)[-24:-9]
    _, mixing, losses = mix_by_hand(received, own, np.ones(15, np.float32), expected)
    assert np.std(losses[-10:]) < 0.1
    result = mix(received, {"own": own}, batch=4, most_passes=most)
    np.testing.assert_allclose(result.memory["mixing"], mixing, atol=1e-5)


def test_first_training_starts_from_the_model_received():
    received = draw_model(1)
    result = mix(received, {})
    assert result.model.tobytes() == received.tobytes()
    assert list(result.memory) == ["own"]


def test_more_tensors_than_the_model_has_are_all():
    assert mix(draw_model(1), {}, tensors=99).memory["own"].shape == (4 * 6 + 4 + 8 + 15,)


def test_mixing_weights_of_one_give_the_bits_of_fedavg(tmp_path):
    given = {"participation": 0.5, "training": {"rounds": 2}}
    folders = [play(config(name, **given), tmp_path) for name in ({"name": "fedala", "rate": 0}, "fedavg")]
    models = [checkpoint.load_state(folder, 2).state.models[0] for folder in folders]
    assert models[0].tobytes() == models[1].tobytes()


def test_clients_that_have_not_trained_yet_are_tested_with_the_common_model(tmp_path):
    runs = [config(name, participation=0.5, training={"rounds": 1}) for name in ("fedala", "fedavg")]
    tests = []
    for run in runs:
        play(run, tmp_path)
        tests.append(
            [row["personalised_loss"] for row in rows(run, tmp_path, "clients") if row["part"] != "trained"]
        )
    assert tests[0] == tests[1]
    assert len(tests[0]) == 3

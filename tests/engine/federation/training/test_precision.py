"""`training.precision`: bfloat16 inside the model, float32 everywhere else."""

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.averaging.fednova import NormalisedRule
from fedgrid.algorithms.averaging.fedprox import ProximalRule
from fedgrid.algorithms.averaging.scaffold import VARIATE, ScaffoldRule
from fedgrid.algorithms.personalised.per_fedavg import MetaRule
from fedgrid.engine.federation.models.flat_vectors import FlatModule, initialise_layers
from fedgrid.engine.federation.models.normalisation import MixedPrecision, Normalised
from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining
from tests.helpers.small_runs import ArithmeticPool, config, play, warnings

ONE_PIXEL = torch.tensor([[[[255, 0]]]], dtype=torch.uint8)
"""As in `test_rules`: a step of plain SGD has exact numbers of few bits, so that both precisions agree."""


def settings(**changes):
    values = {"local_epochs": 1, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1}
    return LocalTraining(**{**values, **changes})


def one_step(learning_rate, weight):
    """Return a linear model's state after a step from equal weights, and the loss."""
    flat = FlatModule(MixedPrecision(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)), "cpu"))
    start, options = np.full(6, weight, np.float32), settings(learning_rate=learning_rate)
    result = train_client(flat, start, ONE_PIXEL, torch.tensor([0]), options, np.random.default_rng(0))
    return result.model.tolist(), result.losses


def test_steps_too_small_for_bfloat16_move_the_weights():
    """The next bfloat16 after 1 is 1 + 2^-7. The gradient is -1/2 and 1/2, so the step 2^-13."""
    step = 2.0**-13
    model, _ = one_step(2.0**-12, 1.0)
    assert model == [1 + step, 1, 1 - step, 1, 1 + step, 1 - step]


def test_layers_compute_with_eight_significant_bits():
    module = MixedPrecision(nn.Sequential(nn.Flatten(), nn.Linear(1, 1, bias=False)), "cpu")
    for weight, output in [(1 + 2**-7, 1 + 2**-7), (1 + 2**-9, 1.0)]:
        nn.init.constant_(module.module[1].weight, weight)
        logits = module(torch.ones(1, 1, 1, 1))
        assert (logits.dtype, logits.item()) == (torch.float32, output)
        assert module.module[1].weight.item() == weight


def test_batch_norm_keeps_its_statistics_in_float32():
    """Of inputs that bfloat16 has: their mean 1 + 2^-8 has not, and a tenth of it is what BatchNorm notes."""
    norm = nn.BatchNorm2d(1)
    seen = []
    norm.register_forward_hook(lambda layer, inputs, output: seen.append(inputs[0].dtype))
    convolution = nn.Conv2d(1, 1, 1, bias=False)
    nn.init.ones_(convolution.weight)
    MixedPrecision(nn.Sequential(convolution, norm), "cpu")(torch.tensor([1, 1 + 2.0**-7]).view(2, 1, 1, 1))
    assert seen == [torch.bfloat16]
    assert norm.running_mean.dtype == norm.running_var.dtype == torch.float32
    assert norm.running_mean.item() == pytest.approx(0.1 * (1 + 2**-8), rel=1e-6)


def convolutional(precision):
    """With BatchNorm, behind normalised pixels."""
    layers = [nn.Conv2d(2, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)]
    module = nn.Sequential(*layers)
    initialise_layers(module, torch.Generator().manual_seed(0))
    module = Normalised(module, [0.5, 0.5], [0.3, 0.3], "cpu")
    return FlatModule(MixedPrecision(module, "cpu") if precision == "bfloat16" else module)


def images_of_three_classes(num_images=48):
    """Bright in another row each."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 3, num_images)
    images = rng.integers(0, 200, (num_images, 2, 6, 6))
    images[np.arange(num_images), :, 2 * labels] += 55
    return torch.from_numpy(images.astype(np.uint8)), torch.from_numpy(labels)


def convolve(precision, rule=None, payload=None, **changes):
    """Return (update, result) of training."""
    flat = convolutional(precision)
    start = flat.read_vector()
    rules = {} if rule is None else {"rule": rule, "payload": payload or {}}
    options = settings(precision=precision, batch_size=16, **changes)
    result = train_client(flat, start, *images_of_three_classes(), options, np.random.default_rng(1), **rules)
    return result.model - start, result


RULES = {
    "plain": (None, {}),
    "FedProx": (ProximalRule(mu=0.1), {}),
    "SCAFFOLD": (ScaffoldRule(), {VARIATE: np.full(547, 1e-3, np.float32)}),
    "FedNova": (NormalisedRule(mu=0.0), {}),
    "Per-FedAvg": (MetaRule(alpha=0.1, variant="first-order", delta=1e-3), {}),
}


@pytest.mark.parametrize("rule", RULES)
def test_every_local_rule_takes_nearly_the_path_of_float32(rule):
    """Rounding moves an update by less than a tenth of its length; other bits show that it was rounded."""
    (wide, one), (narrow, other) = (
        convolve(precision, *RULES[rule], augment=("crop", "flip")) for precision in ("float32", "bfloat16")
    )
    assert 0 < np.linalg.norm(narrow - wide) < 0.1 * np.linalg.norm(wide)
    assert {array.dtype for array in (other.model, *other.outputs.values(), *other.memory.values())} == {
        np.dtype(np.float32)
    }
    assert other.losses == pytest.approx(one.losses, rel=0.02)


def test_tests_and_predictions_are_in_the_models_precision_with_sums_in_float64():
    images, labels = images_of_three_classes()
    flat = convolutional("bfloat16")
    vector = flat.read_vector()
    counts = evaluation.evaluate_model(flat.module, images, labels, 3, 16)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        logits = flat.module.module(evaluation.convert_to_inputs(images))
    assert logits.dtype == torch.bfloat16
    expected = nn.functional.cross_entropy(logits.double(), labels, reduction="sum")
    assert counts.loss_sum == pytest.approx(float(expected), rel=1e-3)
    probabilities = evaluation.predict_probabilities(flat.module, evaluation.convert_to_inputs(images))
    assert probabilities.dtype == np.float32
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(labels)), abs=1e-6)
    assert flat.read_vector().tobytes() == vector.tobytes()


class OldProcessors(ArithmeticPool):
    machines = staticmethod(lambda: [{"processor": "AVX2", "bfloat16": "emulated"}])


def test_log_of_a_run_says_where_bfloat16_is_emulated(tmp_path):
    for each, told in [("float32", 0), ("bfloat16", 1)]:
        run = config(training={"precision": each, "rounds": 1})
        play(run, tmp_path, OldProcessors())
        assert sum("training.precision = bfloat16" in line for line in warnings(run, tmp_path)) == told

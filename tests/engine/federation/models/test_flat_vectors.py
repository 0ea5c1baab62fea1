import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import flat_vectors, registry
from fedgrid.engine.federation.models.flat_vectors import (
    FlatModule,
    build_blank,
    draw_initial_vector,
    initialise_layers,
)


@pytest.mark.parametrize(
    ("name", "side"), [("tinyvgg", 8), ("digitnet", 8), ("lenet5", 16), ("lenet5-tanh", 16), ("resnet9", 8)]
)
def test_weights_are_those_that_torch_would_draw_from_the_same_seed(name, side):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        expected = registry.build_model(name, image_inputs(1, side, side), 10)
    module = registry.build_model(name, image_inputs(1, side, side), 10)
    initialise_layers(module, torch.Generator().manual_seed(5))
    assert flat_vectors.read_vector(module).tobytes() == flat_vectors.read_vector(expected).tobytes()


def test_batch_norm_starts_as_the_identity_with_no_batch_counted():
    module = nn.Sequential(nn.BatchNorm2d(2))
    flat_vectors.write_vector(module, np.full(9, 7, np.float32))
    initialise_layers(module, torch.Generator())
    weight, bias, mean, variance, batches = [1, 1], [0, 0], [0, 0], [1, 1], [0]
    assert flat_vectors.read_vector(module).tolist() == weight + bias + mean + variance + batches


def test_blank_model_is_on_the_cpu_with_the_kinds_of_parameters_and_buffers_it_was_built_with(monkeypatch):
    """One parameter is frozen, one buffer is not part of the state."""

    def build(*image):
        module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
        module[0].bias.requires_grad_(False)
        module.register_buffer("mask", torch.ones(3), persistent=False)
        return module

    def kinds(module):
        parts = [*module.named_parameters(), *module.named_buffers()]
        return [(name, part.shape, part.dtype, part.device, part.requires_grad) for name, part in parts]

    monkeypatch.setitem(registry.MODELS, "odd", registry.ModelEntry("odd", "", "", build))
    found, expected = build_blank("odd", image_inputs(1, 8, 8), 10), build()
    assert kinds(found) == kinds(expected)
    assert list(found.state_dict()) == list(expected.state_dict())


def test_resnet34_starts_with_the_weight_norm_seen_in_the_ocfl_archive():
    """In the logs of centralised training. Expected: L1 norm 207292 with three channels and nine classes,
    standard deviation 27."""
    vector = draw_initial_vector("resnet34", image_inputs(3, 28, 28), 9, seed=0)
    with torch.device("meta"):
        layout = flat_vectors.read_layout(registry.build_model("resnet34", image_inputs(3, 28, 28), 9))
    norm = np.abs(vector[: layout.num_parameters]).sum(dtype=np.float64)
    assert norm == pytest.approx(207_292, abs=4 * 27)


def test_mobilenet_is_initialised_by_pytorchs_rule_and_not_by_torchvisions():
    """Uniform in +-1 / sqrt(fan in), which of a depthwise 3x3 kernel is 9; torchvision draws normals by the
    fan out, and sets the head's bias to zero."""
    vector = draw_initial_vector("mobilenet", image_inputs(3, 32, 32), 10, seed=0)
    with torch.device("meta"):
        layout = flat_vectors.read_layout(registry.build_model("mobilenet", image_inputs(3, 32, 32), 10))
    parts = {name: vector[where] for name, where, _ in layout.slices()}
    for name, fan_in in (("features.0.0.weight", 27), ("features.1.conv.0.0.weight", 9)):
        assert 0.9 / fan_in**0.5 < np.abs(parts[name]).max() <= 1 / fan_in**0.5
    assert 0 < np.abs(parts["classifier.bias"]).max() <= 1 / 1280**0.5


def test_layers_that_are_not_known_and_frozen_ones_keep_what_they_have():
    module = nn.Sequential(
        nn.LSTM(2, 2), nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(requires_grad=False)
    )
    before = {name: tensor.clone() for name, tensor in module.named_parameters()}
    initialise_layers(module, torch.Generator().manual_seed(5))
    changed = [name for name, tensor in module.named_parameters() if not torch.equal(tensor, before[name])]
    assert changed == ["1.weight", "1.bias"]


@pytest.fixture
def module():
    return nn.Sequential(nn.Conv2d(2, 3, 2, bias=False), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 1))


def test_a_layout_names_parameters_first_and_then_buffers(module):
    layout = flat_vectors.read_layout(module)
    assert layout.names == (
        "0.weight",
        "1.weight",
        "1.bias",
        "3.weight",
        "3.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    )
    assert layout.shapes == ((3, 2, 2, 2), (3,), (3,), (1, 3), (1,), (3,), (3,), ())
    assert layout.num_parameters == 24 + 3 + 3 + 3 + 1
    assert layout.size == 34 + 3 + 3 + 1


@pytest.mark.parametrize("flat", [False, True])
def test_written_state_is_read_back(module, flat):
    vector = np.arange(41, dtype=np.float32)
    holder = FlatModule(module) if flat else None
    if holder is None:
        flat_vectors.write_vector(module, vector)
    else:
        holder.write_vector(vector)
    assert flat_vectors.read_vector(module).tolist() == vector.tolist()
    assert holder is None or holder.read_vector().tolist() == vector.tolist()
    assert module[0].weight[1, 0].tolist() == [[8, 9], [10, 11]]


def test_counters_are_rounded_to_the_nearest_whole_number(module):
    vector = np.zeros(41, np.float32)
    vector[-1] = 35.9999
    flat_vectors.write_vector(module, vector)
    assert module[1].num_batches_tracked.dtype == torch.int64
    assert flat_vectors.read_vector(module)[-1] == 36


def test_a_vector_of_another_length_is_refused(module):
    with pytest.raises(ValueError, match=r"shape \(40,\) does not fit a model of 41 entries"):
        flat_vectors.write_vector(module, np.zeros(40, np.float32))


def test_a_flat_module_keeps_its_weights_and_shares_them_with_one_tensor(module):
    before = flat_vectors.read_vector(module)
    flat = FlatModule(module)
    assert flat_vectors.read_vector(module).tolist() == before.tolist()
    assert module[0].weight.is_contiguous(memory_format=torch.channels_last)
    flat.weights.fill_(2)
    assert flat_vectors.read_vector(module)[:34].tolist() == [2] * 34


def test_gradients_of_a_flat_module_land_in_one_tensor_in_the_order_of_the_weights(module):
    flat = FlatModule(module.eval())
    flat.module(torch.rand(1, 2, 2, 2)).sum().backward()
    expected = torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters()])
    assert flat.gradient.any()
    assert flat.gather_vector(flat.gradient).tolist() == expected.tolist()


@pytest.mark.parametrize("size", [34, 41], ids=["parameters", "state"])
def test_vectors_are_the_same_after_a_round_trip(module, size):
    """A state has BatchNorm's buffers too; the other counter is a constant of the module."""
    module.register_buffer("calls", torch.tensor(3))
    flat = FlatModule(module)
    vector = np.arange(size, dtype=np.float32) / 3
    tensor = flat.scatter_vector(vector)
    assert tensor.shape == (size,)
    assert flat.gather_vector(tensor).tobytes() == vector.tobytes()


def test_a_state_becomes_a_snapshot_that_can_be_loaded(module):
    flat = FlatModule(module)
    vector = np.arange(41, dtype=np.float32)
    flat.load_snapshot(flat.scatter_vector(vector))
    assert flat.read_vector().tobytes() == vector.tobytes()
    assert flat.take_snapshot().equal(flat.scatter_vector(vector))

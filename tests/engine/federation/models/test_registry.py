"""The registry of models, and their networks."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import Inputs, draw_examples, image_inputs
from fedgrid.engine.federation.models import flat_vectors, registry
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector, read_layout
from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.federation.training.layers import draws_random_numbers


@pytest.mark.parametrize(
    ("name", "shape", "num_classes", "parameters"),
    [
        # 320 + 9248 + 18496 + 36928 of the convolutions, 64 * 7 * 7 * 10 + 10 of the head
        ("tinyvgg", (1, 28, 28), 10, 96_362),
        # the count that the OCFL archive's weight norms point to: 21.28 million
        ("resnet34", (3, 32, 32), 10, 21_282_122),
        # torchvision's 3,504,872 for 1,000 classes; the head has 1,281 for each
        ("mobilenet", (3, 32, 32), 10, 3_504_872 - 990 * 1281),
        # 65 * 128 + 129 * 96 + 97 * 10
        ("digitnet", (1, 8, 8), 10, 21_674),
        # BASELINES section 11, but for MobileNet's
        ("lenet5", (3, 32, 32), 10, 62_006),
        ("lenet5", (1, 28, 28), 10, 44_426),
        ("lenet5-tanh", (1, 28, 28), 10, 85_822),
        ("lenet5-tanh", (1, 28, 28), 62, 90_242),
        ("resnet9", (3, 32, 32), 100, 6_621_540),
        ("resnet18", (3, 32, 32), 10, 11_181_642),
        ("resnet18", (3, 64, 64), 7, 11_180_103),
        # Keras says 4,253,864 for 1,000 classes, of which 21,888 are BatchNorm's moving statistics
        ("mobilenet-v1", (3, 224, 224), 1000, 4_253_864 - 21_888),
    ],
)
def test_number_of_parameters(name, shape, num_classes, parameters):
    assert number_of_parameters(name, image_inputs(*shape), num_classes) == parameters


def inputs_of(size):
    """What a size in the listing stands for: 3x32x32, 1x40, 8, 20 of 30."""
    shape, _, vocabulary = size.partition(" of ")
    sides = tuple(map(int, shape.split("x")))
    kind = "tokens" if vocabulary else "pixels" if len(sides) == 3 else "numbers"
    return Inputs(kind, sides, int(vocabulary or 0))


def number_of_parameters(name, inputs, num_classes):
    with torch.device("meta"):
        module = registry.build_model(name, inputs, num_classes)
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", registry.MODELS)
def test_head_is_the_last_layer_of_the_vector(name):
    """So that FedRep's head is the layer that LG-FedAvg shares with `shared: 1`."""
    for size in (*registry.MODELS[name].parameters, *(["40"] if name == "cnn-1d" else [])):
        with torch.device("meta"):
            layout = read_layout(registry.build_model(name, inputs_of(size), 10))
        named = dataclasses.replace(layout, head=registry.MODELS[name].head)
        assert named.head_layers == named.layers[-1:]
        assert layout.head_layers == ()


@pytest.mark.parametrize("name", registry.MODELS)
def test_listed_number_of_parameters_is_right(name):
    sizes = registry.MODELS[name].parameters
    assert sizes
    for size, listed in sizes.items():
        assert number_of_parameters(name, inputs_of(size), 10) == listed


def test_statistics_of_mobilenet_v1_and_resnet18_are_those_of_their_sources():
    """Keras: 21,888 statistics that do not train; torchvision: 9,600, and 20 counters."""
    sizes = {}
    for name in ("mobilenet-v1", "resnet18"):
        layout = read_layout(build_blank(name, image_inputs(3, 32, 32), 10))
        counters = sum(each.endswith("num_batches_tracked") for each in layout.names)
        sizes[name] = layout.size - layout.num_parameters - counters, counters
    assert sizes == {"mobilenet-v1": (21_888, 27), "resnet18": (9_600, 20)}


def test_resnet34_has_36_batch_norms_no_convolution_bias_and_keeps_28_pixels_as_a_4x4_grid():
    with torch.device("meta"):
        module = registry.build_model("resnet34", image_inputs(3, 28, 28), 8)
        grid = module[:-3](torch.empty(2, 3, 28, 28))
    layers = list(module.modules())
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in layers) == 36
    assert all(layer.bias is None for layer in layers if isinstance(layer, nn.Conv2d))
    assert grid.shape == (2, 512, 4, 4)


@pytest.mark.parametrize(("side", "grid"), [(32, 2), (28, 2), (8, 1)])
def test_mobilenet_halves_a_small_image_four_times_and_not_in_its_stem(side, grid):
    with torch.device("meta"):
        module = registry.build_model("mobilenet", image_inputs(1, side, side), 10)
        images = torch.empty(2, 1, side, side)
        assert module.features[0](images).shape == (2, 32, side, side)
        assert module.features(images).shape == (2, 1280, grid, grid)
    assert not any(isinstance(layer, nn.Dropout) for layer in module.modules())


@pytest.mark.parametrize("name", [name for name, entry in registry.MODELS.items() if "pixels" in entry.takes])
@pytest.mark.parametrize(("channels", "more"), [(1, (0, 0)), (3, (1, 6))])
def test_every_model_accepts_any_channels_and_size_from_its_smallest_on(name, channels, more):
    side = registry.MODELS[name].minimum_side
    shape = (channels, side + more[0], side + more[1])
    with torch.device("meta"):
        logits = registry.build_model(name, image_inputs(*shape), 7)(torch.empty(2, *shape))
    assert logits.shape == (2, 7)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("name", ["lenet5", "lenet5-tanh", "resnet9"])
def test_smallest_side_is_the_smallest_that_works(name, monkeypatch):
    entry = registry.MODELS[name]
    side = entry.minimum_side - 1
    monkeypatch.setitem(registry.MODELS, name, dataclasses.replace(entry, minimum_side=1))
    with pytest.raises((RuntimeError, ZeroDivisionError)), torch.device("meta"):
        registry.build_model(name, image_inputs(1, side, side), 10)(torch.empty(2, 1, side, side))


def test_lenet5_is_the_sequence_of_operations_that_flis_describes():
    module = build_blank("lenet5", image_inputs(1, 28, 28), 10)
    flat_vectors.write_vector(module, draw_initial_vector("lenet5", image_inputs(1, 28, 28), 10, seed=0))
    (w1, b1), (w2, b2), (w3, b3), (w4, b4), (w5, b5) = zip(*[iter(module.parameters())] * 2, strict=True)
    images = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    hidden = functional.max_pool2d(functional.relu(functional.conv2d(images, w1, b1)), 2)
    hidden = functional.max_pool2d(functional.relu(functional.conv2d(hidden, w2, b2)), 2).flatten(1)
    hidden = functional.relu(functional.linear(functional.relu(functional.linear(hidden, w3, b3)), w4, b4))
    assert torch.equal(module(images), functional.linear(hidden, w5, b5))


@pytest.mark.parametrize("name", registry.MODELS)
def test_no_model_draws_random_numbers_while_it_runs(name):
    size = next(iter(registry.MODELS[name].parameters))
    inputs = inputs_of(size)
    module = registry.build_model(name, inputs, 10)
    batch = torch.from_numpy(draw_examples(inputs, 2, np.random.default_rng(0)))
    assert not draws_random_numbers(module, convert_to_inputs(batch))


def test_images_too_small_for_a_model_are_refused():
    with pytest.raises(ConfigError, match="images of 3x28 are too small for model 'tinyvgg'.*at least 4x4"):
        registry.build_model("tinyvgg", image_inputs(1, 3, 28), 10)


def test_unknown_model_suggests_the_nearest():
    with pytest.raises(ConfigError, match="unknown model 'resnet43'; did you mean 'resnet34'"):
        registry.build_model("resnet43", image_inputs(1, 28, 28), 10)


@pytest.mark.parametrize(
    ("name", "part", "size"),
    [
        # FLIS shares the last two layers under LG-FedAvg, Prigent et al. the convolutions under IFCA
        ("lenet5", slice(-4, None), 11_014),
        ("lenet5-tanh", slice(0, 4), 13_248),
    ],
)
def test_parts_of_lenet5_that_the_papers_share_are_of_their_size(name, part, size):
    with torch.device("meta"):
        parameters = list(registry.build_model(name, image_inputs(1, 28, 28), 10).parameters())
    assert sum(parameter.numel() for parameter in parameters[part]) == size

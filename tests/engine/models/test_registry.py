import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.models import registry
from fedgrid.engine.models.flat_vectors import FlatModule, layout_of
from fedgrid.engine.models.initialisation import blank, initial_vector
from fedgrid.engine.training.local import train
from fedgrid.engine.training.settings import Training


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
    ],
)
def test_parameters_are_counted_as_the_architecture_says(name, shape, num_classes, parameters):
    with torch.device("meta"):
        module = registry.build(name, shape, num_classes)
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters


def test_resnet34_has_36_batch_norms_no_convolution_bias_and_keeps_28_pixels_as_a_4x4_grid():
    with torch.device("meta"):
        module = registry.build("resnet34", (3, 28, 28), 8)
        grid = module[:-3](torch.empty(2, 3, 28, 28))
    layers = list(module.modules())
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in layers) == 36
    assert all(layer.bias is None for layer in layers if isinstance(layer, nn.Conv2d))
    assert grid.shape == (2, 512, 4, 4)


@pytest.mark.parametrize(("side", "grid"), [(32, 2), (28, 2), (8, 1)])
def test_mobilenet_halves_a_small_image_four_times_and_not_in_its_stem(side, grid):
    with torch.device("meta"):
        module = registry.build("mobilenet", (1, side, side), 10)
        images = torch.empty(2, 1, side, side)
        assert module.features[0](images).shape == (2, 32, side, side)
        assert module.features(images).shape == (2, 1280, grid, grid)
    assert not any(isinstance(layer, nn.Dropout) for layer in module.modules())


def test_mobilenet_learns_in_one_step_and_moves_its_buffers():
    """One batch: the loss on it falls, BatchNorm counts it, and every weight that has a gradient moves."""
    flat = FlatModule(blank("mobilenet", (3, 32, 32), 10))
    start = initial_vector("mobilenet", (3, 32, 32), 10, seed=0)
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (8, 3, 32, 32), generator=rng, dtype=torch.uint8)
    labels = torch.arange(8)
    training = Training(rounds=1, local_epochs=2, batch_size=8, optimizer="sgd", learning_rate=0.05)
    trained = train(flat, start, images, labels, training, np.random.default_rng(0))
    assert trained.losses[1] < trained.losses[0] < 2 * np.log(10)
    counters = [
        trained.model[where] - start[where]
        for name, where, _ in layout_of(flat.module).slices()
        if name.endswith("num_batches_tracked")
    ]
    assert len(counters) == 52
    assert set(np.concatenate(counters)) == {2}


@pytest.mark.parametrize("name", registry.MODELS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 14)])
def test_every_model_takes_any_channels_and_size(name, shape):
    with torch.device("meta"):
        logits = registry.build(name, shape, 7)(torch.empty(2, *shape))
    assert logits.shape == (2, 7)


@pytest.mark.parametrize("name", registry.MODELS)
def test_no_model_draws_random_numbers_while_it_runs(name):
    module = registry.build(name, (1, 8, 8), 10).train()
    before = torch.get_rng_state()
    module(torch.zeros(2, 1, 8, 8)).sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


def test_pooling_before_the_relu_changes_no_bit_of_outputs_and_gradients():
    images = torch.rand(4, 6, 8, 8, generator=torch.Generator().manual_seed(0)) - 0.5
    results = []
    for layers in ([nn.MaxPool2d(2), nn.ReLU()], [nn.ReLU(), nn.MaxPool2d(2)]):
        leaf = images.clone().requires_grad_()
        outputs = nn.Sequential(*layers)(leaf)
        outputs.square().sum().backward()
        results.append((outputs.detach(), leaf.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_images_too_small_for_a_model_are_refused():
    with pytest.raises(ConfigError, match="images of 3x28 are too small for model 'tinyvgg'.*at least 4x4"):
        registry.build("tinyvgg", (1, 3, 28), 10)


def test_an_unknown_model_is_named_with_its_nearest_neighbour():
    with pytest.raises(ConfigError, match="unknown model 'resnet43'; did you mean 'resnet34'"):
        registry.build("resnet43", (1, 28, 28), 10)

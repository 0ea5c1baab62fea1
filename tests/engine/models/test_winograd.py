"""Winograd's convolutions against torch's, and the rule by which they are used."""

import pytest
import torch
from torch import nn

from fedgrid.engine.models.flat_vectors import layout_of
from fedgrid.engine.models.initialisation import blank
from fedgrid.engine.models.winograd import Convolution, FastConv2d, tile_of, with_fast_convolutions
from fedgrid.engine.training.settings import LocalTraining

SIDES = (2, 4)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gap(ours, theirs):
    """Return the largest difference."""
    return (ours - theirs).abs().max().item()


@pytest.mark.parametrize("side", SIDES)
def test_ones_convolved_with_ones_count_the_pixels_under_the_kernel(side):
    """A 4x4 image: four pixels at a corner, six at an edge, nine inside."""
    outputs = Convolution.apply(torch.ones(1, 1, 4, 4).double(), torch.ones(1, 1, 3, 3).double(), side)
    edge, inner = [4, 6, 6, 4], [6, 9, 9, 6]
    assert gap(outputs[0, 0], torch.tensor([edge, inner, inner, edge])) < 1e-12


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("size", [(4, 4), (7, 5), (2, 9)], ids=str)
def test_outputs_are_those_of_the_library_for_sides_that_are_no_multiple_of_a_tile(side, size):
    images, weights = drawn(2, 3, *size), drawn(5, 3, 3, 3, seed=1)
    ours = Convolution.apply(images, weights, side)
    assert ours.shape == (2, 5, *size)
    assert gap(ours, torch.conv2d(images, weights, padding=1)) < 1e-12
    assert ours.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("side", SIDES)
def test_gradients_are_those_of_finite_differences(side):
    images, weights = drawn(1, 2, 5, 4).requires_grad_(), drawn(2, 2, 3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda *inputs: Convolution.apply(*inputs, side), (images, weights))


@pytest.mark.parametrize("only", ["images", "weights"])
def test_a_gradient_that_nobody_wants_changes_not_the_other(only):
    images, weights = drawn(1, 2, 4, 4), drawn(2, 2, 3, 3, seed=1)
    wanted = {"images": images, "weights": weights}[only].requires_grad_()
    Convolution.apply(images, weights, 2).sum().backward()
    ours, wanted.grad = wanted.grad, None
    torch.conv2d(images, weights, padding=1).sum().backward()
    assert gap(ours, wanted.grad) < 1e-12


@pytest.mark.parametrize(("side", "size"), [(2, 4), (4, 8)])
def test_float32_is_as_exact_as_128_channels_need(side, size):
    """Relative errors against float64: the library's are 4e-7 to 1e-6."""
    shapes = (8, 128, size, size), (128, 128, 3, 3)
    inputs = [drawn(*shape, seed=seed, dtype=torch.float32) for seed, shape in enumerate(shapes)]
    ours, exact = (
        [each.to(dtype, copy=True).requires_grad_() for each in inputs]
        for dtype in (torch.float32, torch.float64)
    )
    results = [Convolution.apply(*ours, side), torch.conv2d(*exact, padding=1)]
    given = drawn(*results[1].shape, seed=2)
    for outputs in results:
        outputs.backward(given.to(outputs.dtype))
    pairs = [results, *((one.grad, other.grad) for one, other in zip(ours, exact, strict=True))]
    errors = [((one - other).norm() / other.norm()).item() for one, other in pairs]
    assert max(errors) < 5e-6


@pytest.mark.parametrize(
    ("shape", "num_outputs", "side"),
    [
        pytest.param((32, 512, 4, 4), 512, 2, id="small maps: tiles of 2x2"),
        pytest.param((32, 256, 8, 8), 256, 4, id="larger maps: tiles of 4x4"),
        pytest.param((32, 256, 7, 7), 256, 4, id="of 28x28 pixels"),
        pytest.param((32, 512, 3, 4), 512, None, id="maps of 3 pixels"),
        pytest.param((32, 127, 8, 8), 256, None, id="few channels in"),
        pytest.param((32, 256, 8, 8), 127, None, id="few channels out"),
        pytest.param((7, 512, 4, 4), 512, None, id="28 tiles in the batch"),
        pytest.param((8, 512, 4, 4), 512, 2, id="32 tiles in the batch"),
    ],
)
def test_rule_by_shape(shape, num_outputs, side):
    assert tile_of(torch.empty(shape), num_outputs) == side


def test_rule_by_type_and_device():
    images = torch.empty(32, 256, 8, 8)
    assert tile_of(images.bfloat16(), 256) is None
    assert tile_of(images.to("meta"), 256) is None


def test_setting_without_effect_is_refused():
    given = {"batch_size": 8, "optimizer": "sgd", "learning_rate": 0.1}
    assert LocalTraining(**given, kernels="auto").kernels == "auto"
    with pytest.raises(ValueError, match="kernels = auto has no effect with precision bfloat16, only with"):
        LocalTraining(**given, kernels="auto", precision="bfloat16")


def test_only_plain_3x3_convolutions_of_many_channels_are_replaced():
    kept = [
        nn.Conv2d(128, 128, 3, 2, padding=1),
        nn.Conv2d(128, 128, 3),
        nn.Conv2d(128, 128, 1),
        nn.Conv2d(128, 128, 3, padding=1, groups=2),
        nn.Conv2d(128, 128, 3, padding=2, dilation=2),
        nn.Conv2d(128, 128, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(64, 128, 3, padding=1),
    ]
    plain = nn.Conv2d(128, 128, 3, padding=1)
    module = with_fast_convolutions(nn.Sequential(*kept, nn.Sequential(plain)))
    assert list(module)[:-1] == kept
    assert type(module[-1][0]) is FastConv2d
    assert module[-1][0].weight is plain.weight
    assert module[-1][0].bias is plain.bias


def test_a_models_state_stays_as_it_was_and_nothing_is_drawn():
    before = torch.random.get_rng_state()
    module = blank("resnet34", (3, 32, 32), 10)
    layout = layout_of(module)
    assert layout_of(with_fast_convolutions(module)) == layout
    assert sum(isinstance(layer, FastConv2d) for layer in module.modules()) == 7 + 11 + 5
    assert torch.equal(torch.random.get_rng_state(), before)


def test_bias_and_the_library_where_the_rule_says_so():
    """The same bits as the library's in bfloat16 and for few images; nearly the same numbers else."""
    layer = nn.Conv2d(128, 128, 3, padding=1)
    nn.init.uniform_(layer.weight, -0.03, 0.03, generator=torch.Generator().manual_seed(0))
    nn.init.constant_(layer.bias, 2.0)
    fast = with_fast_convolutions(nn.Sequential(layer))
    many, few = drawn(8, 128, 8, 8, dtype=torch.float32), drawn(1, 128, 8, 8, dtype=torch.float32)
    assert torch.equal(fast(few), layer(few))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(fast(many), layer(many))
    assert not torch.equal(fast(many), layer(many))
    assert gap(fast(many), layer(many)) < 1e-4
    assert fast(many).mean().item() == pytest.approx(2, abs=0.1)

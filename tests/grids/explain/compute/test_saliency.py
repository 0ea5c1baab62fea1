"""Saliency maps of networks small enough to work them out by hand."""

import pytest
import torch
from torch import nn

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.normalisation import MixedPrecision
from fedgrid.grids.explain.compute.saliency import (
    compute_input_gradients,
    compute_unrectified_maps,
    grad_cam,
)

IMAGE = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
THREE = torch.stack([IMAGE] * 3)
CLASSES = torch.arange(3)
FEATURES = "1"


def two_filters():
    """1x1 filters +1 and -1 with biases 0 and 5: feature maps [[1, 2], [3, 4]] and [[4, 3], [2, 1]].

    Their means are 2.5 each, so that the head gives the logits 3, 0 and -5. The ReLU writes in place.
    """
    module = nn.Sequential(
        nn.Conv2d(1, 2, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3)
    )
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
        module[0].bias.copy_(torch.tensor([0.0, 5.0]))
        module[4].weight.copy_(torch.tensor([[2.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]))
        module[4].bias.copy_(torch.tensor([0.5, 0.0, 0.0]))
    return module.eval()


def test_unrectified_map_is_the_sum_of_feature_maps_by_the_mean_gradient():
    """The mean gradient of a filter is a quarter of its head weight: 0.5 and -0.25 for class 0."""
    assert compute_unrectified_maps(two_filters(), FEATURES, THREE, CLASSES).tolist() == [
        [[-0.5, 0.25], [1.0, 1.75]],
        [[0.75, 0.25], [-0.25, -0.75]],
        [[-1.25, -1.25], [-1.25, -1.25]],
    ]


def test_maps_of_a_model_in_bfloat16_are_float32():
    """Eight significant bits suffice for the numbers worked out by hand, so that they are the same."""
    module = MixedPrecision(two_filters(), "cpu").eval()
    found = compute_unrectified_maps(module, f"module.{FEATURES}", THREE, CLASSES)
    assert found.dtype == torch.float32
    assert torch.equal(found, compute_unrectified_maps(two_filters(), FEATURES, THREE, CLASSES))


def test_map_is_rectified_and_scaled_and_empty_without_a_positive_value():
    found = grad_cam(two_filters(), FEATURES, THREE, CLASSES)
    expected = [[[0, 1 / 7], [4 / 7, 1]], [[1, 1 / 3], [0, 0]], [[0, 0], [0, 0]]]
    assert found.maps_NHW == pytest.approx(torch.tensor(expected))
    assert found.largest_N.tolist() == [1.75, 0.75, 0.0]


def test_layer_whose_successor_writes_in_place_gives_its_own_output():
    """The convolution is positive here, so that its map is that of the ReLU."""
    module = two_filters()
    by_convolution, by_relu = (
        compute_unrectified_maps(module, layer, THREE, CLASSES) for layer in ("0", FEATURES)
    )
    assert torch.equal(by_convolution, by_relu)


def test_map_of_a_pooled_linear_head_sums_to_the_logit_without_its_bias():
    """Hence a predicted class whose logit exceeds its bias has no empty map."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)
    ).eval()
    images = torch.rand(4, 3, 6, 7)
    sums_N = compute_unrectified_maps(module, FEATURES, images, torch.arange(4)).sum(dim=(1, 2))
    logits_N = module(images).diagonal()
    assert sums_N == pytest.approx((logits_N - module[4].bias).detach(), abs=1e-6)
    assert compute_unrectified_maps(two_filters(), FEATURES, THREE, CLASSES).sum(dim=(1, 2)).tolist() == [
        2.5,
        0.0,
        -5.0,
    ]


def test_map_is_enlarged_to_the_image_and_scaled_after():
    """A map of 1x2, 0 and 3 say, on 1x4 pixels: 0, a quarter, three quarters and all of it."""
    module = nn.Sequential(nn.AvgPool2d((1, 2)), nn.Flatten(), nn.Linear(2, 1))
    with torch.no_grad():
        module[2].weight.fill_(1.0)
    found = grad_cam(module.eval(), "0", torch.tensor([[[[0.0, 0.0, 3.0, 3.0]]]]), torch.tensor([0]))
    assert found.maps_NHW.tolist() == [[[0.0, 0.25, 0.75, 1.0]]]


def test_input_gradients_are_the_greatest_absolute_weight_over_the_channels():
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        # Two channels of two pixels; class 1 weighs them 1, -8 and -4, 2.
        module[1].weight.copy_(torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, -8.0, -4.0, 2.0]]))
    images = torch.rand(2, 2, 1, 2)
    found = compute_input_gradients(module.eval(), images, torch.tensor([1, 0]))
    assert found.maps_NHW.tolist() == [[[0.0, 1.0]], [[0.0, 0.0]]]
    assert found.largest_N.tolist() == [8.0, 0.0]


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        ("2.conv", ("2.conv", "known: 0, 1, 2, 3, 4")),
        ("", ("''", "known: 0, 1")),
        ("4", ("4", "no feature map", "input gradients")),
    ],
)
def test_layer_that_has_no_feature_map_is_named_with_what_to_do(layer, named):
    with pytest.raises(ConfigError) as caught:
        grad_cam(two_filters(), layer, THREE, CLASSES)
    assert all(part in str(caught.value) for part in named)


@pytest.mark.parametrize(
    "explain", [compute_input_gradients, lambda *given: grad_cam(given[0], FEATURES, *given[1:])]
)
def test_model_in_train_mode_is_refused(explain):
    module = two_filters()
    module[4].train()
    with pytest.raises(ValueError, match="train mode"):
        explain(module, THREE, CLASSES)


def test_two_filters_have_the_logits_worked_out_by_hand():
    assert two_filters()(IMAGE[None]).tolist() == [[3.0, 0.0, -5.0]]

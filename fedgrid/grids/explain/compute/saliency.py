"""Saliency maps by captum: how much each pixel of an image speaks for a class.

Sources: Grad-CAM is Selvaraju et al., ICCV 2017, equations 1 and 2; input gradients are Simonyan et al., ICLR
2014 workshop, section 3. Maps are scaled to [0, 1] for each image, as the package `grad-cam` does; its two
scalings, before and after the enlargement, are the same function as one after it. Images are explained one at
a time: the last bits of a convolution depend on the number of images in its batch.

Shapes: N images of C channels and H x W pixels, F channels of a feature map of h x w.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from captum import attr
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.federation.errors import ConfigError, suggest_name


@dataclass(frozen=True)
class Saliency:
    """Saliency maps of N images."""

    maps_NHW: Tensor
    """Maps, float32 in [0, 1], least 0 and greatest 1 in each; 0 everywhere in an empty one."""
    largest_N: Tensor
    """Greatest value of each map before it was scaled, float32."""


def find_feature_layer(module: nn.Module, image_CHW: Tensor) -> str | None:
    """Find the last layer whose output is a feature map of more than one pixel.

    Returns:
        Its name; None if the model has none, as a perceptron: `compute_input_gradients` explains it.
    """
    check_mode(module)
    called: list[str] = []

    def build_hook(name: str) -> Callable[..., None]:
        """Build a hook that lists a layer by its name."""

        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            """List the layer if its output is a feature map."""
            if isinstance(output, Tensor) and output.dim() == 4 and output.shape[2:].numel() > 1:
                called.append(name)

        return hook

    # Forward hooks report the order of use, which may differ from that of the definition.
    hooks = [layer.register_forward_hook(build_hook(name)) for name, layer in module.named_modules() if name]
    try:
        with torch.inference_mode():
            module(image_CHW[None])
    finally:
        for hook in hooks:
            hook.remove()
    return called[-1] if called else None


def grad_cam(module: nn.Module, layer: str, images_NCHW: Tensor, targets_N: Tensor) -> Saliency:
    """Compute the Grad-CAM maps of images for their target classes.

    Args:
        module: Model that maps images to logits, in `eval` mode.
        layer: Name of a layer of the module whose output is a feature map, as from `find_feature_layer`; of a
            layer that is used several times, the last use.
        images_NCHW: Inputs of the module, float32.
        targets_N: Classes, int64.

    Raises:
        ValueError: The module is in `train` mode.
        ConfigError: There is no such layer, or its output is no feature map.
    """
    rectified_N1hw = compute_unrectified_maps(module, layer, images_NCHW, targets_N).relu()[:, None]
    size = images_NCHW.shape[2:]
    enlarged_N1HW = functional.interpolate(rectified_N1hw, size=size, mode="bilinear", align_corners=False)
    return _scale_maps(enlarged_N1HW[:, 0], rectified_N1hw.amax(dim=(1, 2, 3)))


def compute_unrectified_maps(module: nn.Module, layer: str, images_NCHW: Tensor, targets_N: Tensor) -> Tensor:
    """Compute the maps that `grad_cam` rectifies: weighted sums of feature maps, shape (N, h, w).

    Args:
        module: Model that maps images to logits, in `eval` mode.
        layer: Name of a layer of the module whose output is a feature map.
        images_NCHW: Inputs of the module, float32.
        targets_N: Classes, int64.

    Raises:
        ValueError: The module is in `train` mode.
        ConfigError: There is no such layer, or its output is no feature map.
    """
    check_mode(module)
    part = _find_layer(module, layer)
    activation = attr.LayerActivation(module, part)
    gradient = attr.LayerGradientXActivation(module, part, multiply_by_inputs=False)
    maps = []
    for image_CHW, target in zip(images_NCHW, targets_N.tolist(), strict=True):
        input_1CHW = image_CHW[None].detach().requires_grad_()
        features_1Fhw = activation.attribute(input_1CHW)
        if not isinstance(features_1Fhw, Tensor) or features_1Fhw.dim() != 4:
            raise ConfigError(
                f"the output of layer '{layer}' is no feature map; name a convolutional layer, or use input "
                "gradients"
            )
        # `attr.LayerGradCam` would sum in bfloat16 in a model of bfloat16, whose eight bits are too few.
        gradient_Fhw = gradient.attribute(input_1CHW, target)[0].float()
        maps.append((gradient_Fhw.mean(dim=(1, 2), keepdim=True) * features_1Fhw[0].float()).sum(dim=0))
    return torch.stack(maps).detach()


def compute_input_gradients(module: nn.Module, images_NCHW: Tensor, targets_N: Tensor) -> Saliency:
    """Compute the greatest absolute gradient of the target's logit over the channels of each pixel.

    Raises:
        ValueError: The module is in `train` mode.
    """
    check_mode(module)
    # A first layer may write to its input in place, which a leaf that needs a gradient does not allow.
    gradient = attr.Saliency(lambda images_NCHW: module(images_NCHW.clone()))
    maps_NHW = torch.cat(
        [
            gradient.attribute(image_CHW[None].detach().requires_grad_(), target).amax(dim=1)
            for image_CHW, target in zip(images_NCHW, targets_N.tolist(), strict=True)
        ]
    )
    return _scale_maps(maps_NHW, maps_NHW.amax(dim=(1, 2)))


def _find_layer(module: nn.Module, name: str) -> nn.Module:
    """Find a layer by its name."""
    layers: dict[str, nn.Module] = dict(module.named_modules())
    if not name or name not in layers:
        others = [other for other in layers if other]
        raise ConfigError(
            f"no layer '{name}' in the model; {suggest_name(name, others)}known: {', '.join(others)}"
        )
    return layers[name]


def check_mode(module: nn.Module) -> None:
    """Check that a model is in `eval` mode, all of its layers.

    Raises:
        ValueError: It is not.
    """
    if any(part.training for part in module.modules()):
        raise ValueError("the model is in train mode: BatchNorm would see half-black images; call .eval()")


def _scale_maps(maps_NHW: Tensor, largest_N: Tensor) -> Saliency:
    """Shift each map to a least value of 0, and divide it by its greatest."""
    shifted_NHW = maps_NHW - maps_NHW.amin(dim=(1, 2), keepdim=True)
    range_N11 = shifted_NHW.amax(dim=(1, 2), keepdim=True)
    # An empty map has no range; dividing it by 1 leaves 0 everywhere.
    return Saliency(shifted_NHW / torch.where(range_N11 > 0, range_N11, 1), largest_N)

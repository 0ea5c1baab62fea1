"""Saliency maps: how much each pixel of an image speaks for a class.

Sources: Grad-CAM is Selvaraju et al., ICCV 2017, equations 1 and 2; input gradients are Simonyan et al., ICLR
2014 workshop, section 3. Maps are scaled to [0, 1] for each image, as the package `grad-cam` does; its two
scalings, before and after the enlargement, are the same function as one after it.

Shapes: N images of C channels and H x W pixels, F channels of a feature map of h x w.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.federation.errors import ConfigError, hint


@dataclass(frozen=True)
class Saliency:
    """Maps of N images."""

    maps_NHW: Tensor
    """Float32 in [0, 1], least 0 and greatest 1 in each map; 0 everywhere in an empty one."""
    largest_N: Tensor
    """Float32: the greatest value of each map before it was scaled."""

    @property
    def empty_N(self) -> Tensor:
        """Which maps are constant: they order no pixels."""
        return self.maps_NHW.amax(dim=(1, 2)) == 0


def feature_layer(module: nn.Module, image_CHW: Tensor) -> str | None:
    """Return the name of the last layer whose output is a feature map of more than one pixel.

    None if the model has none, as a perceptron: `input_gradients` explains it.
    """
    check_mode(module)
    called: list[str] = []

    def note(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.dim() == 4 and output.shape[2:].numel() > 1:
                called.append(name)

        return hook

    layers = ((name, layer) for name, layer in module.named_modules() if name)
    hooks = [layer.register_forward_hook(note(name)) for name, layer in layers]
    try:
        with torch.inference_mode():
            module(image_CHW[None])
    finally:
        for hook in hooks:
            hook.remove()
    return called[-1] if called else None


def grad_cam(module: nn.Module, layer: str, images_NCHW: Tensor, targets_N: Tensor) -> Saliency:
    """Return the Grad-CAM maps of images for their target classes.

    Args:
        module: maps images to logits, in `eval` mode.
        layer: name of a layer of the module whose output is a feature map, as from `feature_layer`.
        images_NCHW: float32 inputs of the module.
        targets_N: int64 classes.

    Raises:
        ValueError: the module is in `train` mode.
        ConfigError: there is no such layer, its output is no feature map, or it is not used exactly once.
    """
    rectified_N1hw = unrectified_maps(module, layer, images_NCHW, targets_N).relu()[:, None]
    size = images_NCHW.shape[2:]
    enlarged_N1HW = functional.interpolate(rectified_N1hw, size=size, mode="bilinear", align_corners=False)
    return _scaled(enlarged_N1HW[:, 0], rectified_N1hw.amax(dim=(1, 2, 3)))


def unrectified_maps(module: nn.Module, layer: str, images_NCHW: Tensor, targets_N: Tensor) -> Tensor:
    """Return what `grad_cam` rectifies: weighted sums of feature maps, shape (N, h, w); raises as it does."""
    check_mode(module)
    part = _layer(module, layer)
    maps = []
    # One image at a time: the last bits of a convolution depend on the number of images beside it.
    for image_CHW, target in zip(images_NCHW, targets_N.tolist(), strict=True):
        features_Fhw, gradient_Fhw = _features(module, part, layer, image_CHW, target)
        maps.append((gradient_Fhw.mean(dim=(1, 2), keepdim=True) * features_Fhw).sum(dim=0))
    return torch.stack(maps)


def input_gradients(module: nn.Module, images_NCHW: Tensor, targets_N: Tensor) -> Saliency:
    """Return the greatest absolute gradient over a pixel's channels of the target's logit.

    Raises:
        ValueError: the module is in `train` mode.
    """
    check_mode(module)
    maps = []
    for image_CHW, target in zip(images_NCHW, targets_N.tolist(), strict=True):
        with torch.enable_grad():
            input_1CHW = image_CHW[None].detach().clone().requires_grad_()
            # The clone is what a first layer may write to in place.
            (gradient_1CHW,) = torch.autograd.grad(module(input_1CHW.clone())[0, target], input_1CHW)
        maps.append(gradient_1CHW[0].abs().amax(dim=0))
    maps_NHW = torch.stack(maps)
    return _scaled(maps_NHW, maps_NHW.amax(dim=(1, 2)))


def _features(
    module: nn.Module, part: nn.Module, layer: str, image_CHW: Tensor, target: int
) -> tuple[Tensor, Tensor]:
    """Return the feature map of a layer, and the gradient of the target's logit by it, both float32."""
    outputs: list[Tensor] = []

    def split(_module: nn.Module, _inputs: Any, output: Any) -> Tensor:
        if not isinstance(output, Tensor) or output.dim() != 4:
            raise ConfigError(
                f"the output of layer '{layer}' is no feature map; name a convolutional layer, or use input "
                "gradients"
            )
        outputs.append(output.detach().requires_grad_())
        # A layer after this one may write in place.
        return outputs[-1].clone()

    hook = part.register_forward_hook(split)
    try:
        with torch.enable_grad():
            logit = module(image_CHW[None])[0, target]
            if len(outputs) != 1:
                raise ConfigError(
                    f"layer '{layer}' is used {len(outputs)} times in a forward pass; name one "
                    "that is used once"
                )
            (gradient,) = torch.autograd.grad(logit, outputs)
    finally:
        hook.remove()
    # In a model of bfloat16 both are bfloat16, whose eight bits are too few for their sums.
    return outputs[0].detach()[0].float(), gradient[0].float()


def _layer(module: nn.Module, name: str) -> nn.Module:
    layers: dict[str, nn.Module] = dict(module.named_modules())
    if not name or name not in layers:
        known = [each for each in layers if each]
        raise ConfigError(f"no layer '{name}' in the model; {hint(name, known)}known: {', '.join(known)}")
    return layers[name]


def check_mode(module: nn.Module) -> None:
    """Check that a model is in `eval` mode, all of its layers.

    Raises:
        ValueError: it is not.
    """
    if any(part.training for part in module.modules()):
        raise ValueError("the model is in train mode: BatchNorm would see half-black images; call .eval()")


def _scaled(maps_NHW: Tensor, largest_N: Tensor) -> Saliency:
    """Shift each map to a least value of 0, and divide it by its greatest."""
    shifted_NHW = maps_NHW - maps_NHW.amin(dim=(1, 2), keepdim=True)
    range_N11 = shifted_NHW.amax(dim=(1, 2), keepdim=True)
    return Saliency(shifted_NHW / torch.where(range_N11 > 0, range_N11, 1), largest_N)

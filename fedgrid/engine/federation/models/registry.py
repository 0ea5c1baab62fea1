"""The models that a run can train: one entry each.

Commands that only need the names do not import torch, which takes seconds: an entry's `build` imports
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.federation.inputs import KINDS, ONLY_PIXELS, Inputs, Kind

if TYPE_CHECKING:
    from torch import nn

    from fedgrid.engine.federation.models.networks import Build


INPUT = "input"
"""Stands in place of a layer in `saliency_layer`: gradients by the pixels themselves."""


@dataclass(frozen=True)
class ModelEntry:
    """A model of the registry, of the package or of a plugin's `MODELS`: it has either `build` or
    `module`.

    Args:
        name: name in configurations.
        description: one line for listings.
        source: where the architecture comes from.
        build: builds the module for images. Default: none.
        module: builds the module for any kind of examples. Default: none.
        takes: kinds of examples that it can be given. Default: pixels with `build`, all with `module`.
        minimum_side: least height and width of an image. Default: 1.
        parameters: numbers of parameters, for listings. Default: none.
        saliency_layer: layer that Grad-CAM explains. Default: not known.
        head: module whose inputs are the features. Default: not known.

    Example:
        >>> import fedgrid
        >>> from torch import nn
        >>> def softmax(channels, height, width, num_classes):
        ...     return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, num_classes))
        >>> entry = fedgrid.ModelEntry("softmax", "one linear layer", "ours", softmax, head="1")
        >>> entry.takes
        ('pixels',)
        >>> entry.function(1, 8, 8, 10)[1]
        Linear(in_features=64, out_features=10, bias=True)
    """

    name: str
    """Name in configurations, as in `model: tinyvgg`."""
    description: str
    """One line for listings."""
    source: str
    """Where the architecture comes from."""
    build: Build | None = None
    """Builds a new module from channels, height, width and the number of classes. Called by fedgrid in each
    process that trains or tests, and before the run to read the layout. Fedgrid draws the first weights of
    convolutions, linear layers, BatchNorm and GroupNorm; all else keeps the module's own."""
    module: Callable[[Inputs, int], nn.Module] | None = None
    """Builds a new module from `Inputs` and the number of classes; called like `build`. Its first
    weights are its own: loaded, or drawn from the global generators of torch, NumPy or Python, which are
    seeded by the run for the call."""
    takes: tuple[Kind, ...] = ()
    """Kinds of examples that it can be given; empty: pixels with `build`, anything with `module`."""
    minimum_side: int = 1
    """Least height and width of an image, in pixels."""
    # Not hashed, as a dict has no hash, and entries are keys of caches.
    parameters: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Number of parameters with ten classes, by the size of an image as in `3x32x32`; for listings."""
    saliency_layer: str | None = None
    """Name of the layer whose output Grad-CAM explains, the last feature map of more than one pixel;
    `INPUT` for a model without feature maps, which input gradients explain. None: not known."""
    head: str | None = None
    """Name of the module whose inputs are the model's features, mostly its last layer; None: not known."""

    def __post_init__(self) -> None:
        """Fill in `takes` where the entry leaves it out."""
        if not self.takes:
            # The class is frozen, as `flat_vectors` caches layouts by entry.
            object.__setattr__(self, "takes", ONLY_PIXELS if self.module is None else KINDS)

    @property
    def function(self) -> Callable[..., nn.Module]:
        """The one of `build` and `module` that the entry has."""
        function = self.build or self.module
        assert function is not None, "checked as a plugin is loaded"
        return function


def _import_network(function: str) -> Build:
    """Wrap a function of `networks` or `autoencoders`, so that torch is imported at its first call."""

    def build(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
        """Import the function and call it."""
        from fedgrid.engine.federation.models import autoencoders, networks

        make: Build = getattr(networks, function, None) or getattr(autoencoders, function)
        return make(channels, height, width, num_classes)

    return build


def _import_small_network(function: str) -> Callable[[Inputs, int], nn.Module]:
    """Wrap a function of `networks` for numbers, series or tokens, like `_import_network`."""

    def build(inputs: Inputs, num_classes: int) -> nn.Module:
        """Import the function and call it."""
        from fedgrid.engine.federation.models import networks

        module: nn.Module = getattr(networks, function)(inputs, num_classes)
        return module

    return build


_ENTRIES = (
    ModelEntry(
        "tinyvgg",
        "two blocks of two 3x3 convolutions (32 and 64 wide), no BatchNorm",
        "after Simonyan and Zisserman 2015 (VGG); widths ours, the OCFL archive does not say its own",
        _import_network("tinyvgg"),
        minimum_side=4,
        saliency_layer="9",
        head="11",
        parameters={"1x28x28": 96_362, "3x32x32": 106_538},
    ),
    ModelEntry(
        "resnet34",
        "ResNet-34 for small images: 3x3 stem of stride 1, no max-pool",
        "He et al. 2016; the stem as inferred from the OCFL archive's weight norms",
        _import_network("resnet34"),
        minimum_side=8,
        saliency_layer="18",
        head="21",
        parameters={"3x32x32": 21_282_122},
    ),
    ModelEntry(
        "mobilenet",
        "MobileNetV2 for small images: stem of stride 1, no dropout",
        "Sandler et al. 2018, as in torchvision; PyTorch's default initialisation instead of its own",
        _import_network("mobilenet"),
        minimum_side=8,
        saliency_layer="features",
        head="classifier",
        parameters={"3x32x32": 2_236_682},
    ),
    ModelEntry(
        "digitnet",
        "two hidden layers (128 and 96 wide), for 8x8 digits",
        "ours",
        _import_network("digitnet"),
        saliency_layer=INPUT,
        head="5",
        parameters={"1x8x8": 21_674},
    ),
    ModelEntry(
        "lenet5",
        "LeNet-5: two 5x5 convolutions (6 and 16 wide) with ReLU, layers of 120 and 84",
        "LeCun et al. 1998, as in FLIS (Morafah et al. 2022)",
        _import_network("lenet5"),
        minimum_side=16,
        saliency_layer="5",
        head="11",
        parameters={"1x28x28": 44_426, "3x32x32": 62_006},
    ),
    ModelEntry(
        "lenet5-tanh",
        "LeNet-5 with Tanh, convolutions 16 and 32 wide; no softmax at its end",
        "LeCun et al. 1998, as in Prigent et al., whose release has that softmax",
        _import_network("lenet5_tanh"),
        minimum_side=16,
        saliency_layer="5",
        head="11",
        parameters={"1x28x28": 85_822, "3x32x32": 121_182},
    ),
    ModelEntry(
        "resnet9",
        "ResNet-9 with GroupNorm of 32 groups and biases",
        "He et al. 2016, as in FLIS (Morafah et al. 2022)",
        _import_network("resnet9"),
        minimum_side=8,
        saliency_layer="16",
        head="19",
        parameters={"3x32x32": 6_575_370},
    ),
    ModelEntry(
        "resnet18",
        "ResNet-18 with the stem for 224 pixels: 7x7 of stride 2, max-pool",
        "He et al. 2016, as in torchvision; PyTorch's default initialisation instead of its own",
        _import_network("resnet18"),
        minimum_side=8,
        saliency_layer="layer3",
        head="fc",
        parameters={"3x32x32": 11_181_642},
    ),
    ModelEntry(
        "mobilenet-v1",
        "MobileNet (the first) of width 1: stem of stride 2, no dropout",
        "Howard et al. 2017, as in Keras; BatchNorm's constants are PyTorch's",
        _import_network("mobilenet_v1"),
        minimum_side=8,
        saliency_layer="68",
        head="83",
        parameters={"3x32x32": 3_217_226},
    ),
    ModelEntry(
        "linear",
        "multinomial logistic regression",
        "as in FedProx (Li et al. 2020) on its synthetic data",
        module=_import_small_network("linear"),
        takes=("pixels", "numbers"),
        head="1",
        saliency_layer=INPUT,
        parameters={"60": 610},
    ),
    ModelEntry(
        "mlp",
        "two hidden layers (64 wide), for tables and anything else but tokens",
        "ours",
        module=_import_small_network("mlp"),
        head="5",
        takes=("pixels", "numbers"),
        saliency_layer=INPUT,
        parameters={"8": 5_386},
    ),
    ModelEntry(
        "cnn-1d",
        "three 1-D convolutions (32 wide, stride 2), for series",
        "ours",
        module=_import_small_network("cnn_1d"),
        head="8",
        takes=("numbers",),
        parameters={"1x40": 8_010},
    ),
    ModelEntry(
        "lstm",
        "an embedding of 8, one LSTM layer (64 wide), for tokens such as characters",
        "ours, smaller than that of McMahan et al. 2017 (two layers of 256)",
        module=_import_small_network("lstm"),
        head="head",
        takes=("tokens",),
        parameters={"20 of 30": 19_834},
    ),
)

MODELS: dict[str, ModelEntry] = {one.name: one for one in _ENTRIES}
"""Models by name: those of the package, then those of the plugins in use (`runtime.plugins`)."""

AUTOENCODERS: dict[str, ModelEntry] = {
    one.name: one
    for one in (
        ModelEntry(
            "autoencoder-dense",
            "pixels-50-20-50-pixels with ReLU; codes of 20 numbers",
            "Prigent et al. 2024",
            _import_network("dense"),
            parameters={"1x28x28": 81_304},
        ),
        ModelEntry(
            "autoencoder-convolutional",
            "4x4 convolutions of stride 2, 12, 24 and 48 wide, with BatchNorm, and their mirror image",
            "Prigent et al. 2024",
            _import_network("convolutional"),
            parameters={"3x32x32": 47_601},
        ),
    )
}
"""Models of images, for the encoders of `federation.encoders`; no run can train one as its own model."""


def check_size(name: str, inputs: Inputs) -> None:
    """Check that images are large enough for the named model.

    Raises:
        ConfigError: they are not.
    """
    min_side = find_entry(name).minimum_side
    height, width = inputs.shape[-2:] if inputs.kind == "pixels" else (min_side, min_side)
    if min(height, width) < min_side:
        raise ConfigError(
            f"images of {height}x{width} are too small for model '{name}', which needs at least"
            f" {min_side}x{min_side}; choose another model or enlarge the images",
            ("model",),
        )


def build_model(name: str, inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a new module of the named model, with one logit for each class.

    It may draw from the global generators, which the caller seeds.

    Raises:
        ConfigError: unknown name, or images too small for the model.
    """
    check_size(name, inputs)
    named = find_entry(name)
    # A function for images takes their sizes one by one, as published code does; one for any kind takes
    # `Inputs`.
    given = (inputs,) if named.build is None else inputs.shape
    return named.function(*given, num_classes)


def find_entry(name: str) -> ModelEntry:
    """Find the entry of a model or an autoencoder.

    Raises:
        ConfigError: unknown name.
    """
    if name not in MODELS and name not in AUTOENCODERS:
        raise unknown_name_error("model", name, MODELS)
    return MODELS.get(name) or AUTOENCODERS[name]

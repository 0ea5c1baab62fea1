"""A linear model: softmax regression on the pixels."""

from torch import nn

from fedgrid import ModelEntry


def softmax_regression(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build a module from images (N, channels, height, width) in [0, 1] to logits (N, num_classes)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, num_classes))


MODELS = [
    ModelEntry(
        name="softmax",
        description="one linear layer, no hidden one",
        source="ours",
        build=softmax_regression,
        saliency_layer="input",
        head="1",
    )
]

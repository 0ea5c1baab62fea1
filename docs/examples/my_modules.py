"""Any layers, tied weights, and a frozen backbone with weights from a file."""

from math import prod

from torch import Tensor, nn

from fedgrid import Inputs, ModelEntry, pretrained

WEIGHTS = "~/backbone.safetensors", "0000000000000000000000000000000000000000000000000000000000000000"


def normed(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a perceptron with LayerNorm and GELU."""
    hidden = nn.Sequential(nn.Linear(prod(inputs.shape), 32), nn.LayerNorm(32), nn.GELU())
    return nn.Sequential(nn.Flatten(), hidden, nn.Linear(32, num_classes))


class Tied(nn.Module):
    """Two layers with one matrix, and biases of their own."""

    def __init__(self, pixels: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(pixels, pixels), nn.Linear(pixels, pixels)
        self.second.weight = self.first.weight
        self.head = nn.Linear(pixels, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Compute logits, shape (N, num_classes)."""
        logits: Tensor = self.head(self.second(self.first(images.flatten(1)).relu()).relu())
        return logits


def tied(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a model in which a matrix trains, and is sent, once."""
    return Tied(prod(inputs.shape), num_classes)


def frozen(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a model of which only the head trains."""
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(prod(inputs.shape), 32), nn.ReLU())
    backbone.load_state_dict(pretrained(*WEIGHTS))
    return nn.Sequential(backbone.requires_grad_(False), nn.Linear(32, num_classes))


MODELS = [
    ModelEntry("normed", "LayerNorm, GELU", "ours", module=normed),
    ModelEntry("tied", "two layers, one matrix", "ours", module=tied),
    ModelEntry("frozen-backbone", "a linear head on given features", "ours", module=frozen),
]

"""A small transformer for tokens, and a perceptron of which clients train low-rank adapters (LoRA)."""

from math import prod

import torch
from torch import Tensor, nn

from fedgrid import Inputs, ModelEntry

WIDTH, RANK = 32, 4


class Transformer(nn.Module):
    """Embedding of tokens and places, one encoder layer, and a head on the mean."""

    def __init__(self, inputs: Inputs, num_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(inputs.vocabulary, WIDTH)
        self.padding = inputs.padding
        self.places = nn.Parameter(torch.randn(*inputs.shape, WIDTH) / 10)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits, shape (N, num_classes), of tokens, int64, shape (N, length)."""
        is_padding = None if self.padding is None else tokens == self.padding
        codes = self.layer(self.embedding(tokens) + self.places, src_key_padding_mask=is_padding)
        logits: Tensor = self.head(codes.mean(dim=1))
        return logits


class Lora(nn.Module):
    """A frozen linear layer plus a product B A of rank 4, of which B trains.

    A is frozen too: the mean of clients' B times one A is the mean of their products, which does not hold for
    the means of both (Sun et al., ICLR 2024). B starts at zero.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, RANK, bias=False).requires_grad_(False)
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, inputs: Tensor) -> Tensor:
        """Add the adapter's outputs to the layer's."""
        outputs: Tensor = self.layer(inputs) + self.down(inputs) @ self.up.T
        return outputs


def adapted(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a perceptron with an adapter; a real one would load its frozen layer with `pretrained`."""
    first = Lora(nn.Linear(prod(inputs.shape), 128))
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(128, num_classes))


MODELS = [
    ModelEntry("transformer", "one encoder layer", "ours", module=Transformer, takes=("tokens",)),
    ModelEntry("lora", "adapters of rank 4", "ours", module=adapted, takes=("pixels", "numbers")),
]

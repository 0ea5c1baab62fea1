"""Networks for numbers, series and tokens. Their first weights are PyTorch's own, drawn under the run's seed.

Shapes: N examples, C channels, L classes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from fedgrid.engine.federation.inputs import Inputs

WIDTH = 64
"""Of hidden layers."""
CODE = 8
"""Numbers that a token becomes."""


def linear(inputs: Inputs, num_classes: int) -> nn.Module:
    """Return multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(inputs.shape), num_classes))


def mlp(inputs: Inputs, num_classes: int) -> nn.Module:
    """Return a perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(prod(inputs.shape), WIDTH), nn.ReLU()),
        *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Linear(WIDTH, num_classes),
    )


def cnn_1d(inputs: Inputs, num_classes: int) -> nn.Module:
    """Return three convolutions of stride 2 over a series; a row of numbers is one of a single channel."""
    channels, length = inputs.shape if len(inputs.shape) == 2 else (1, *inputs.shape)
    # The layers have the same names either way, so that the head's entry has one.
    layers: list[nn.Module] = [nn.Identity() if len(inputs.shape) == 2 else nn.Unflatten(1, (1, length))]
    for before, kernel in ((channels, 5), (WIDTH // 2, 3), (WIDTH // 2, 3)):
        layers += [nn.Conv1d(before, WIDTH // 2, kernel, stride=2, padding=kernel // 2), nn.ReLU()]
        length = -(-length // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(WIDTH // 2 * length, num_classes))


class _Lstm(nn.Module):
    """Embedding, one LSTM layer, and a linear layer on its last output."""

    def __init__(self, vocabulary: int, num_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, CODE)
        self.lstm = nn.LSTM(CODE, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, shape (N, L), of tokens, int64, shape (N, length)."""
        outputs, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.head(outputs[:, -1])
        return logits


def lstm(inputs: Inputs, num_classes: int) -> nn.Module:
    """Return a small LSTM over tokens, such as characters."""
    return _Lstm(inputs.vocabulary, num_classes)

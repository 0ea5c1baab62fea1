"""Training by hand, with torch alone: what a plugin's rule must give."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedgrid.engine.federation.data.images import HeldImages
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_blank, write_vector

RATE = 0.1
WHOLE = {"local_epochs": 1, "batch_size": 1000, "learning_rate": RATE}
"""A batch is all images of a client: its order changes a sum's last bits only."""


def build_network(vector: np.ndarray) -> nn.Module:
    """Build a model of digits as a module."""
    module = build_blank("digitnet", image_inputs(1, 8, 8), 10).to_empty(device="cpu")
    write_vector(module, vector)
    return module


def read_tensors(held: HeldImages) -> tuple[Tensor, Tensor]:
    """Read a client's images, from 0 to 1, and their labels."""
    return torch.from_numpy(np.array(held.images)).float() / 255, torch.from_numpy(np.array(held.labels))


def descend(loss: Tensor, parameters: Sequence[nn.Parameter], rate: float = RATE) -> None:
    """Take one step of gradient descent with these parameters."""
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= rate * gradient

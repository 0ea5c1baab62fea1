"""A small federation that both sides solve: four clients of digits, three rounds, a model of two layers.

The engine's side is a run's configuration; the reference's side is the same data, batches and initial models
as plain tensors.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from fedgrid.engine.federation.clients.messages import ClientData, Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector, write_vector
from fedgrid.engine.federation.models.registry import MODELS, ModelEntry
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.runtime.configuration.complete import complete_config

WIDTH = 12
NUM_STARTS = 8
"""Number of independent initial models that a reference can take."""


class BodyAndHead(nn.Module):
    """A hidden layer, with BatchNorm if `norms`, and a linear head."""

    def __init__(self, num_inputs: int, num_classes: int, *, norms: bool) -> None:
        super().__init__()
        layers = [nn.Flatten(), nn.Linear(num_inputs, WIDTH), *([nn.BatchNorm1d(WIDTH)] if norms else [])]
        self.body = nn.Sequential(*layers, nn.Tanh())
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Compute the logits of images, shape (N, 1, 8, 8)."""
        logits: Tensor = self.head(self.body(images))
        return logits


@contextmanager
def register_small_model(*, norms: bool) -> Iterator[str]:
    """Register the model under a name of its own, in the block of a `with`."""

    def build(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
        return BodyAndHead(channels * height * width, num_classes, norms=norms)

    name = f"body-and-head{'-norms' if norms else ''}"
    MODELS[name] = ModelEntry(name, "a hidden layer and a head", "ours", build, head="head")
    try:
        yield name
    finally:
        del MODELS[name]


def build_config(algorithm: str, settings: Mapping[str, Any], model: str) -> RunConfig:
    """Build the run of an algorithm on the problem."""
    return complete_config(
        {
            "algorithm": {"name": algorithm, **settings},
            "clients": 4,
            "model": model,
            "weights": "images",
            # Clients of unequal size, two of them of one group.
            "split": {"kind": "nonoverlapping-imbalanced", "draws": 40, "server_images": 20},
            "training": {
                "rounds": 3,
                "local_epochs": 2,
                "batch_size": 8,
                "optimizer": "sgd",
                "learning_rate": 0.1,
            },
            "evaluation": {"probabilities": True},
        },
        Path(),
    )


@dataclass(frozen=True)
class ClientTensors:
    """The data of one client."""

    x: Tensor
    """Training inputs, float32, shape (N, 1, 8, 8)."""
    y: Tensor
    """Their classes, int64, shape (N,)."""
    test_x: Tensor
    """Test inputs, float32, shape (M, 1, 8, 8)."""
    pixels: Tensor
    """Training images as they are stored, uint8, shape (N, 1, 8, 8)."""

    @classmethod
    def from_data(cls, data: ClientData) -> "ClientTensors":
        """Convert the data that the engine deals to a client."""
        pixels, test = (torch.tensor(held.images) for held in (data.train, data.test))
        return cls(
            convert_to_inputs(pixels), torch.tensor(data.train.labels), convert_to_inputs(test), pixels
        )


class Problem:
    """The problem as a reference sees it.

    Args:
        config: the run.
        setup: the run's data, as dealt by the engine.
        settings: the method's settings, all of them.
    """

    def __init__(self, config: RunConfig, setup: Setup, settings: Mapping[str, Any]) -> None:
        training = config.training
        self._setup = setup
        self._batch_size = training.batch_size
        self.settings = MappingProxyType(dict(settings))
        self.rounds, self.epochs = training.rounds, training.local_epochs
        self.learning_rate = training.learning_rate
        self.clients = [ClientTensors.from_data(data) for data in setup.clients]
        self.num_clients = len(self.clients)
        self.weights = [float(len(client.y)) for client in self.clients]
        self.starts = [self._draw_start(number) for number in range(NUM_STARTS)]

    def build(self) -> nn.Module:
        """Build the model; its state is to be loaded."""
        return build_blank(self._setup.model, self._setup.inputs, self._setup.num_classes, self._setup.seed)

    def batches_per_epoch(self, client: int) -> int:
        """Count the batches of one epoch of a client."""
        return -(-len(self.clients[client].y) // self._batch_size)

    def batches(self, client: int, round_index: int) -> list[Tensor]:
        """List the batches of a client in a round, from 0: positions of its images, all epochs in order."""
        return self._draw_batches("batches", client, round_index, self.epochs)

    def adaptation_batches(self, client: int, round_index: int, steps: int) -> list[Tensor]:
        """List the batches on which a client adapts a model before the test after a round."""
        epochs = -(-steps // self.batches_per_epoch(client))
        return self._draw_batches("adaptation", client, round_index, epochs)[:steps]

    def _draw_batches(self, purpose: str, client: int, round_index: int, epochs: int) -> list[Tensor]:
        """Draw the engine's permutations of a client's images, and divide them."""
        rng = make_generator(self._setup.seed, purpose, client=client, round_index=round_index)
        size = len(self.clients[client].y)
        orders = [torch.from_numpy(rng.permutation(size)) for _ in range(epochs)]
        return [batch for order in orders for batch in torch.split(order, self._batch_size)]

    def _draw_start(self, number: int) -> dict[str, Tensor]:
        """Draw an initial model, as a state dict."""
        setup = self._setup
        module = self.build()
        write_vector(
            module, draw_initial_vector(setup.model, setup.inputs, setup.num_classes, setup.seed, number)
        )
        return {name: tensor.clone() for name, tensor in module.state_dict().items()}

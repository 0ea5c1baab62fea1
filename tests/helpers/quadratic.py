"""Local training on quadratics, through a rule's own hooks: what a client's loop does, without a network.

Client i minimises 1/2 (w - b_i)' A_i (w - b_i) by plain gradient descent.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedgrid.algorithms.updates.source import Layout

CURVATURES = [np.diag([1.0, 3.0]), np.diag([4.0, 0.5]), np.array([[2.0, 1.0], [1.0, 2.0]])]
TARGETS = [np.array([1.0, 0.0]), np.array([0.0, 2.0]), np.array([-1.0, 1.0])]
RATE, STEPS = 0.05, (3, 5, 2)
"""Three clients: their quadratics, one learning rate, and a number of local steps each."""


@dataclass
class QuadraticModel:
    """A `LocalModel` of W parameters in the layout's own order."""

    weights: torch.Tensor
    learning_rate: float
    payload: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    reference: None = None
    momentum: float = 0.0
    num_steps: int = 1
    num_epochs: int = 1
    epoch_index: int = 0

    def __post_init__(self):
        self.start = self.weights.clone()

    def tensor(self, vector):
        return torch.tensor(np.asarray(vector))

    def vector(self, tensor):
        return tensor.numpy().copy()


@dataclass
class QuadraticSource:
    """The updates and outputs of the clients that were trained, as `Updates` reads them."""

    replies: dict[int, dict[str, np.ndarray]]

    def fetch(self, clients, output="update"):
        return [self.replies[client][output] for client in clients]

    def cached(self, names, compute):
        return compute(list(names))


def build_quadratic_layout(size: int) -> Layout:
    return Layout(("weight",), ((size,),), size)


def train_quadratic(order, model, curvature, target, rate, steps, memory):
    """Train one client by the order's rule: (reply by output name, memory).

    Args:
        order: with the rule and its payload.
        model: vector to start from.
        curvature: matrix A of the client's quadratic.
        target: minimum b of the client's quadratic.
        rate: learning rate.
        steps: number of gradient steps.
        memory: what the client remembers.
    """
    local = QuadraticModel(torch.tensor(np.array(model)), rate, dict(order.payload), dict(memory))
    hooks = order.rule.start(local)
    matrix, centre = torch.tensor(curvature), torch.tensor(target)
    for _ in range(steps):
        gradient = matrix @ (local.weights - centre)
        hooks.correct(local.weights, gradient)
        local.weights -= rate * gradient
    finished = hooks.finish(local, steps)
    update = local.weights.numpy() - model
    return {"update": update, **finished.outputs}, dict(finished.memory)

"""Common steps of the references: plain SGD, means, losses and predictions of models, partitions.

A model is the flat vector of its parameters, so that the formulas of a method read as in its paper. A
problem has a module to build, initial models, clients with images, and each client's batches of a round.
Shapes: N clients, P parameters, K clusters or models.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Solution = tuple[list[dict[str, Tensor]], list[Tensor]]
"""The server's models as state dicts, and the class probabilities of every client's test images."""
Correction = Callable[[Tensor, Tensor], Tensor]
"""What a method makes of the gradient at a model: f(gradient, model)."""


def flatten_model(net: torch.nn.Module) -> Tensor:
    """Flatten the parameters of a module to one vector."""
    return parameters_to_vector(net.parameters()).detach()


def load_model(problem: Any, w: Tensor) -> Any:
    """Load a model into a new module."""
    net = problem.build()
    vector_to_parameters(w, net.parameters())
    return net


def read_start(problem: Any, number: int = 0) -> Tensor:
    """Read one of the problem's initial models; the first is the common start."""
    net = problem.build()
    net.load_state_dict(problem.starts[number])
    return flatten_model(net)


def convert_models(problem: Any, models: Iterable[Tensor]) -> list[dict[str, Tensor]]:
    """Convert models to state dicts."""
    return [dict(load_model(problem, w).state_dict()) for w in models]


def mark_layers(net: torch.nn.Module, layers: Iterable[torch.nn.Module]) -> Tensor:
    """Mark the parameters of some layers of a module: True there in a vector of all parameters."""
    marked = {id(tensor) for layer in layers for tensor in layer.parameters()}
    return torch.cat([torch.full((tensor.numel(),), id(tensor) in marked) for tensor in net.parameters()])


def differentiate_loss(loss: Tensor, net: torch.nn.Module) -> Tensor:
    """Compute the gradient of a loss by all parameters of a module."""
    return parameters_to_vector(torch.autograd.grad(loss, list(net.parameters())))


def compute_gradient(problem: Any, w: Tensor, i: int, batch: Tensor) -> Tensor:
    """Compute the gradient of f_i at w: of the mean cross-entropy of a batch of client i."""
    net, client = load_model(problem, w), problem.clients[i]
    return differentiate_loss(cross_entropy(net(client.x[batch]), client.y[batch]), net)


def pass_gradient(gradient: Tensor, w: Tensor) -> Tensor:
    """Leave a gradient at w as it is."""
    return gradient


def train_model(
    problem: Any, w: Tensor, i: int, batches: Sequence[Tensor], correct: Correction = pass_gradient
) -> Tensor:
    """Train a model on batches of client i: w <- w - rate * correct(gradient of f_i at w, w) on each."""
    for batch in batches:
        w = w - problem.learning_rate * correct(compute_gradient(problem, w, i, batch), w)
    return w


def train_clients(
    problem: Any, models: Sequence[Tensor], t: int, correct: Correction = pass_gradient
) -> list[Tensor]:
    """Train one model of every client on all of its batches of round t, as `train_model`."""
    return [train_model(problem, w, i, problem.batches(i, t), correct) for i, w in enumerate(models)]


def compute_losses(problem: Any, models: Iterable[Tensor], i: int) -> Tensor:
    """Compute the loss of each training image of client i under each model, shape (images, K)."""
    client = problem.clients[i]
    with torch.no_grad():
        outputs = [load_model(problem, w)(client.x) for w in models]
        return torch.stack([cross_entropy(each, client.y, reduction="none") for each in outputs], dim=1)


def average_models(models: Sequence[Tensor], weights: Sequence[float] | Tensor) -> Tensor:
    """Average models by weights of any sum."""
    weights_N = torch.as_tensor(weights, dtype=torch.float32)
    return weights_N @ torch.stack(list(models)) / weights_N.sum()


def predict_tests(problem: Any, models: Iterable[Tensor]) -> list[Tensor]:
    """Predict the class probabilities of every client's test images, by one model each."""
    with torch.no_grad():
        return [
            load_model(problem, w)(client.test_x).softmax(dim=1)
            for w, client in zip(models, problem.clients, strict=True)
        ]


def compute_scatter(points_NP: Tensor, weights_N: Tensor, labels_N: Tensor) -> float:
    """Compute the sum of weight * ||point - weighted mean of its cluster||^2."""
    scatter = 0.0
    for k in set(labels_N.tolist()):
        a_N = weights_N * (labels_N == k)
        centre_P = a_N @ points_NP / a_N.sum()
        scatter += float(a_N @ ((points_NP - centre_P) ** 2).sum(dim=1))
    return scatter


def find_partition(points_NP: Tensor, weights_N: Tensor, num_clusters: int) -> Tensor:
    """Find the clusters of points with least scatter, by trying all partitions into so many clusters."""
    labelings = product(range(num_clusters), repeat=len(points_NP))
    partitions = [torch.tensor(labels) for labels in labelings if len(set(labels)) == num_clusters]
    points_NP, weights_N = points_NP.double(), weights_N.double()
    return min(partitions, key=lambda labels_N: compute_scatter(points_NP, weights_N, labels_N))

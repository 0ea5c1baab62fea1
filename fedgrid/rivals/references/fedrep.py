"""FedRep, by hand: a client trains its own head with the body fixed, then the body with the head fixed.

In a round a client receives the body, keeps its own head (which starts at the common start), trains the
head for the first `head_epochs` epochs and the body for those that remain of the round. The server averages
the bodies. A client is tested with the body just averaged and its own head.

Source: Collins, Hassani, Mokhtari, Shakkottai, "Exploiting Shared Representations for Personalized
Federated Learning", ICML 2021, arXiv:2102.07078; facts: RIVALS B4. Phases and mean are from the authors'
code (lgcollins/FedRep), without its momentum and weight decay and without the head epochs before its last
test.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = (
    "the authors' code trains heads for at least 10 more epochs before its last test",
    "the authors' code weighs all clients alike on CIFAR, by number of images on FEMNIST",
    "in the authors' code a client that has never been sampled shares the live averaged head",
    "FL-bench freezes by zeroing gradients, so that momentum and decay still move the frozen part",
)
FROM_MEMORY = ""
SETTINGS = {"head_epochs": 1, "together": False}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def step_part(model: State, gradient: State, rate: float, part: str) -> State:
    """Return a model after a step of plain SGD on one part, "body" or "head"; the other stays."""
    return {
        name: tensor - rate * gradient[name] if name.startswith(f"{part}.") else tensor
        for name, tensor in model.items()
    }


def average_models(models: list[State], weights: list[float]) -> State:
    """Return the weighted mean of models."""
    shares = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    mean = {}
    for name in models[0]:
        stacked = torch.stack([model[name] for model in models])
        mean[name] = torch.tensordot(shares, stacked, dims=1)
    return mean


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return no models and the probabilities of the body with every client's head."""
    net = problem.build()
    start = problem.starts[0]
    body = {name: tensor for name, tensor in start.items() if name.startswith("body.")}
    heads = [{name: start[name] for name in start if name not in body}] * problem.num_clients
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            model = body | heads[i]
            head_batches = problem.settings["head_epochs"] * problem.batches_per_epoch(i)
            for number, batch in enumerate(problem.batches(i, round_index)):
                gradient = compute_gradient(net, model, client.x[batch], client.y[batch])
                part = "head" if number < head_batches else "body"
                model = step_part(model, gradient, problem.learning_rate, part)
            heads[i] = {name: model[name] for name in heads[i]}
            trained.append({name: model[name] for name in body})
        body = average_models(trained, problem.weights)
    served = [
        functional_call(net, body | head, client.test_x).softmax(dim=1)
        for head, client in zip(heads, problem.clients, strict=True)
    ]
    return [], served

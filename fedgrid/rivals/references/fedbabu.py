"""FedBABU, by hand: FedAvg of the body under a head fixed at its random start; fine-tuning before a test.

In a round a client trains the body alone by plain SGD, and the server averages the bodies. A client is
tested with a copy of the common model after `fine_tune` steps of SGD on body and head; the copy is then
dropped.

Source: Oh, Kim, Yun, "FedBABU: Towards Enhanced Representation for Federated Image Classification", ICLR
2022, arXiv:2106.06042; facts: RIVALS B6. Steps are from the authors' code (jhoon-oh/FedBABU). It takes the
plain mean of clients and fine-tunes by epochs (5); here the run's weights count, and fine-tuning is counted
in steps.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = ("PFLlib fine-tunes for 10 epochs and weighs by number of images",)
FROM_MEMORY = ""
SETTINGS = {"fine_tune": 3}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def step_body(model: State, gradient: State, rate: float) -> State:
    """Return a model after a step of plain SGD on its body."""
    return {
        name: tensor - rate * gradient[name] if name.startswith("body.") else tensor
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
    """Run all rounds; return [common model] and the probabilities of every client's fine-tuned copy."""
    rate, net = problem.learning_rate, problem.build()
    start = problem.starts[0]
    head = {name: tensor for name, tensor in start.items() if name.startswith("head.")}
    common = dict(start)
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            model = dict(common)
            for batch in problem.batches(i, round_index):
                gradient = compute_gradient(net, model, client.x[batch], client.y[batch])
                model = step_body(model, gradient, rate)
            trained.append(model)
        common = average_models(trained, problem.weights) | head
    served = []
    for i, client in enumerate(problem.clients):
        model = dict(common)
        for batch in problem.adaptation_batches(i, problem.rounds - 1, problem.settings["fine_tune"]):
            gradient = compute_gradient(net, model, client.x[batch], client.y[batch])
            model = {name: model[name] - rate * gradient[name] for name in model}
        served.append(functional_call(net, model, client.test_x).softmax(dim=1))
    return [common], served

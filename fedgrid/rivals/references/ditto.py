"""Ditto, by hand: FedAvg trains w; on each of its batches a personal model v_i first takes a step of its own.

That step is pulled to the w received: v <- v - rate (gradient of f_i at v + pull (v - w received)). The
global stream w never sees v. A client is tested with v_i, which starts at the common start and is never
averaged.

Source: Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021, arXiv:2012.04221; facts: RIVALS B1. Steps, their order (v before w on the same batch) and the model
served are from the authors' code (litian96/ditto). It takes the plain mean of clients; here the run's
weights count.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = (
    "the authors' code draws clients with probability proportional to their number of images",
    "PFLlib's shared flag `mu` defaults to 0: no pull",
)
FROM_MEMORY = ""
SETTINGS = {"pull": 0.5}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def step_personal(v: Tensor, gradient: Tensor, received: Tensor, rate: float, pull: float) -> Tensor:
    """Return v after a step on its own loss with the pull to the w received."""
    return v - rate * (gradient + pull * (v - received))


def average_models(models: list[State], weights: list[float]) -> State:
    """Return the weighted mean of models."""
    shares = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    mean = {}
    for name in models[0]:
        stacked = torch.stack([model[name] for model in models])
        mean[name] = torch.tensordot(shares, stacked, dims=1)
    return mean


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return [w] and the probabilities of every client's v."""
    rate, pull, net = problem.learning_rate, problem.settings["pull"], problem.build()
    w = dict(problem.starts[0])
    personal = [dict(w) for _ in range(problem.num_clients)]
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            v, local = personal[i], dict(w)
            for batch in problem.batches(i, round_index):
                x, y = client.x[batch], client.y[batch]
                gradient = compute_gradient(net, v, x, y)
                v = {name: step_personal(v[name], gradient[name], w[name], rate, pull) for name in v}
                gradient = compute_gradient(net, local, x, y)
                local = {name: local[name] - rate * gradient[name] for name in local}
            personal[i] = v
            trained.append(local)
        w = average_models(trained, problem.weights)
    served = [
        functional_call(net, v, client.test_x).softmax(dim=1)
        for v, client in zip(personal, problem.clients, strict=True)
    ]
    return [w], served

"""APFL, by hand: each batch trains the client's copy of w, then v_i inside a mixture of both.

A round starts from the w received. On each batch: w_i <- w_i - rate * gradient of f_i at w_i; at the
mixture m = alpha v + (1 - alpha) w_i with the new w_i: v <- v - rate * alpha * gradient of f_i at m; and,
where alpha is adaptive, alpha <- alpha - rate <v - w_i, gradient of f_i at m>, with the v and w_i that the
mixture was made of, cut to [0, 1]. The server averages the w_i. A client is tested with its mixture, w_i as
it was trained last.

Source: Deng, Kamani, Mahdavi, "Adaptive Personalized Federated Learning", 2020, arXiv:2003.13461; facts:
RIVALS B2. The cut to [0, 1], the step of alpha off by default and the model served are from the authors'
code (MLOPTPSU/FedTorch); the steps of w and v are from memory of the paper and from litian96/ditto
(`apfl.py`).
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = (
    "the authors' code mixes outputs, not weights",
    "the authors' code moves alpha once a round, at the first batch, along another gradient plus 0.02 alpha",
    "the authors' code skips batches of one image",
    "litian96/ditto serves the global w",
    "PFLlib trains v on its own loss, then overwrites it with the mixture",
)
FROM_MEMORY = "the step of alpha (that of v is in litian96/ditto too)"
SETTINGS = {"alpha": 0.3, "adaptive": True}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def mix(alpha: float, v: Tensor, w: Tensor) -> Tensor:
    """Return the mixture of personal and global weights."""
    return alpha * v + (1 - alpha) * w


def step_personal(v: Tensor, gradient: Tensor, rate: float, alpha: float) -> Tensor:
    """Return v after a step along the gradient at the mixture, which depends on v by the factor alpha."""
    return v - rate * alpha * gradient


def step_alpha(alpha: float, v: State, w: State, gradient: State, rate: float) -> float:
    """Return alpha after a step along its own gradient, cut to [0, 1]."""
    slope = sum(float(((v[name] - w[name]) * gradient[name]).sum()) for name in v)
    return min(max(alpha - rate * slope, 0.0), 1.0)


def average_models(models: list[State], weights: list[float]) -> State:
    """Return the weighted mean of models."""
    shares = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    mean = {}
    for name in models[0]:
        stacked = torch.stack([model[name] for model in models])
        mean[name] = torch.tensordot(shares, stacked, dims=1)
    return mean


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return [w] and the probabilities of every client's mixture."""
    rate, settings, net = problem.learning_rate, problem.settings, problem.build()
    w = dict(problem.starts[0])
    personal = [dict(w) for _ in range(problem.num_clients)]
    alphas = [settings["alpha"]] * problem.num_clients
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            v, alpha, local = personal[i], alphas[i], dict(w)
            for batch in problem.batches(i, round_index):
                x, y = client.x[batch], client.y[batch]
                gradient = compute_gradient(net, local, x, y)
                local = {name: local[name] - rate * gradient[name] for name in local}
                mixture = {name: mix(alpha, v[name], local[name]) for name in v}
                gradient = compute_gradient(net, mixture, x, y)
                new_v = {name: step_personal(v[name], gradient[name], rate, alpha) for name in v}
                if settings["adaptive"]:
                    alpha = step_alpha(alpha, v, local, gradient, rate)
                v = new_v
            personal[i], alphas[i] = v, alpha
            trained.append(local)
        w = average_models(trained, problem.weights)
    served = []
    for client, alpha, v, local in zip(problem.clients, alphas, personal, trained, strict=True):
        mixture = {name: mix(alpha, v[name], local[name]) for name in v}
        served.append(functional_call(net, mixture, client.test_x).softmax(dim=1))
    return [w], served

"""FedAMP, by hand: every client trains its own model, pulled to a mean that favours clients with like models.

From the second round on the server first gives client i its u_i = (1 - sum_j a_ij) w_i + sum_j a_ij w_j
over all j != i, with a_ij = alpha A'(||w_i - w_j||^2) and A(x) = 1 - exp(-x / sigma), so A'(x) = exp(-x /
sigma) / sigma; distances are over all parameters. The client goes on from its own w_i by plain SGD on
f_i(w) + pull / (2 alpha) ||w - u_i||^2. In the first round w_i = u_i = the common start. A client is tested
with its w_i. The weights of the run do not count.

Source: Huang, Chu, Zhou, Wang, Liu, Pei, Zhang, "Personalized Cross-Silo Federated Learning on Non-IID
Data", AAAI 2021, arXiv:2007.03797. Everything is from memory of the paper.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = ()
FROM_MEMORY = "all formulas: A, a_ij, u_i and the client's objective"
SETTINGS = {"alpha": 0.1, "pull": 0.1, "sigma": 1.0}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def compute_attention(square_distance: Tensor, alpha: float, sigma: float) -> Tensor:
    """Return a_ij of two clients from the squared distance of their models."""
    return alpha / sigma * torch.exp(-square_distance / sigma)


def mix_models(models: list[State], i: int, alpha: float, sigma: float) -> State:
    """Return u_i: the client's own model moved by a_ij towards every other client's."""
    own = models[i]
    mixture = dict(own)
    for j, other in enumerate(models):
        if j != i:
            square_distance = torch.stack([((own[name] - other[name]) ** 2).sum() for name in own]).sum()
            attention = compute_attention(square_distance, alpha, sigma)
            mixture = {name: mixture[name] + attention * (other[name] - own[name]) for name in own}
    return mixture


def step_personal(w: Tensor, gradient: Tensor, u: Tensor, rate: float, pull: float, alpha: float) -> Tensor:
    """Return w after a step on its own loss with the pull to u."""
    return w - rate * (gradient + pull / alpha * (w - u))


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return all w_i and their probabilities."""
    rate, net = problem.learning_rate, problem.build()
    alpha, pull, sigma = (problem.settings[name] for name in ("alpha", "pull", "sigma"))
    models = [dict(problem.starts[0]) for _ in range(problem.num_clients)]
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            # In the first round all models are equal, so that u_i is the common start.
            w, u = models[i], mix_models(models, i, alpha, sigma)
            for batch in problem.batches(i, round_index):
                gradient = compute_gradient(net, w, client.x[batch], client.y[batch])
                w = {name: step_personal(w[name], gradient[name], u[name], rate, pull, alpha) for name in w}
            trained.append(w)
        models = trained
    served = [
        functional_call(net, w, client.test_x).softmax(dim=1)
        for w, client in zip(models, problem.clients, strict=True)
    ]
    return models, served

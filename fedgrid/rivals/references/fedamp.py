"""FedAMP, by hand: every client trains its own model, pulled to a mean that favours clients with like models.

Each round the server first gives client i its u_i = (1 - sum_j a_ij) w_i + sum_j a_ij w_j over all j != i,
with a_ij = alpha A'(||w_i - w_j||^2) and A(x) = 1 - exp(-x / sigma), so A'(x) = exp(-x / sigma) / sigma;
in the first round all w_i are the common start, and u_i too. The client goes on from its own w_i by plain
SGD on f_i(w) + pull / (2 alpha) ||w - u_i||^2. A client is tested with its w_i. The weights of the run do
not count.

Source: Huang, Chu, Zhou, Wang, Liu, Pei, Zhang, "Personalized Cross-Silo Federated Learning on Non-IID
Data", AAAI 2021, arXiv:2007.03797. Everything is from memory of the paper.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = ()
FROM_MEMORY = "all formulas: A, a_ij, u_i and the client's objective"
SETTINGS = {"alpha": 0.1, "pull": 0.1, "sigma": 1.0}
NORMS = False


def mix_models(models: list[Tensor], i: int, alpha: float, sigma: float) -> Tensor:
    """Compute u_i: w_i moved by a_ij towards every w_j."""
    differences_NP = torch.stack(models) - models[i]
    a_N = alpha / sigma * torch.exp(-(differences_NP**2).sum(dim=1) / sigma)
    return models[i] + a_N @ differences_NP


def add_pull(gradient: Tensor, w: Tensor, u: Tensor, pull: float, alpha: float) -> Tensor:
    """Add the pull of w to u to a gradient at w."""
    return gradient + pull / alpha * (w - u)


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute all w_i, and their probabilities."""
    alpha, pull, sigma = (problem.settings[name] for name in ("alpha", "pull", "sigma"))
    w = [steps.read_start(problem)] * problem.num_clients
    for t in range(problem.rounds):
        u = [mix_models(w, i, alpha, sigma) for i in range(problem.num_clients)]
        for i in range(problem.num_clients):
            pull_to_u = partial(add_pull, u=u[i], pull=pull, alpha=alpha)
            w[i] = steps.train_model(problem, w[i], i, problem.batches(i, t), pull_to_u)
    return steps.convert_models(problem, w), steps.predict_tests(problem, w)

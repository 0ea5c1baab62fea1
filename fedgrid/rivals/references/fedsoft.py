"""FedSoft, by hand: each client's own model is pulled to all cluster models, by how many of its images each
of them fits best.

A round, for each client: n_is = number of its images with the least loss under cluster model c_s as
received; u_is = max(n_is / n_i, sigma), not normalised again; its own model w_i goes on from where it was
(the common start in round 1) by SGD on f_i(w) + (lambda / 2) sum over s of u_is ||w - c_s||^2. Server: c_s =
sum over i of v_is w_i with v_is = u_is n_i / sum over j of u_js n_j (the form without drawing clients per
cluster). A client is served w_i.

Source: Ruan and Joe-Wong, AAAI 2022, arXiv:2112.06053; facts: A3, from the authors' code (ycruan/FedSoft).
n_i of v_is is here the run's weight of the client. SGD without momentum instead of Adam; u is counted in
every round (the authors' tau = 1).
"""

from typing import Any

import torch
from torch.nn.functional import cross_entropy

QUIRKS = (
    "the authors' code replaces only shares of exactly zero by sigma",
    "the authors' servers.py passes an argument that its estimator refuses: fails as released",
    "the authors' code trains without shuffling, by Adam whose moments persist between rounds",
    "LINs-lab/FedRC counts the images with the largest loss",
    "harshv834/sr-fca uses the indices of the best model as counts",
)
FROM_MEMORY = ""
SETTINGS = {"num_clusters": 3, "pull": 0.5, "least": 0.2, "drawn": None}
NORMS = False

State = dict[str, torch.Tensor]


def compute_importance(losses_NK: torch.Tensor, least: float) -> torch.Tensor:
    """Returns u[s] = max(share of images with the least loss under s, sigma); ties go to the first s."""
    counts_K = torch.bincount(losses_NK.argmin(dim=1), minlength=losses_NK.shape[1])
    return (counts_K / len(losses_NK)).clamp(min=least)


def step_personal(
    weight: torch.Tensor,
    gradient: torch.Tensor,
    centres: list[torch.Tensor],
    u_K: Any,
    pull: float,
    rate: float,
) -> torch.Tensor:
    """Returns w - rate (gradient + lambda sum over s of u_s (w - c_s))."""
    for u, centre in zip(u_K, centres, strict=True):
        gradient = gradient + pull * u * (weight - centre)
    return weight - rate * gradient


def compute_losses(problem: Any, state: State, client: Any) -> torch.Tensor:
    """Returns the loss of each training image of a client under a model, shape (images,)."""
    module = problem.build()
    module.load_state_dict(state)
    with torch.no_grad():
        return cross_entropy(module.eval()(client.x), client.y, reduction="none")


def train_model(
    problem: Any, state: State, i: int, round_index: int, centres: list[State], u_K: torch.Tensor
) -> State:
    """Returns client i's own model after its batches of a round."""
    module, client = problem.build(), problem.clients[i]
    module.load_state_dict(state)
    for batch in problem.batches(i, round_index):
        loss = cross_entropy(module(client.x[batch]), client.y[batch])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        for (name, weight), gradient in zip(module.named_parameters(), gradients, strict=True):
            weight.data = step_personal(
                weight.data,
                gradient,
                [centre[name] for centre in centres],
                u_K,
                problem.settings["pull"],
                problem.learning_rate,
            )
    return dict(module.state_dict())


def average(states: list[State], weights: Any) -> State:
    """Returns the weighted mean of models."""
    pairs = list(zip(states, weights, strict=True))
    return {name: sum(state[name] * weight for state, weight in pairs) / sum(weights) for name in states[0]}


def run(problem: Any) -> tuple[list[State], list[torch.Tensor]]:
    """Runs all rounds; returns the cluster models and the clients' probabilities on their test images."""
    num_clusters, clients = problem.settings["num_clusters"], range(problem.num_clients)
    centres = [problem.starts[s] for s in range(num_clusters)]
    own = [problem.starts[0] for _ in clients]
    for round_index in range(problem.rounds):
        importances = []
        for client in problem.clients:
            losses_NK = torch.stack([compute_losses(problem, centre, client) for centre in centres], dim=1)
            importances.append(compute_importance(losses_NK, problem.settings["least"]))
        own = [train_model(problem, own[i], i, round_index, centres, importances[i]) for i in clients]
        centres = [
            average(own, [float(importances[i][s]) * float(problem.weights[i]) for i in clients])
            for s in range(num_clusters)
        ]
    served = []
    for client, state in zip(problem.clients, own, strict=True):
        module = problem.build()
        module.load_state_dict(state)
        served.append(torch.softmax(module.eval()(client.test_x), dim=1).detach())
    return centres, served

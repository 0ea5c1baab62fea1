"""FedEM, by hand: every client weighs its images by model (E step), then trains every model on all of its
images with these weights (M step).

A round, for each client: q[s, k], proportional to pi[k] exp(-loss of image s under model k); pi = mean of q
over the images; each model alone goes through the client's batches on the mean over the batch of q[s, k]
loss(s), with q frozen. Server: each model is the mean of the clients' versions by number of images, without
pi. A client is served the sum over the newest models of its last pi[k] softmax_k.

Source: Marfoq, Neglia, Bellet, Kameni and Vidal, NeurIPS 2021, arXiv:2108.10252; facts: A1, from the
authors' code (omarfoq/FedEM). Here all models of a client go through the same batches, by SGD without
momentum.
"""

from typing import Any

import torch
from torch.nn.functional import cross_entropy

QUIRKS = (
    "the authors' code averages absent clients in with the old global model, so the server's step shrinks",
    "the authors' code keeps momentum and learning-rate schedule of every client between rounds",
    "FL-bench mixes logits instead of probabilities and never stores pi",
    "FederatedScope computes q per batch and multiplies the loss by pi",
)
FROM_MEMORY = ""
SETTINGS = {"num_models": 3}
NORMS = False

State = dict[str, torch.Tensor]


def compute_responsibilities(losses_NK: torch.Tensor, pi_K: torch.Tensor) -> torch.Tensor:
    """Returns q[s, k], proportional to pi[k] exp(-loss of image s under model k)."""
    return torch.softmax(torch.log(pi_K) - losses_NK, dim=1)


def load_model(problem: Any, state: State) -> Any:
    """Returns a module with these weights."""
    module = problem.build()
    module.load_state_dict(state)
    return module


def compute_losses(problem: Any, state: State, client: Any) -> torch.Tensor:
    """Returns the loss of each training image of a client under a model, shape (images,)."""
    with torch.no_grad():
        return cross_entropy(load_model(problem, state).eval()(client.x), client.y, reduction="none")


def train_model(problem: Any, state: State, i: int, round_index: int, q_N: torch.Tensor) -> State:
    """Returns one model after client i's batches of a round on (1/b) sum of q[s] loss(s)."""
    module, client = load_model(problem, state), problem.clients[i]
    for batch in problem.batches(i, round_index):
        losses = cross_entropy(module(client.x[batch]), client.y[batch], reduction="none")
        gradients = torch.autograd.grad((q_N[batch] * losses).mean(), list(module.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(module.parameters(), gradients, strict=True):
                weight -= problem.learning_rate * gradient
    return dict(module.state_dict())


def average(states: list[State], weights: Any) -> State:
    """Returns the weighted mean of models."""
    pairs = list(zip(states, weights, strict=True))
    return {name: sum(state[name] * weight for state, weight in pairs) / sum(weights) for name in states[0]}


def run(problem: Any) -> tuple[list[State], list[torch.Tensor]]:
    """Runs all rounds; returns the server's models and the clients' probabilities on their test images."""
    num_models = problem.settings["num_models"]
    models = [problem.starts[k] for k in range(num_models)]
    pis = [torch.full((num_models,), 1 / num_models) for _ in problem.clients]
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            losses_NK = torch.stack([compute_losses(problem, model, client) for model in models], dim=1)
            q_NK = compute_responsibilities(losses_NK, pis[i])
            pis[i] = q_NK.mean(dim=0)
            trained.append(
                [train_model(problem, models[k], i, round_index, q_NK[:, k]) for k in range(num_models)]
            )
        models = [average([own[k] for own in trained], problem.weights) for k in range(num_models)]
    served = []
    for client, pi in zip(problem.clients, pis, strict=True):
        with torch.no_grad():
            outputs = [torch.softmax(load_model(problem, m).eval()(client.test_x), dim=1) for m in models]
        served.append(sum(share * output for share, output in zip(pi, outputs, strict=True)))
    return models, served

"""FedEM, by hand: every client weighs its images by model (E step), then trains every model on all of its
images with these weights (M step).

A round, for each client: q[s, k], proportional to pi[k] exp(-loss of image s under model k); pi = mean of q
over the images; each model alone goes through the client's batches on the mean over the batch of q[s, k]
loss(s), with q frozen. Server: each model is the mean of the clients' versions by number of images, without
pi. A client is served the sum over the newest models of its last pi[k] softmax_k.

Source: Marfoq, Neglia, Bellet, Kameni and Vidal, NeurIPS 2021, arXiv:2108.10252; facts: RIVALS A1, from the
authors' code (omarfoq/FedEM). Here all models of a client go through the same batches, by SGD without
momentum.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code averages absent clients in with the old global model, so the server's step shrinks",
    "the authors' code keeps momentum and learning-rate schedule of every client between rounds",
    "FL-bench mixes logits instead of probabilities and never stores pi",
    "FederatedScope computes q per batch and multiplies the loss by pi",
)
FROM_MEMORY = ""
SETTINGS = {"num_models": 3}
NORMS = False


def compute_responsibilities(losses_NK: Tensor, pi_K: Tensor) -> Tensor:
    """Compute q[s, k], proportional to pi[k] exp(-loss of image s under model k)."""
    return torch.softmax(torch.log(pi_K) - losses_NK, dim=1)


def train_weighted(problem: Any, w: Tensor, i: int, t: int, q_N: Tensor) -> Tensor:
    """Train one model on client i's batches of a round, on the mean of q[s] loss(s)."""
    client = problem.clients[i]
    for batch in problem.batches(i, t):
        net = steps.load_model(problem, w)
        losses = cross_entropy(net(client.x[batch]), client.y[batch], reduction="none")
        w = w - problem.learning_rate * steps.differentiate_loss((q_N[batch] * losses).mean(), net)
    return w


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute the server's models, and every client's mixture of their probabilities."""
    clients, ks = range(problem.num_clients), range(problem.settings["num_models"])
    w = [steps.read_start(problem, k) for k in ks]
    pi = [torch.full((len(ks),), 1 / len(ks)) for _ in clients]
    for t in range(problem.rounds):
        trained = []
        for i in clients:
            q_NK = compute_responsibilities(steps.compute_losses(problem, w, i), pi[i])
            pi[i] = q_NK.mean(dim=0)
            trained.append([train_weighted(problem, w[k], i, t, q_NK[:, k]) for k in ks])
        w = [steps.average_models([own[k] for own in trained], problem.weights) for k in ks]
    outputs = [steps.predict_tests(problem, [w[k] for _ in clients]) for k in ks]
    served = [torch.stack([pi[i][k] * outputs[k][i] for k in ks]).sum(dim=0) for i in clients]
    return steps.convert_models(problem, w), served

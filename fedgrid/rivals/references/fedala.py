"""FedALA, by hand: each client learns, weight by weight, how much of the server's model to take over its own
before it trains.

A round, for each client: with w from the server and its own w_i of its last training, the lower layers are
w's, the last p tensors are w_i + (w - w_i) A, element by element. A starts at 1 and is kept. Per slice of
`batch` images, in order: A <- A - eta_A gradient (w - w_i), clipped to [0, 1], the gradient of the slice's
mean loss with respect to the mixed tensors; then mixed again. The first time, passes over the images until
the population standard deviation of the last 10 losses is below 0.1, with more than 10 recorded, the loss of
a pass being that of its last slice before its step, and at most `most_passes` passes; later one pass. Then
the local epochs from the mixture, giving w_i. The first round has no w_i and no mixing. Server: mean by
number of images. A client is served the mixture that it would start its next round from.

Source: Zhang, Hua, Wang, Song, Xue, Ma and Guan, AAAI 2023, arXiv:2212.01197; facts: RIVALS B9, from the
authors' code (TsingZ0/FedALA). The limit `most_passes` and the short last slice are this project's choice;
for `share` 1 only (the authors take a random 80 %).
"""

from typing import Any

import torch
from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' training loader drops a short last batch: a client with less than one batch never trains",
    "the authors' code fails for a client with one image: 80 % of 1 is 0 images",
    "the authors' stop rule takes each pass's last batch loss, and may never stop",
    "FL-bench shares one worker's A among clients and does not skip round 1",
    "fluke records the loss of every batch and stops at 0.001",
)
FROM_MEMORY = ""
SETTINGS = {"tensors": 2, "rate": 1.0, "share": 1.0, "batch": 5, "most_passes": 20}
NORMS = False


def mix_models(own: Tensor, w: Tensor, a: Tensor) -> Tensor:
    """Mix the last weights, as many as A has: w_i + (w - w_i) A; those before are the server's."""
    lower = len(w) - len(a)
    return torch.cat([w[:lower], own[lower:] + (w - own)[lower:] * a])


def step_mixing(a: Tensor, gradient: Tensor, own: Tensor, w: Tensor, rate: float) -> Tensor:
    """Step A along its gradient: A - eta_A gradient (w - w_i), clipped to [0, 1]."""
    lower = len(w) - len(a)
    return (a - rate * (gradient * (w - own))[lower:]).clamp(0, 1)


def has_small_spread(losses: list[float]) -> bool:
    """Check whether more than 10 losses are recorded and the last 10 deviate by less than 0.1."""
    return len(losses) > 10 and float(torch.tensor(losses[-10:]).std(correction=0)) < 0.1


def learn_mixing(problem: Any, i: int, own: Tensor, w: Tensor, a: Tensor, most_passes: int) -> Tensor:
    """Learn client i's A in at most so many passes over its images."""
    losses: list[float] = []
    while len(losses) < most_passes and not has_small_spread(losses):
        for batch in torch.split(torch.arange(len(problem.clients[i].y)), problem.settings["batch"]):
            mixed = mix_models(own, w, a)
            gradient = steps.compute_gradient(problem, mixed, i, batch)
            a = step_mixing(a, gradient, own, w, problem.settings["rate"])
        losses.append(float(steps.compute_losses(problem, [mixed], i)[batch].mean()))
    return a


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute w, and the probabilities of every client's next mixture."""
    settings, clients = problem.settings, range(problem.num_clients)
    upper = list(problem.build().parameters())[-settings["tensors"] :]
    a = [torch.ones(sum(tensor.numel() for tensor in upper)) for _ in clients]
    w = steps.read_start(problem)
    mixed = [w for _ in clients]
    for t in range(problem.rounds):
        own = steps.train_clients(problem, mixed, t)
        w = steps.average_models(own, problem.weights)
        most_passes = settings["most_passes"] if t == 0 else 1
        a = [learn_mixing(problem, i, own[i], w, a[i], most_passes) for i in clients]
        mixed = [mix_models(own[i], w, a[i]) for i in clients]
    return steps.convert_models(problem, [w]), steps.predict_tests(problem, mixed)

"""FedALA, by hand: each client learns, weight by weight, how much of the server's model to take over its own
before it trains.

A round, for each client: with w from the server and its own w_i of its last training, the lower layers are
w's, the last p tensors are w_i + (w - w_i) A, element by element. A starts at 1 and is kept. Per slice of
`batch` images, in order: A <- A - eta_A gradient (w - w_i), clipped to [0, 1], the gradient of the slice's
mean loss with respect to the mixed tensors; then mixed again. The first time, passes over the images until
the population standard deviation of the last 10 losses is below 0.1, with more than 10 recorded, the loss of
a pass being that of its last slice before its step, and at most `most_passes` passes; later one pass. Then
the local epochs from the mixture, giving w_i. The first round has no w_i and no mixing. Server: mean by
number of images. A client is served the mixture that it would start its next round from; this leaves its A
as it was.

Source: Zhang, Hua, Wang, Song, Xue, Ma and Guan, AAAI 2023, arXiv:2212.01197; facts: B9, from the authors'
code (TsingZ0/FedALA). The limit `most_passes` and the short last slice are this project's choice; for
`share` 1 only (the authors take a random 80 %).
"""

from typing import Any

import torch
from torch.nn.functional import cross_entropy

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

State = dict[str, torch.Tensor]


def mix_tensors(own: torch.Tensor, received: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Returns w_i + (w - w_i) A."""
    return own + (received - own) * a


def step_mixing(
    a: torch.Tensor, gradient: torch.Tensor, own: torch.Tensor, received: torch.Tensor, rate: float
) -> torch.Tensor:
    """Returns A - eta_A gradient (w - w_i), clipped to [0, 1]."""
    return (a - rate * gradient * (received - own)).clamp(0, 1)


def is_settled(losses: list[float]) -> bool:
    """Returns whether more than 10 losses are recorded and the last 10 deviate by less than 0.1."""
    return len(losses) > 10 and float(torch.tensor(losses[-10:]).std(correction=0)) < 0.1


def learn_mixture(
    problem: Any, client: Any, own: State, received: State, stored: dict[str, torch.Tensor] | None
) -> tuple[State, dict[str, torch.Tensor]]:
    """Returns the mixed model and the client's new A; `stored` is its A, None the first time."""
    settings = problem.settings
    names = list(received)[-settings["tensors"] :]
    a = stored or {name: torch.ones_like(received[name]) for name in names}
    mixed = received | {name: mix_tensors(own[name], received[name], a[name]) for name in names}
    module, losses = problem.build(), []
    for _ in range(settings["most_passes"] if stored is None else 1):
        for first in range(0, len(client.x), settings["batch"]):
            batch = slice(first, first + settings["batch"])
            module.load_state_dict(mixed)
            loss = cross_entropy(module(client.x[batch]), client.y[batch])
            upper = [dict(module.named_parameters())[name] for name in names]
            for name, gradient in zip(names, torch.autograd.grad(loss, upper), strict=True):
                a = a | {name: step_mixing(a[name], gradient, own[name], received[name], settings["rate"])}
            mixed = received | {name: mix_tensors(own[name], received[name], a[name]) for name in names}
        losses.append(float(loss.detach()))
        if is_settled(losses):
            break
    return mixed, a


def train_model(problem: Any, state: State, i: int, round_index: int) -> State:
    """Returns a model after client i's batches of a round."""
    module, client = problem.build(), problem.clients[i]
    module.load_state_dict(state)
    for batch in problem.batches(i, round_index):
        loss = cross_entropy(module(client.x[batch]), client.y[batch])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(module.parameters(), gradients, strict=True):
                weight -= problem.learning_rate * gradient
    return dict(module.state_dict())


def average(states: list[State], weights: Any) -> State:
    """Returns the weighted mean of models."""
    pairs = list(zip(states, weights, strict=True))
    return {name: sum(state[name] * weight for state, weight in pairs) / sum(weights) for name in states[0]}


def run(problem: Any) -> tuple[list[State], list[torch.Tensor]]:
    """Runs all rounds; returns the server's model and the clients' probabilities on their test images."""
    clients, w = range(problem.num_clients), problem.starts[0]
    mixtures: list[dict[str, torch.Tensor] | None] = [None for _ in clients]
    own = [w for _ in clients]
    for round_index in range(problem.rounds):
        for i in clients:
            start = w
            if round_index > 0:
                start, mixtures[i] = learn_mixture(problem, problem.clients[i], own[i], w, mixtures[i])
            own[i] = train_model(problem, start, i, round_index)
        w = average(own, problem.weights)
    served = []
    for i, client in enumerate(problem.clients):
        mixed, _ = learn_mixture(problem, client, own[i], w, mixtures[i])
        module = problem.build()
        module.load_state_dict(mixed)
        served.append(torch.softmax(module.eval()(client.test_x), dim=1).detach())
    return [w], served

"""pFedMe, by hand: theta solves a problem pulled to the client's w_i on each batch, then w_i follows theta.

A round starts with w_i = theta = the w received. On each batch, one local round: `inner_steps` times theta
<- theta - inner_rate (gradient of f_i at theta + pull (theta - w_i)), then w_i <- w_i - rate * pull (w_i -
theta), with the run's learning rate; theta goes on from where it stands. The server averages the w_i (beta
= 1). A client is tested with theta_i after its last batch.

Source: T. Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020,
arXiv:2006.08848; facts: RIVALS B3. Steps and the mean by number of images are from the authors' code
(CharlieDinh/pFedMe), without its mu; theta as the model served is the paper's.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = (
    "the authors' code tests w_i, not theta_i, which its buffer for theta has become by then",
    "the authors' code adds mu * theta to the inner gradient, mu = 0.001, which the paper does not have",
    "the authors' code does not shuffle batches, and goes on with them across rounds",
    "the authors' code trains all clients and averages only the sampled ones",
)
FROM_MEMORY = ""
SETTINGS = {"pull": 5.0, "inner_steps": 3, "inner_rate": 0.05}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def step_personal(theta: Tensor, gradient: Tensor, w: Tensor, inner_rate: float, pull: float) -> Tensor:
    """Return theta after a step on its own loss with the pull to w."""
    return theta - inner_rate * (gradient + pull * (theta - w))


def step_local(w: Tensor, theta: Tensor, rate: float, pull: float) -> Tensor:
    """Return w after a step towards theta: plain SGD on the Moreau envelope."""
    return w - rate * pull * (w - theta)


def average_models(models: list[State], weights: list[float]) -> State:
    """Return the weighted mean of models."""
    shares = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    mean = {}
    for name in models[0]:
        stacked = torch.stack([model[name] for model in models])
        mean[name] = torch.tensordot(shares, stacked, dims=1)
    return mean


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return [w] and the probabilities of every client's theta."""
    rate, settings, net = problem.learning_rate, problem.settings, problem.build()
    pull, inner_rate = settings["pull"], settings["inner_rate"]
    w = dict(problem.starts[0])
    for round_index in range(problem.rounds):
        trained, personal = [], []
        for i, client in enumerate(problem.clients):
            local, theta = dict(w), dict(w)
            for batch in problem.batches(i, round_index):
                x, y = client.x[batch], client.y[batch]
                for _ in range(settings["inner_steps"]):
                    gradient = compute_gradient(net, theta, x, y)
                    theta = {
                        name: step_personal(theta[name], gradient[name], local[name], inner_rate, pull)
                        for name in theta
                    }
                local = {name: step_local(local[name], theta[name], rate, pull) for name in local}
            trained.append(local)
            personal.append(theta)
        w = average_models(trained, problem.weights)
    served = [
        functional_call(net, theta, client.test_x).softmax(dim=1)
        for theta, client in zip(personal, problem.clients, strict=True)
    ]
    return [w], served

"""FedPer, by hand: a client trains body and head together, and only the body is averaged.

In a round a client receives the body, keeps its own head (which starts at the common start) and trains both
by plain SGD for all epochs. The server averages the bodies. A client is tested with the body just averaged
and its own head.

Source: Arivazhagan, Aggarwal, Singh, Choudhary, "Federated Learning with Personalization Layers", 2019,
arXiv:1912.00818; facts: RIVALS B5. There is no code by the authors; PFLlib, fluke, FL-bench and FedRep's
repository agree on these steps. That all heads start alike is PFLlib's choice.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

State = dict[str, Tensor]

QUIRKS = ()
FROM_MEMORY = ""
SETTINGS = {"together": True}
NORMS = False


def compute_gradient(net: torch.nn.Module, model: State, x: Tensor, y: Tensor) -> State:
    """Return the gradient of the mean cross-entropy of a batch at `model`."""
    model = {name: tensor.detach().requires_grad_() for name, tensor in model.items()}
    loss = cross_entropy(functional_call(net, model, x), y)
    return dict(zip(model, torch.autograd.grad(loss, list(model.values())), strict=True))


def average_models(models: list[State], weights: list[float]) -> State:
    """Return the weighted mean of models."""
    shares = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    mean = {}
    for name in models[0]:
        stacked = torch.stack([model[name] for model in models])
        mean[name] = torch.tensordot(shares, stacked, dims=1)
    return mean


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return no models and the probabilities of the body with every client's head."""
    rate, net = problem.learning_rate, problem.build()
    start = problem.starts[0]
    body = {name: tensor for name, tensor in start.items() if name.startswith("body.")}
    heads = [{name: start[name] for name in start if name not in body}] * problem.num_clients
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            model = body | heads[i]
            for batch in problem.batches(i, round_index):
                gradient = compute_gradient(net, model, client.x[batch], client.y[batch])
                model = {name: model[name] - rate * gradient[name] for name in model}
            heads[i] = {name: model[name] for name in heads[i]}
            trained.append({name: model[name] for name in body})
        body = average_models(trained, problem.weights)
    served = [
        functional_call(net, body | head, client.test_x).softmax(dim=1)
        for head, client in zip(heads, problem.clients, strict=True)
    ]
    return [], served

"""FedBN, by hand: FedAvg in which everything of a BatchNorm layer stays with its client.

Weight, bias, running mean and variance of BatchNorm layers (and their count of batches) are neither sent
nor averaged; they start at the common start. A client trains the shared part received with its own
BatchNorm by plain SGD, batches normalised by their own statistics. A client is tested with the shared part
just averaged and its own BatchNorm, in evaluation mode (running statistics).

Source: Li, Jiang, Zhang, Kamp, Dou, "FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization", ICLR 2021, arXiv:2102.07623; facts: RIVALS B7. Steps are from the authors' code
(med-air/FedBN), which weighs all clients alike; here the run's weights count.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

State = dict[str, Tensor]

QUIRKS = ("the authors' code finds BatchNorm by the name \"bn\": it misses that of ResNet's shortcuts",)
FROM_MEMORY = ""
SETTINGS: dict[str, Any] = {}
NORMS = True


def find_norm_tensors(net: torch.nn.Module) -> set[str]:
    """Return the names of all parameters and buffers of BatchNorm layers."""
    return {
        f"{layer}.{name}"
        for layer, module in net.named_modules()
        if isinstance(module, _BatchNorm)
        for name in module.state_dict()
    }


def train_in_place(net: torch.nn.Module, x: Tensor, y: Tensor, rate: float) -> None:
    """Take a step of plain SGD on a batch, which moves the running statistics too."""
    parameters = list(net.parameters())
    gradients = torch.autograd.grad(cross_entropy(net(x), y), parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(rate * gradient)


def average_models(models: list[State], weights: list[float]) -> State:
    """Return the weighted mean of models."""
    shares = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    mean = {}
    for name in models[0]:
        stacked = torch.stack([model[name] for model in models])
        mean[name] = torch.tensordot(shares, stacked, dims=1)
    return mean


def run(problem: Any) -> tuple[list[State], list[Tensor]]:
    """Run all rounds; return no models and the probabilities of the shared part with every client's norms."""
    net = problem.build()
    start, norm_tensors = problem.starts[0], find_norm_tensors(net)
    shared = {name: start[name] for name in start if name not in norm_tensors}
    norms = [{name: start[name] for name in norm_tensors}] * problem.num_clients
    for round_index in range(problem.rounds):
        trained = []
        for i, client in enumerate(problem.clients):
            net.load_state_dict(shared | norms[i])
            net.train()
            for batch in problem.batches(i, round_index):
                train_in_place(net, client.x[batch], client.y[batch], problem.learning_rate)
            model = {name: tensor.clone() for name, tensor in net.state_dict().items()}
            norms[i] = {name: model[name] for name in norm_tensors}
            trained.append({name: model[name] for name in shared})
        shared = average_models(trained, problem.weights)
    net.eval()
    served = []
    for own, client in zip(norms, problem.clients, strict=True):
        net.load_state_dict(shared | own)
        served.append(net(client.test_x).softmax(dim=1).detach())
    return [], served

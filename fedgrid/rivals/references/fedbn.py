"""FedBN, by hand: FedAvg in which everything of a BatchNorm layer stays with its client.

Weight, bias, running mean and variance of BatchNorm layers are neither sent nor averaged; they start at the
common start. A client trains the shared part received with its own BatchNorm by plain SGD, batches
normalised by their own statistics. A client is tested with the shared part just averaged and its own
BatchNorm, in evaluation mode (running statistics).

Source: Li, Jiang, Zhang, Kamp, Dou, "FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization", ICLR 2021, arXiv:2102.07623; facts: RIVALS B7. Steps are from the authors' code
(med-air/FedBN), which weighs all clients alike; here the run's weights count.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import vector_to_parameters

from fedgrid.rivals.references import steps

QUIRKS = ("the authors' code finds BatchNorm by the name \"bn\": it misses that of ResNet's shortcuts",)
FROM_MEMORY = ""
SETTINGS: dict[str, Any] = {}
NORMS = True


def mark_norms(net: torch.nn.Module) -> Tensor:
    """Mark the parameters of BatchNorm layers, which are found by their type."""
    return steps.mark_layers(net, [layer for layer in net.modules() if isinstance(layer, _BatchNorm)])


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute no models, and the probabilities of the shared part with every client's norms.

    Every client has a module of its own, in which its running statistics stay.
    """
    nets = [problem.build() for _ in problem.clients]
    for net in nets:
        net.load_state_dict(problem.starts[0])
    norms = mark_norms(problem.build())
    for t in range(problem.rounds):
        for i, (net, client) in enumerate(zip(nets, problem.clients, strict=True)):
            for batch in problem.batches(i, t):
                loss = cross_entropy(net.train()(client.x[batch]), client.y[batch])
                step = problem.learning_rate * steps.differentiate_loss(loss, net)
                vector_to_parameters(steps.flatten_model(net) - step, net.parameters())
        w = steps.average_models([steps.flatten_model(net) for net in nets], problem.weights)
        for net in nets:
            vector_to_parameters(torch.where(norms, steps.flatten_model(net), w), net.parameters())
    with torch.no_grad():
        tests = zip(nets, problem.clients, strict=True)
        return [], [net.eval()(client.test_x).softmax(dim=1) for net, client in tests]

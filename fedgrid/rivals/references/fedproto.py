"""FedProto, by hand: clients share the mean features of their classes (prototypes) instead of models.

A round, for each client: its own model w_i goes on from where it was (the common start in round 1) by SGD on
cross-entropy + lambda times the mean over batch and dimensions of (z - P_y)^2, z the features and P_y the
server's prototype of the image's class; images of a class without one add 0, so round 1 has no such term.
Its prototype of class c = mean of z over its images of c, from the forward passes of the last epoch, while
the weights move. Server: P_c = mean over the clients that have c, by the run's weights. A client is served
the softmax of minus the squared distances of z to the newest P_c, among the classes of its own training
labels.

Source: Tan, Long, Liu, Zhou, Lu, Jiang and Zhang, AAAI 2022, arXiv:2105.00243; facts: RIVALS B8, from the
authors' code (yuetan031/FedProto), which takes plain means. The paper weighs by class counts (memory,
unverified). The authors serve the nearest prototype; the softmax gives it the largest probability.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code takes a plain mean of prototypes where the paper weighs by class counts (from memory)",
    "the authors' test counters run on across users and both heads: their accuracies are running means",
    "PFLlib gathers prototypes over all epochs and tests against all classes",
    "fluke takes zeros for a missing prototype and tests with a client's own prototypes",
)
FROM_MEMORY = ""
SETTINGS = {"pull": 1.0}
NORMS = False


def compute_pull(z_BD: Tensor, y_B: Tensor, prototypes: dict[int, Tensor]) -> Tensor:
    """Compute the mean over batch and dimensions of (z - P_y)^2; an image without P_y adds 0."""
    targets = [prototypes.get(int(y), z.detach()) for y, z in zip(y_B, z_BD, strict=True)]
    return ((z_BD - torch.stack(targets)) ** 2).mean()


def average_by_class(z_ND: Tensor, y_N: Tensor) -> dict[int, Tensor]:
    """Compute the mean features of each class that has images."""
    return {c: z_ND[y_N == c].mean(dim=0) for c in set(y_N.tolist())}


def average_prototypes(sent: list[dict[int, Tensor]], weights: list[float]) -> dict[int, Tensor]:
    """Average the prototypes of each class over the clients that have it."""
    means = {}
    for c in {c for own in sent for c in own}:
        members = [i for i, own in enumerate(sent) if c in own]
        means[c] = steps.average_models([sent[i][c] for i in members], [weights[i] for i in members])
    return means


def compute_probabilities(
    z_MD: Tensor, prototypes: dict[int, Tensor], own_classes: set[int], num_classes: int
) -> Tensor:
    """Compute the softmax of minus squared distances to the prototypes of a client's own classes."""
    scores = torch.full((len(z_MD), num_classes), -torch.inf)
    for c in own_classes & prototypes.keys():
        scores[:, c] = -((z_MD - prototypes[c]) ** 2).sum(dim=1)
    return scores.softmax(dim=1)


def train_client(
    problem: Any, w: Tensor, i: int, t: int, prototypes: dict[int, Tensor]
) -> tuple[Tensor, dict[int, Tensor]]:
    """Train client i's own model on its batches of a round, and compute its prototypes."""
    client, batches, seen = problem.clients[i], problem.batches(i, t), []
    for batch in batches:
        net, y = steps.load_model(problem, w), client.y[batch]
        z = net.body(client.x[batch])
        loss = cross_entropy(net.head(z), y) + problem.settings["pull"] * compute_pull(z, y, prototypes)
        w = w - problem.learning_rate * steps.differentiate_loss(loss, net)
        seen.append(z.detach())
    last = problem.batches_per_epoch(i)
    return w, average_by_class(torch.cat(seen[-last:]), client.y[torch.cat(batches[-last:])])


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute no models, and every client's probabilities by the prototypes."""
    w, clients = [steps.read_start(problem)] * problem.num_clients, range(problem.num_clients)
    prototypes: dict[int, Tensor] = {}
    for t in range(problem.rounds):
        trained = [train_client(problem, w[i], i, t, prototypes) for i in clients]
        w = [model for model, _ in trained]
        prototypes = average_prototypes([own for _, own in trained], problem.weights)
    served = []
    for model, client in zip(w, problem.clients, strict=True):
        net, classes = steps.load_model(problem, model), set(client.y.tolist())
        with torch.no_grad():
            z = net.body(client.test_x)
            served.append(compute_probabilities(z, prototypes, classes, net.head(z).shape[1]))
    return [], served

"""FedProto, by hand: clients share the mean features of their classes (prototypes) instead of models.

A round, for each client: its own model goes on from where it was (the common start in round 1) by SGD on
cross-entropy + lambda times the mean over batch and dimensions of (z - P_y)^2, z the features and P_y the
server's prototype of the image's class; images of a class without one add 0, so round 1 has no such term.
Its prototype of class c = mean of z over its images of c, from the forward passes of the last epoch, while
the weights move. Server: P_c = mean over the clients that have c, by the run's weights. A client is served
the softmax of minus the squared distances of z to the newest P_c, among the classes of its own training
labels.

Source: Tan, Long, Liu, Zhou, Lu, Jiang and Zhang, AAAI 2022, arXiv:2105.00243; facts: B8, from the authors'
code (yuetan031/FedProto), which takes plain means. The paper weighs by class counts (memory, unverified).
The authors serve the nearest prototype; the softmax gives it the largest probability.
"""

from typing import Any

import torch
from torch.nn.functional import cross_entropy

QUIRKS = (
    "the authors' code takes a plain mean of prototypes where the paper weighs by class counts (from memory)",
    "the authors' test counters run on across users and both heads: their accuracies are running means",
    "PFLlib gathers prototypes over all epochs and tests against all classes",
    "fluke takes zeros for a missing prototype and tests with a client's own prototypes",
)
FROM_MEMORY = ""
SETTINGS = {"pull": 1.0}
NORMS = False

State = dict[str, torch.Tensor]
Prototypes = dict[int, torch.Tensor]


def compute_pull(features_BD: torch.Tensor, labels_B: torch.Tensor, prototypes: Prototypes) -> torch.Tensor:
    """Returns the mean over batch and dimensions of (z - P_y)^2; an image without P_y adds 0."""
    targets = [prototypes.get(int(y), z.detach()) for y, z in zip(labels_B, features_BD, strict=True)]
    return ((features_BD - torch.stack(targets)) ** 2).mean()


def average_by_class(features_ND: torch.Tensor, labels_N: torch.Tensor) -> Prototypes:
    """Returns the mean features of each class that has images."""
    return {c: features_ND[labels_N == c].mean(dim=0) for c in set(labels_N.tolist())}


def average_prototypes(sent: list[Prototypes], weights: list[float]) -> Prototypes:
    """Returns for each class the weighted mean over the clients that have it."""
    means = {}
    for c in sorted({c for prototypes in sent for c in prototypes}):
        having = [(own[c], weight) for own, weight in zip(sent, weights, strict=True) if c in own]
        means[c] = sum(mean * weight for mean, weight in having) / sum(weight for _, weight in having)
    return means


def compute_probabilities(
    features_MD: torch.Tensor, prototypes: Prototypes, own_classes: set[int], num_classes: int
) -> torch.Tensor:
    """Returns the softmax of minus squared distances to the prototypes of a client's own classes."""
    scores = torch.full((len(features_MD), num_classes), -torch.inf)
    for c in own_classes & prototypes.keys():
        scores[:, c] = -((features_MD - prototypes[c]) ** 2).sum(dim=1)
    return torch.softmax(scores, dim=1)


def train_model(
    problem: Any, state: State, i: int, round_index: int, prototypes: Prototypes
) -> tuple[State, Prototypes]:
    """Returns client i's own model after its batches of a round, and its prototypes."""
    module, client, seen = problem.build(), problem.clients[i], []
    module.load_state_dict(state)
    batches = problem.batches(i, round_index)
    for batch in batches:
        features = module.body(client.x[batch])
        loss = cross_entropy(module.head(features), client.y[batch])
        loss = loss + problem.settings["pull"] * compute_pull(features, client.y[batch], prototypes)
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(module.parameters(), gradients, strict=True):
                weight -= problem.learning_rate * gradient
        seen.append(features.detach())
    last = problem.batches_per_epoch(i)
    return dict(module.state_dict()), average_by_class(
        torch.cat(seen[-last:]), client.y[torch.cat(batches[-last:])]
    )


def run(problem: Any) -> tuple[list[State], list[torch.Tensor]]:
    """Runs all rounds; returns no model and the clients' probabilities on their test images."""
    own = [problem.starts[0] for _ in problem.clients]
    prototypes: Prototypes = {}
    for round_index in range(problem.rounds):
        trained = [
            train_model(problem, own[i], i, round_index, prototypes) for i in range(problem.num_clients)
        ]
        own = [state for state, _ in trained]
        prototypes = average_prototypes([sent for _, sent in trained], problem.weights)
    served = []
    for client, state in zip(problem.clients, own, strict=True):
        module = problem.build()
        module.load_state_dict(state)
        with torch.no_grad():
            features = module.eval().body(client.test_x)
            classes, num_classes = set(client.y.tolist()), module.head(features).shape[1]
            served.append(compute_probabilities(features, prototypes, classes, num_classes))
    return [], served

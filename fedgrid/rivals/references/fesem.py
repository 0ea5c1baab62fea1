"""FeSEM and WeCFL, by hand: k-means over the clients' trained models, one step of it per round.

Round 1: every client trains the common start to w_i; the partition with the least sum of a_i ||w_i - W_k||^2
over all partitions into `num_clusters` clusters, found by trying each; W_k = mean of its members' w_i by
a_i. Later rounds: client i trains W_k of its cluster to w_i; it moves to the cluster whose W_k, as sent out
in this round, is nearest; W_k = mean of the members by a_i; a cluster without members keeps W_k. a_i = 1 is
FeSEM (`weigh: equal`), a_i = number of images is WeCFL (`weigh: images`). A client is served its cluster's
model.

Source: Xie, Long, Shen, Zhou, Wang, Jiang and Zhang, arXiv:2005.01026; Ma, Long, Zhou, Jiang and Zhang,
arXiv:2202.06187; facts: A2. The three steps are from memory of the papers and others' code; both authors'
own codes differ (QUIRKS). The first partition is this project's choice: the models of round 1 are the first
that differ.
"""

from itertools import product
from typing import Any

import torch
from torch.nn.functional import cross_entropy

QUIRKS = (
    "FeSEM's authors' code starts from k-means on random noise, and averages before it moves clients",
    "FeSEM's authors' code clusters by one tensor, the last dense kernel",
    "FeSEM's authors' code averages by number of images by default; its other branch discards its mean",
    "WeCFL's author's code runs a fresh k-means++ on the last layer every round: clusters change numbers",
    "morningD/FlexCFL assigns before training and uses only the first client's update",
)
FROM_MEMORY = (
    "objective and steps: sum of a_i ||w_i - W||^2, nearest W_k, mean by a_i; a_i = 1 FeSEM, n_i WeCFL"
)
SETTINGS = {"num_clusters": 2, "weigh": "equal"}
NORMS = False

State = dict[str, torch.Tensor]


def flatten_model(problem: Any, state: State) -> torch.Tensor:
    """Returns all parameters of a model as one vector."""
    names = [name for name, _ in problem.build().named_parameters()]
    return torch.cat([state[name].flatten() for name in names])


def compute_scatter(points_NP: torch.Tensor, a_N: torch.Tensor, labels_N: torch.Tensor) -> float:
    """Returns the sum of a_i ||x_i - mean of its cluster by a||^2."""
    scatter = 0.0
    for k in set(labels_N.tolist()):
        members, a = points_NP[labels_N == k], a_N[labels_N == k, None]
        centre = (a * members).sum(dim=0) / a.sum()
        scatter += float((a * (members - centre) ** 2).sum())
    return scatter


def find_partition(points_NP: torch.Tensor, a_N: torch.Tensor, num_clusters: int) -> list[int]:
    """Returns the cluster of each point in the partition with least scatter, by trying all."""
    labelings = product(range(num_clusters), repeat=len(points_NP))
    partitions = [labels for labels in labelings if len(set(labels)) == num_clusters]
    return list(min(partitions, key=lambda labels: compute_scatter(points_NP, a_N, torch.tensor(labels))))


def find_nearest(point_P: torch.Tensor, centres_KP: torch.Tensor) -> int:
    """Returns which centre is nearest; ties go to the first."""
    return int(((point_P - centres_KP) ** 2).sum(dim=1).argmin())


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
    """Runs all rounds; returns the clusters' models and the clients' probabilities on their test images."""
    num_clusters, clients = problem.settings["num_clusters"], range(problem.num_clients)
    a = [1.0 if problem.settings["weigh"] == "equal" else float(problem.weights[i]) for i in clients]
    models, labels = [problem.starts[0]] * num_clusters, [0] * problem.num_clients
    for round_index in range(problem.rounds):
        trained = [train_model(problem, models[labels[i]], i, round_index) for i in clients]
        points_NP = torch.stack([flatten_model(problem, state) for state in trained])
        if round_index == 0:
            labels = find_partition(points_NP, torch.tensor(a), num_clusters)
        else:
            centres_KP = torch.stack([flatten_model(problem, state) for state in models])
            labels = [find_nearest(point_P, centres_KP) for point_P in points_NP]
        for k in set(labels):
            members = [i for i in clients if labels[i] == k]
            models[k] = average([trained[i] for i in members], [a[i] for i in members])
    served = []
    for client, label in zip(problem.clients, labels, strict=True):
        module = problem.build()
        module.load_state_dict(models[label])
        served.append(torch.softmax(module.eval()(client.test_x), dim=1).detach())
    return models, served

"""FlexCFL (FedGroup), by hand: clients are grouped by the direction of a short first training; then FedAvg
in groups that pull each other.

Round 1: every client trains the common start w0 for `pretrain_steps` batches, delta_i = its change.
Decomposed cosine (EDC): e_ik = cosine of delta_i and u_k, the k-th left singular vector of the matrix with
columns delta_i (not centred), k up to the number of groups; k-means on the e_i, here the partition with
least scatter by trying all; g_k = w0 + plain mean of its members' delta_i. Later rounds: members train g_k;
g_k += mean of their changes by number of images; then all groups at once, from the g_l just averaged, g_k <-
(g_k + eta_g sum over l != k of g_l / ||g_l||) / (1 + eta_g sum over l != k of 1 / ||g_l||). A client is
served g_k.

Source: Duan et al., IEEE TPDS 2022, arXiv:2108.09749, and FedGroup, arXiv:2010.06870; facts: A14, from the
authors' code (morningD/FlexCFL). Left out: drawing min(20 K, N) clients to group, newcomers and shifts of
labels (all clients take part here).
"""

from itertools import product
from typing import Any

import torch
from torch.nn.functional import cross_entropy, normalize

QUIRKS = (
    "the authors' figures test the model that a client received last instead of its group's",
    "the authors' step between groups is off by default (eta_g = 0); their README has 0.1",
    "the authors' test for a shift compares unordered label counts, so permuted labels are no shift",
)
FROM_MEMORY = ""
SETTINGS = {"num_clusters": 2, "pretrain_steps": 2, "group_rate": 0.1}
NORMS = False

State = dict[str, torch.Tensor]


def compute_directions(deltas_NP: torch.Tensor, num_clusters: int) -> torch.Tensor:
    """Returns e[i, k], the cosine of delta_i and the k-th left singular vector of the deltas as columns."""
    vectors_PN: torch.Tensor = torch.linalg.svd(deltas_NP.double().T, full_matrices=False).U
    return normalize(deltas_NP.double(), dim=1) @ vectors_PN[:, :num_clusters]


def compute_scatter(points_NP: torch.Tensor, labels_N: torch.Tensor) -> float:
    """Returns the sum of squared distances of the points to the means of their clusters."""
    clusters = [points_NP[labels_N == k] for k in set(labels_N.tolist())]
    return sum(float(((members - members.mean(dim=0)) ** 2).sum()) for members in clusters)


def find_partition(points_NP: torch.Tensor, num_clusters: int) -> list[int]:
    """Returns the cluster of each point in the partition with least scatter, by trying all."""
    labelings = product(range(num_clusters), repeat=len(points_NP))
    partitions = [labels for labels in labelings if len(set(labels)) == num_clusters]
    return list(min(partitions, key=lambda labels: compute_scatter(points_NP, torch.tensor(labels))))


def step_groups(groups_KP: torch.Tensor, group_rate: float) -> torch.Tensor:
    """Returns (g_k + eta_g sum of g_l / ||g_l||) / (1 + eta_g sum of 1 / ||g_l||), l != k, for every k."""
    lengths_K = groups_KP.norm(dim=1)
    stepped = []
    for k in range(len(groups_KP)):
        others = [other for other in range(len(groups_KP)) if other != k]
        pulled = groups_KP[k] + group_rate * sum(groups_KP[other] / lengths_K[other] for other in others)
        stepped.append(pulled / (1 + group_rate * sum(1 / lengths_K[other] for other in others)))
    return torch.stack(stepped)


def flatten_model(module: torch.nn.Module) -> torch.Tensor:
    """Returns all parameters of a module as one vector."""
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach()


def load_model(problem: Any, vector_P: torch.Tensor) -> Any:
    """Returns a module with these parameters."""
    module = problem.build()
    torch.nn.utils.vector_to_parameters(vector_P.clone(), module.parameters())
    return module


def train_model(problem: Any, vector_P: torch.Tensor, i: int, batches: Any) -> torch.Tensor:
    """Returns a model after these batches of client i."""
    module, client = load_model(problem, vector_P), problem.clients[i]
    for batch in batches:
        loss = cross_entropy(module(client.x[batch]), client.y[batch])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(module.parameters(), gradients, strict=True):
                weight -= problem.learning_rate * gradient
    return flatten_model(module)


def run(problem: Any) -> tuple[list[State], list[torch.Tensor]]:
    """Runs all rounds; returns the groups' models and the clients' probabilities on their test images."""
    settings, clients = problem.settings, range(problem.num_clients)
    module = problem.build()
    module.load_state_dict(problem.starts[0])
    start_P = flatten_model(module)
    first = [problem.batches(i, 0)[: settings["pretrain_steps"]] for i in clients]
    deltas_NP = torch.stack([train_model(problem, start_P, i, first[i]) - start_P for i in clients])
    labels = find_partition(compute_directions(deltas_NP, settings["num_clusters"]), settings["num_clusters"])
    members = [[i for i in clients if labels[i] == k] for k in range(settings["num_clusters"])]
    groups_KP = torch.stack([start_P + deltas_NP[own].mean(dim=0) for own in members])
    for round_index in range(1, problem.rounds):
        averaged = []
        for group_P, own in zip(groups_KP, members, strict=True):
            trained = [train_model(problem, group_P, i, problem.batches(i, round_index)) for i in own]
            weights = [problem.weights[i] for i in own]
            averaged.append(sum(w_P * n for w_P, n in zip(trained, weights, strict=True)) / sum(weights))
        groups_KP = step_groups(torch.stack(averaged), settings["group_rate"])
    models = [load_model(problem, group_P).eval() for group_P in groups_KP]
    with torch.no_grad():
        served = [torch.softmax(models[labels[i]](problem.clients[i].test_x), dim=1) for i in clients]
    return [dict(model.state_dict()) for model in models], served

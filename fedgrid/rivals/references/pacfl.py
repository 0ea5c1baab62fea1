"""PACFL, by hand: clients with images in near subspaces form a cluster before training; then FedAvg inside
each cluster.

Before round 1, each client: for each of its classes the first p left singular vectors of the matrix whose
columns are the raw pixels of its images of that class, in float64; the vectors of all classes side by side
are its basis U_i. Distance of two clients: the least angle in degrees between a vector of one and a vector
of the other, arccos of the largest |entry| of U_i^T U_j. Hierarchical clustering with average linkage
(UPGMA), cut at `angle`. Then FedAvg in each cluster from the common start, by number of images. A client is
served its cluster's model, without local epochs.

Source: Vahidian, Morafah, Wang, Kungurtsev, Chen, Shah and Lin, AAAI 2023, arXiv:2209.10526; facts: A4.
Vectors by class and the angle by entries are the authors' code (MMorafah/PACFL). Absolute inner products (a
singular vector has no sign) and UPGMA are this project's choice; the hierarchical clustering cut at an angle
is in both.
"""

from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch.nn.functional import cross_entropy

QUIRKS = (
    "the authors' code takes inner products with their sign: angles depend on the signs of the vectors",
    "the authors' code averages the two rows of a merge without their sizes (WPGMA)",
    "the authors' figures test each client's net after its last local epochs",
    "the authors' MIX-4 takes one decomposition of all classes together, of transformed images",
    "the paper's principal angle needs an orthonormal U_i, which a stack by class is not",
)
FROM_MEMORY = ""
SETTINGS = {"vectors": 3, "angle": 20.0, "linkage": "average"}
NORMS = False

State = dict[str, torch.Tensor]


def compute_basis(pixels: np.ndarray, labels: np.ndarray, num_vectors: int) -> np.ndarray:
    """Returns the first left singular vectors of each class, shape (pixels, vectors of all classes)."""
    columns = pixels.reshape(len(pixels), -1).T.astype(np.float64)
    bases = [np.linalg.svd(columns[:, labels == c], full_matrices=False)[0] for c in np.unique(labels)]
    return np.hstack([basis[:, :num_vectors] for basis in bases])


def compute_angle(one: np.ndarray, other: np.ndarray) -> float:
    """Returns the least angle between a vector of one basis and one of the other, in degrees."""
    return float(np.degrees(np.arccos(min(1.0, np.abs(one.T @ other).max()))))


def find_clusters(angles_NN: np.ndarray, angle: float, method: str) -> list[int]:
    """Returns the cluster of each client: the nearest merge while at most `angle` apart."""
    tree = linkage(squareform(angles_NN), method=method)
    return [int(label) - 1 for label in fcluster(tree, t=angle, criterion="distance")]


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
    settings, clients = problem.settings, range(problem.num_clients)
    bases = [compute_basis(c.pixels.numpy(), c.y.numpy(), settings["vectors"]) for c in problem.clients]
    angles_NN = np.zeros((len(clients), len(clients)))
    for i in clients:
        for j in range(i):
            angles_NN[i, j] = angles_NN[j, i] = compute_angle(bases[i], bases[j])
    labels = find_clusters(angles_NN, settings["angle"], settings["linkage"])
    models = [problem.starts[0] for _ in set(labels)]
    for round_index in range(problem.rounds):
        trained = [train_model(problem, models[labels[i]], i, round_index) for i in clients]
        for k in range(len(models)):
            members = [i for i in clients if labels[i] == k]
            models[k] = average([trained[i] for i in members], [problem.weights[i] for i in members])
    served = []
    for client, label in zip(problem.clients, labels, strict=True):
        module = problem.build()
        module.load_state_dict(models[label])
        served.append(torch.softmax(module.eval()(client.test_x), dim=1).detach())
    return models, served

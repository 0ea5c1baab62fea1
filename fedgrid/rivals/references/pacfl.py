"""PACFL, by hand: clients with images in near subspaces form a cluster before training; then FedAvg inside
each cluster.

Before round 1, each client: for each of its classes the first p left singular vectors of the matrix whose
columns are the raw pixels of its images of that class, in float64; the vectors of all classes side by side
are its basis U_i. Distance of two clients: the least angle in degrees between a vector of one and a vector
of the other, arccos of the largest |entry| of U_i^T U_j. Hierarchical clustering with average linkage
(UPGMA), cut at `angle`. Then FedAvg in each cluster from the common start, by number of images. A client is
served its cluster's model, without local epochs.

Source: Vahidian, Morafah, Wang, Kungurtsev, Chen, Shah and Lin, AAAI 2023, arXiv:2209.10526; facts: RIVALS
A4. Vectors by class and the angle by entries are the authors' code (MMorafah/PACFL). Absolute inner products
(a singular vector has no sign) and UPGMA are this project's choice; the hierarchical clustering cut at an
angle is in both.
"""

from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from fedgrid.rivals.references import steps

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


def compute_basis(pixels: np.ndarray, labels: np.ndarray, num_vectors: int) -> np.ndarray:
    """Compute the first left singular vectors of each class, shape (pixels, vectors of all classes)."""
    columns = pixels.reshape(len(pixels), -1).T.astype(np.float64)
    bases = [np.linalg.svd(columns[:, labels == c], full_matrices=False)[0] for c in np.unique(labels)]
    return np.hstack([basis[:, :num_vectors] for basis in bases])


def compute_angle(one: np.ndarray, other: np.ndarray) -> float:
    """Compute the least angle between a vector of one basis and one of the other, in degrees."""
    return float(np.degrees(np.arccos(min(1.0, np.abs(one.T @ other).max()))))


def find_clusters(angles_NN: np.ndarray, angle: float, method: str) -> Tensor:
    """Find the cluster of each client, from 0: the nearest merge while at most `angle` apart."""
    tree = linkage(squareform(angles_NN, checks=False), method=method)
    return torch.from_numpy(fcluster(tree, t=angle, criterion="distance") - 1).long()


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute the clusters' models, and their probabilities for their members."""
    settings = problem.settings
    bases = [compute_basis(c.pixels.numpy(), c.y.numpy(), settings["vectors"]) for c in problem.clients]
    angles_NN = np.array([[compute_angle(one, other) for other in bases] for one in bases])
    labels_N = find_clusters(angles_NN, settings["angle"], settings["linkage"])
    w = [steps.read_start(problem) for _ in set(labels_N.tolist())]
    for t in range(problem.rounds):
        trained = steps.train_clients(problem, [w[k] for k in labels_N], t)
        for k in range(len(w)):
            w[k] = steps.average_models(trained, torch.tensor(problem.weights) * (labels_N == k))
    return steps.convert_models(problem, w), steps.predict_tests(problem, [w[k] for k in labels_N])

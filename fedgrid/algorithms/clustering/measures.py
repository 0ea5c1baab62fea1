"""Measures of a round: the temperature of its updates, and the silhouette of groups of clients.

Source of the temperature: One-Shot Clustering for Federated Learning, arXiv:2503.04231.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.updates.source import Matrix


def compute_temperature(cosine_distances_KK: Matrix) -> float:
    """Compute |D|_F / (2 sqrt(K (K - 1))), half the root mean square of the pairwise cosine distances.

    It lies in [0, 1]: 0 for parallel updates, 0.5 for orthogonal ones. Fewer than two clients have
    temperature 0.
    """
    num_clients = len(cosine_distances_KK)
    if num_clients < 2:
        return 0.0
    return float(np.linalg.norm(cosine_distances_KK) / (2 * np.sqrt(num_clients * (num_clients - 1))))


def has_silhouette(groups: Sequence[Sequence[int]]) -> bool:
    """Check whether groups of K clients have a silhouette: one group has none, nor have K groups."""
    return 1 < len(groups) < sum(map(len, groups))


def compute_silhouette(distances_KK: Matrix, groups: Sequence[Sequence[int]]) -> float | None:
    """Compute scikit-learn's mean silhouette of groups of all K clients; None if it is not defined."""
    return float(compute_client_silhouettes(distances_KK, groups).mean()) if has_silhouette(groups) else None


def compute_client_silhouettes(distances_KK: Matrix, groups: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Compute scikit-learn's silhouette of each client, shape (K,); `has_silhouette` has to hold."""
    from sklearn.metrics import silhouette_samples

    labels_K = number_groups(groups, len(distances_KK))
    return np.asarray(silhouette_samples(distances_KK, labels_K, metric="precomputed"))


def number_groups(groups: Sequence[Sequence[int]], num_clients: int) -> NDArray[np.int64]:
    """Number groups as they come: the group of each client, shape (K,); -1 for clients in none."""
    labels_K = np.full(num_clients, -1, np.int64)
    for number, group in enumerate(groups):
        labels_K[list(group)] = number
    return labels_K

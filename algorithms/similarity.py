"""Temperature: how far apart the clients' updates point.

Source: One-Shot Clustered Federated Learning (OCFL), the clustering criterion, normalised as in the
authors' results.
"""

import numpy as np

from algorithms.updates import Matrix


def temperature(cosine_distances_KK: Matrix) -> float:
    """Return |D|_F / (2 sqrt(K (K - 1))), half the root mean square of the pairwise cosine distances.

    Lies in [0, 1]: 0 for parallel updates, 0.5 for orthogonal ones. Fewer than two clients have
    temperature 0.
    """
    num_clients = len(cosine_distances_KK)
    if num_clients < 2:
        return 0.0
    return float(np.linalg.norm(cosine_distances_KK) / (2 * np.sqrt(num_clients * (num_clients - 1))))

"""Spectral clustering, and one-shot clustering (OCFL) that uses it."""

from typing import Literal

import numpy as np
from sklearn.cluster import SpectralClustering

from fedgrid import AlgorithmEntry, Clusterer, Labels, Matrix, Ocfl, OcflSettings


class Spectral(Clusterer):
    """Spectral clustering on the similarities 1 - d / 2, which are in [0, 1]."""

    name: Literal["spectral"] = "spectral"
    num_clusters: int = 3

    def fit(self, distances_KK: Matrix, rng: np.random.Generator) -> Labels:
        """Find a cluster for each of K clients, -1 for noise; called once, when OCFL clusters."""
        method = SpectralClustering(
            self.num_clusters, affinity="precomputed", random_state=int(rng.integers(2**31))
        )
        return np.asarray(method.fit(1 - distances_KK / 2).labels_, np.int64)


CLUSTERERS = [Spectral]

ALGORITHMS = [
    AlgorithmEntry(
        name="ocfl-spectral",
        title="OCFL-SPC",
        summary="clusters once, at the temperature's rise: spectral clustering",
        source="von Luxburg 2007, arXiv:0711.0189",
        algorithm=Ocfl,
        settings=OcflSettings(clusterer=Spectral()),
    )
]

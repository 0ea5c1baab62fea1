"""Agglomerative clustering of a matrix of distances, cut at a height.

Shapes: K clients.
"""

import numpy as np

from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.updates.source import Matrix


def agglomerate(distances_KK: Matrix, linkage: str, threshold: float) -> Labels:
    """Return the clusters whose merges are all below `threshold`, from 1, shape (K,); one client is one."""
    # Imports scipy's hierarchies, which take a while; algorithms are listed without them.
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    if len(distances_KK) == 1:
        return np.ones(1, np.int64)
    tree = hierarchy.linkage(squareform(distances_KK, checks=False), linkage)
    # scipy merges up to and including a height, scikit-learn and the papers below it.
    below = np.nextafter(threshold, -np.inf)
    return np.asarray(hierarchy.fcluster(tree, below, criterion="distance"), np.int64)

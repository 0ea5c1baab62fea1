"""What tests of algorithms share."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.clusterers import KMeans


@pytest.fixture
def answers(monkeypatch):
    """Return a function that makes a clusterer, k-means by default, answer these labels one after the other.

    It returns a list that gets the distances of each call.
    """

    def patch(*labels, clusterer=KMeans):
        asked, waiting = [], [np.array(each, np.int64) for each in labels]

        def fit(self, distances_KK, generator):
            asked.append(np.array(distances_KK))
            return waiting.pop(0)

        monkeypatch.setattr(clusterer, "fit", fit)
        return asked

    return patch

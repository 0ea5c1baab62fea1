"""The clusterers: a distance matrix in, one label a client out."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedgrid.algorithms.clustering.clusterers import (
    CLUSTERERS,
    HDBSCAN,
    AffinityAsPublished,
    AffinityPropagation,
    HDBSCANAsPublished,
    KMeans,
    MeanShift,
)
from tests.helpers.small_cases import frozen, group_labels, make_block_distances, rng, sets

ALL = sorted(CLUSTERERS)
SHAPES = [(5, 5, 5), (10, 10, 10), (3, 7, 5), (7, 14, 9)]


def fit(clusterer, distances_KK, seed=0):
    labels_K = np.asarray(clusterer.fit(frozen(distances_KK, np.float64), rng(seed)))
    assert labels_K.shape == (len(distances_KK),)
    assert np.issubdtype(labels_K.dtype, np.integer)
    assert labels_K.min() >= -1
    return labels_K


def outliers_added(distances_KK, number, distance=1.5):
    """Return the distances with `number` clients more, far from everyone and from each other."""
    size = len(distances_KK)
    wider = np.full((size + number,) * 2, distance)
    wider[:size, :size] = distances_KK
    np.fill_diagonal(wider, 0.0)
    return wider


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("clusterer", [KMeans, AffinityPropagation, HDBSCAN, HDBSCANAsPublished])
def test_clear_groups_are_found(clusterer, sizes):
    distances_KK, truth = make_block_distances(sizes)
    assert group_labels(fit(clusterer(), distances_KK)) == group_labels(truth)


@pytest.mark.parametrize("seed", range(5))
def test_mean_shift_never_mixes_groups(seed):
    """It may dissolve a group into single clients (the archived runs do), but it does not join two."""
    distances_KK, truth = make_block_distances((5, 5, 5), seed=seed)
    for cluster in group_labels(fit(MeanShift(), distances_KK)):
        assert len({truth[client] for client in cluster}) == 1


@pytest.mark.parametrize(("per_group", "ari"), [(5, 0.235), (10, 0.393)])
def test_published_affinity_takes_distances_for_similarities(per_group, ari):
    """The published sign error trades two true groups A and B, all but one member each (the exemplars).

    Its clusters are C + (A less a) + b and (B less b) + a. For 5/5/5 (n = 15, sizes 10 and 5) the pairs
    together in both partitions are 10 + 6 + 6 = 22, in the truth 30, in the clusters 45 + 10 = 55, of 105:
    ARI = (22 - 30 * 55 / 105) / ((30 + 55) / 2 - 30 * 55 / 105) = 6.2857 / 26.7857 = 0.2347, as archived.
    For 10/10/10: 117 of 135 and 190 + 45 = 235 of 435: (117 - 72.931) / (185 - 72.931) = 0.3932.
    """
    distances_KK, truth = make_block_distances((per_group,) * 3)
    published = fit(AffinityAsPublished(), distances_KK)
    assert adjusted_rand_score(truth, published) == pytest.approx(ari, abs=5e-4)
    assert adjusted_rand_score(truth, fit(AffinityPropagation(), distances_KK)) == 1.0


@pytest.mark.parametrize("noise", [0, 2])
@pytest.mark.parametrize("sizes", SHAPES)
def test_both_hdbscans_agree_on_clear_cases(sizes, noise):
    """The hdbscan package and scikit-learn's: the same clusters, the same noise clients."""
    distances_KK = outliers_added(make_block_distances(sizes)[0], noise)
    package, published = fit(HDBSCAN(), distances_KK), fit(HDBSCANAsPublished(), distances_KK)
    assert group_labels(package) == group_labels(published)
    assert np.flatnonzero(package == -1).tolist() == np.flatnonzero(published == -1).tolist()


@pytest.mark.parametrize("clusterer", [HDBSCAN, HDBSCANAsPublished])
@pytest.mark.parametrize(
    ("sizes", "clusters"),
    [((3, 7, 5), 3), ((2, 8, 5), 2), ((6, 14, 10), 3), ((5, 15, 10), 2)],
)
def test_the_smallest_hdbscan_cluster_is_a_fifth_of_the_clients(clusterer, sizes, clusters):
    """3 of 15 and 6 of 30 are clusters; 2 of 15 and 5 of 30 are not."""
    distances_KK, truth = make_block_distances(sizes)
    labels_K = fit(clusterer(), distances_KK)
    assert len(set(labels_K.tolist()) - {-1}) == clusters
    if clusters == 2:
        assert len(set(labels_K[sizes[0] :].tolist()) - {-1}) == 2


def test_smallest_hdbscan_cluster_can_be_set():
    """A tenth of 15 clients is two: the group of two stands."""
    distances_KK, truth = make_block_distances((2, 8, 5))
    assert group_labels(fit(HDBSCAN(min_cluster_share=0.1), distances_KK)) == group_labels(truth)


def test_kmeans_finds_as_many_clusters_as_it_is_told():
    distances_KK, _ = make_block_distances((5, 5, 5))
    assert len(group_labels(fit(KMeans(num_clusters=2), distances_KK))) == 2
    assert group_labels(fit(KMeans(num_clusters=2), distances_KK)) == sets(range(5), range(5, 15))


@pytest.mark.parametrize("name", ALL)
def test_the_generator_alone_decides(name):
    distances_KK, _ = make_block_distances((3, 7, 5), jitter=0.1)
    first, second = (fit(CLUSTERERS[name](), distances_KK, seed=7) for _ in range(2))
    assert first.tolist() == second.tolist()


DEGENERATE = {
    "all identical": np.zeros((6, 6)),
    "all equally far": 1.0 - np.eye(6),
    "one zero update": np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]),
    "exact blocks": np.kron(1.0 - np.eye(3), np.ones((4, 4))),
    "rounding errors": 1e-16 * (1.0 - np.eye(6)),
    "one client": np.zeros((1, 1)),
    "two clients": np.array([[0.0, 0.5], [0.5, 0.0]]),
    "two identical clients": np.zeros((2, 2)),
    "three clients": 1.0 - np.eye(3),
    "opposite clients": np.array([[0.0, 2.0], [2.0, 0.0]]),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", ALL)
def test_degenerate_distances_give_each_client_a_label(name, case):
    labels = fit(CLUSTERERS[name](), DEGENERATE[case])
    assert labels.shape == (len(DEGENERATE[case]),)
    assert np.issubdtype(labels.dtype, np.integer)

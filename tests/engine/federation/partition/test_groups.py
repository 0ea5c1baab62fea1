"""Class sets and sizes of hidden groups; those of the OCFL scenarios: test_ocfl_reference.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.scenarios import compute_class_sets, compute_cluster_sizes


class TestClassSets:
    def test_one_cluster_holds_every_class(self):
        assert (
            compute_class_sets(4, 1, "overlapping")
            == compute_class_sets(4, 1, "nonoverlapping")
            == ((0, 1, 2, 3),)
        )

    @given(st.data())
    def test_class_sets_for_any_number_of_clusters_and_classes(self, data):
        num_classes = data.draw(st.integers(3, 120))
        num_clusters = data.draw(st.integers(2, num_classes))
        tiles = compute_class_sets(num_classes, num_clusters, "nonoverlapping")
        assert sum(tiles, ()) == tuple(range(num_classes))
        assert max(map(len, tiles)) - min(map(len, tiles)) <= 1
        arcs = [set(labels) for labels in compute_class_sets(num_classes, num_clusters, "overlapping")]
        assert set.union(*arcs) == set(range(num_classes))
        for arc in arcs:
            others = [other for other in arcs if other is not arc]
            assert any(arc & other for other in others), "every set shares a class with another"
            assert not any(arc <= other for other in others), "no set lies inside another"

    @pytest.mark.parametrize(
        ("classes", "clusters", "message"),
        [
            (3, 4, "4 clusters need at least 4 classes, the data set has 3"),
            (2, 2, "cannot overlap on 2 classes"),
        ],
    )
    def test_too_few_classes_are_refused(self, classes, clusters, message):
        with pytest.raises(ConfigError, match=message):
            compute_class_sets(classes, clusters, "overlapping")


class TestClusterSizes:
    @pytest.mark.parametrize(
        ("clients", "balance", "sizes"),
        [
            (16, "balanced", (6, 5, 5)),
            (3, "imbalanced", (1, 1, 1)),
            (100, "imbalanced", (22, 47, 31)),
        ],
    )
    def test_sizes_of_three_clusters(self, clients, balance, sizes):
        assert compute_cluster_sizes(clients, 3, balance) == sizes

    @given(st.integers(1, 80), st.integers(1, 80), st.sampled_from(["balanced", "imbalanced"]))
    def test_every_client_is_in_a_cluster_and_no_cluster_is_empty(self, one, other, balance):
        clients, clusters = max(one, other), min(one, other)
        sizes = compute_cluster_sizes(clients, clusters, balance)
        assert len(sizes) == clusters
        assert sum(sizes) == clients
        assert min(sizes) >= 1

    def test_more_clusters_than_clients_are_refused(self):
        with pytest.raises(ConfigError, match="3 clusters need at least 3 clients, not 2"):
            compute_cluster_sizes(2, 3, "balanced")

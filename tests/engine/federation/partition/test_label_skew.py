"""Label skew: Morafah et al., FLIS, 2022, and its code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.label_skew import count_labels_per_client, draw_owned_labels
from tests.helpers.partitions import deal_labels, find_leakage


def deal(labels, clients, share=0.2, **options):
    return deal_labels(labels, "label-skew", clients, labels_share=share, **options)


def test_labels_per_client_are_a_share_of_the_classes():
    """FLIS: 20 and 30 % are 2 and 3 of 10 labels, 20 and 30 of 100."""
    assert [count_labels_per_client(10, share) for share in (0.2, 0.3, 1.0)] == [2, 3, 10]
    assert [count_labels_per_client(100, share) for share in (0.2, 0.3, 0.1)] == [20, 30, 10]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(30, 60), min_size=2, max_size=8),
    st.integers(1, 14),
    st.floats(0.15, 1),
    st.integers(0, 99),
)
def test_every_owned_label_is_dealt_out_evenly_to_its_owners_and_to_nobody_else(sizes, clients, share, seed):
    """Client i owns label i mod L, and q labels in all; parts of a label differ by at most one image."""
    num_classes = len(sizes)
    if round(share * num_classes) == 0:
        share = 1.0
    labels = np.repeat(np.arange(num_classes), sizes)
    parts = deal(labels, clients, share, seed=seed)
    together = np.concatenate([part.positions for part in parts])
    assert len(np.unique(together)) == len(together)
    counts_KL = np.stack([np.bincount(labels[part.positions], minlength=num_classes) for part in parts])
    for client, counts_L in enumerate(counts_KL):
        assert (counts_L > 0).sum() == count_labels_per_client(num_classes, share)
        assert counts_L[client % num_classes] > 0
    for label, counts_K in enumerate(counts_KL.T):
        owned = counts_K[counts_K > 0]
        assert len(owned) == 0 or (owned.sum() == sizes[label] and np.ptp(owned) <= 1)
    assert [part.cluster for part in parts] == [client % num_classes for client in range(clients)]
    assert find_leakage(parts) == 0


def test_a_hundred_clients_of_cifar100_own_ten_labels_each():
    """FLIS's code deals labels 0 to 9 out to everybody when a client owns ten labels."""
    labels = np.repeat(np.arange(100), 500)
    parts = deal(labels, 100, 0.1)
    owned_KL = np.stack([np.bincount(labels[part.positions], minlength=100) for part in parts])
    assert (owned_KL > 0).sum(axis=1).tolist() == [10] * 100
    assert (owned_KL > 0).sum(axis=0).max() < 30
    assert owned_KL.sum(axis=0).tolist() == [500] * 100


def test_other_labels_are_drawn_without_repetition_and_alike_for_a_seed():
    rngs = [[np.random.default_rng([seed, client]) for client in range(12)] for seed in (0, 0, 1)]
    first, again, other = (draw_owned_labels(10, 3, each) for each in rngs)
    assert first == again != other
    assert {len(owned) for owned in first} == {3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 0.01}, r"split.labels_share = 0.01: of 2 classes .* at least 0.5"),
        ({"share": 1.0, "clients": 5}, "5 of them own label 0, which has 4 images; take fewer clients"),
        ({"num_clusters": 5}, "split.num_clusters = 5 has no effect with split label-skew"),
    ],
    ids=str,
)
def test_what_cannot_be_dealt_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        deal(np.repeat([0, 1], 4), **{"clients": 2, **changes})

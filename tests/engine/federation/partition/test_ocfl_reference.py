"""Our splits against the authors' blueprints (tests/reference): same rule, hence the same distribution."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.holdouts import round_share
from fedgrid.engine.federation.partition.scenarios import SCENARIOS, compute_class_sets, find_cluster_sizes
from fedgrid.engine.runtime.data.datasets import load_dataset
from tests.helpers.partitions import deal_labels, find_leakage
from tests.helpers.reference import OVERLAPS, REFERENCE, read_rows

MNIST_COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
"""Training images of each digit."""
POOL_COUNTS = {"mnist": MNIST_COUNTS, "fmnist": (6000,) * 10, "cifar10": (5000,) * 10}

COUNTED = [name for name in SCENARIOS if SCENARIOS[name].dataset in ("mnist", "cifar10")]
"""The sixteen scenarios whose class counts per client are in the reference."""


@cache
def rows(table: str) -> dict[str, list[dict[str, str]]]:
    """Return a reference table's rows by the name of their scenario."""
    by_scenario: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(REFERENCE / table):
        name = f"{row['dataset'].lower()}-{row['n']}-{OVERLAPS[row['overlap']]}-{row['balance']}"
        by_scenario.setdefault(name, []).append(row)
    return by_scenario


@cache
def ours(name: str, test_leakage: str = "published"):
    """Return our split of a scenario with the published class shares, and the labels of the pool."""
    scenario = SCENARIOS[name]
    labels = np.repeat(np.arange(10), POOL_COUNTS[scenario.dataset])
    options = {"proportions": "published", "test_leakage": test_leakage}
    parts = deal_labels(labels, scenario.split, scenario.num_clients, dataset=scenario.dataset, **options)
    return parts, labels


@pytest.mark.parametrize("name", SCENARIOS)
def test_class_sets_and_cluster_sizes_are_the_published_ones(name):
    scenario = SCENARIOS[name]
    published = rows("class_sets.csv")[name]
    sets = compute_class_sets(DATASETS[scenario.dataset].num_classes, 3, scenario.overlap)
    assert sets == tuple(tuple(map(int, row["classes"].split())) for row in published)
    assert find_cluster_sizes(scenario, 3) == tuple(int(row["n_clients"]) for row in published)


def test_test_sets_of_published_clients_are_30_percent_rounded_up():
    """Test is 30 % of a client's images rounded up, train the rest, and classes add up to both."""
    clients = [row for name in COUNTED for row in rows("clients.csv")[name]]
    assert len(clients) == 8 * 15 + 8 * 30
    for row in clients:
        train, test = int(row["train"]), int(row["test"])
        assert test == round_share(train + test, 0.3)
        assert train == sum(float(row[f"tr{label}"]) for label in range(10))
        assert test == sum(float(row[f"te{label}"]) for label in range(10))


@pytest.mark.parametrize("name", COUNTED)
def test_class_counts_of_each_cluster_are_of_the_published_distribution(name):
    """Chi-square test of homogeneity of ours and the published counts, summed over a cluster's clients.

    Classes of fewer than 20 images in the two together (shares that the table rounds to 0.000) are left out.
    """
    splits, labels = ours(name)
    published = rows("clients.csv")[name]
    for cluster in range(3):
        theirs_L = sum(
            np.array([float(row[f"tr{label}"]) + float(row[f"te{label}"]) for label in range(10)])
            for row in published
            if int(row["cluster"]) == cluster + 1
        )
        ours_L = sum(
            np.bincount(labels[part.positions], minlength=10) for part in splits if part.cluster == cluster
        )
        counts = np.stack([ours_L, theirs_L])
        counts = counts[:, counts.sum(axis=0) >= 20]
        assert counts.shape[1] >= 2
        assert chi2_contingency(counts).pvalue > 1e-4


@pytest.mark.parametrize("name", [name for name in SCENARIOS if SCENARIOS[name].dataset in POOL_COUNTS])
def test_sizes_of_clients_agree_within_sampling_error(name):
    """Means over the clients of one drawing each: the published ones lie up to 1 % off their expectation,
    as the clusters of a published scenario were drawn with one and the same sequence."""
    splits, _ = ours(name)
    (published,) = rows("sizes.csv")[name]
    for part, sizes in {
        "train": [len(client.train) for client in splits],
        "test": [len(client.test) for client in splits],
    }.items():
        assert np.mean(sizes) == pytest.approx(float(published[f"{part}_mean"]), rel=0.012)
        assert min(sizes) == pytest.approx(int(published[f"{part}_min"]), rel=0.05)
        assert max(sizes) == pytest.approx(int(published[f"{part}_max"]), rel=0.05)


def test_leakage_of_the_published_splits():
    """Facts/OCFL.md 1.4, last column, for MNIST: 0.43 to 0.61 of a client's test images."""
    expected = dict(
        zip(
            [n for n in COUNTED if "mnist" in n],
            (0.43, 0.61, 0.47, 0.56, 0.47, 0.60, 0.49, 0.52),
            strict=True,
        )
    )
    for name, share in expected.items():
        assert find_leakage(ours(name)[0]) == pytest.approx(share, abs=0.02)
        assert find_leakage(ours(name, "none")[0]) == 0.0


def test_real_mnist_has_these_class_counts(shared):
    pool, server = load_dataset("mnist", shared / "data", download=False)
    assert tuple(np.bincount(pool.labels)) == MNIST_COUNTS
    assert np.bincount(server.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]

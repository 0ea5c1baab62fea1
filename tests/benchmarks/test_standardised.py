"""Groups in updates as they are and in standardised ones."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.groups import same
from benchmarks.standardised.__main__ import found, is_evident, paired
from benchmarks.standardised.families import DEVELOPMENT, WITH_GROUPS
from benchmarks.standardised.few_classes import with_dataset
from benchmarks.standardised.stored import rounds_of
from fedgrid.engine.configuration.complete import complete

SMALL = {"clients": 6, "split": {"kind": "flipped", "sizes": [3, 2, 1]}, "seed": 0}
DATA = Path("data")


def cosines_of_groups(sizes: tuple[int, ...], noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines of clients around one direction a group, and their groups."""
    truth_K = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(40)[truth_K] + noise * np.random.default_rng(0).standard_normal((len(truth_K), 40))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T, truth_K


def test_every_kind_is_a_run_that_can_be_made():
    names = [
        complete({"dataset": "digits", "algorithm": "fedavg", **case}, DATA).run_id
        for cases in WITH_GROUPS.values()
        for case in cases
    ]
    assert len(set(names)) == len(names) == 44
    assert {family for family in DEVELOPMENT if family not in WITH_GROUPS} == {
        family for family in DEVELOPMENT if family.startswith("none")
    }


def test_few_classes_are_a_data_set_of_their_own(tmp_path: Path):
    given = with_dataset({"clients": 2, "split": {"kind": "iid"}, "classes": 3}, tmp_path, DATA)
    with np.load(given["dataset"].removeprefix("npz:")) as file:
        assert sorted(set(file["train_labels"].tolist())) == [0, 1, 2]
        assert len(file["train_images"]) == len(file["train_labels"])
    assert complete(given, DATA).model == "digitnet"


def test_federation_is_trained_once_and_has_both_distances(tmp_path: Path):
    first = rounds_of(SMALL, 2, tmp_path, DATA)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    again = rounds_of(SMALL, 2, tmp_path, DATA)
    assert path.stat().st_mtime_ns == written
    assert same(first.truth_K, np.array([0, 0, 0, 1, 1, 2]))
    for kind, distances_RKK in again.distances_RKK.items():
        assert distances_RKK.shape[1:] == (6, 6)
        np.testing.assert_array_equal(distances_RKK, first.distances_RKK[kind])
    lengths_K = np.sqrt(np.diagonal(again.prefix.rounds[0][1]))
    cosines_KK = again.prefix.rounds[0][1] / (lengths_K[:, None] * lengths_K[None, :])
    np.testing.assert_allclose(again.distances_RKK["as they are"][0], 1 - cosines_KK, atol=1e-5)


def test_groups_of_unequal_sizes_are_found_and_evident():
    cosines_KK, truth_K = cosines_of_groups((9, 4, 2), 0.02)
    labels_K = found(cosines_KK)
    assert same(labels_K, truth_K)
    assert is_evident(cosines_KK, labels_K, "standardised", 2)


@pytest.mark.parametrize("seed", range(3))
def test_noise_has_no_evident_groups(seed: int):
    vectors = np.random.default_rng(seed).standard_normal((20, 200)) + 1.0
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines_KK = vectors @ vectors.T
    assert not is_evident(cosines_KK, found(cosines_KK), "standardised", 2)


def test_paired_counts_by_hand():
    """Three better, none worse: p = 2 / 8."""
    counts = [{"a": 1, "b": 0}] * 3 + [{"a": 1, "b": 1}, {"a": 0, "b": 0}]
    assert paired(counts, "a", "b") == "3 / 0 (0.25)"
    assert paired(counts[3:], "a", "b") == "0 / 0 (1)"

"""The study of groups of unequal sizes."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

from benchmarks.groups import same
from benchmarks.unequal import edits, evidence
from benchmarks.unequal.families import EVERY, FAMILIES, KINDS
from benchmarks.unequal.played import Found, decided
from benchmarks.unequal.rules import RULES, pooled, silhouette, silhouettes
from benchmarks.unequal.study import methods
from benchmarks.unequal.trunks import Trunk, load, path_of, store

SIZES = (6, 3, 2)


def cosines_of_groups(sizes: tuple[int, ...], noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines of clients around one direction a group, and their groups."""
    truth_K = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(0)
    vectors = np.eye(40)[truth_K] + noise * rng.standard_normal((len(truth_K), 40))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T, truth_K


def held(clients: int, images: int) -> list[edits.Held]:
    labels = np.arange(images) % edits.NUM_CLASSES
    return [(np.full((images, 1, 2, 2), client, np.uint8), labels) for client in range(clients)]


def test_study_has_31_kinds_with_groups_and_9_without():
    families = Counter(kind.family for kind in KINDS.values())
    assert set(families) == set(FAMILIES)
    assert (len(KINDS) - families["none"], families["none"]) == (31, 9)
    assert len({path_of(Path(), name, 0) for name in EVERY}) == len(EVERY), "a file each"


@pytest.mark.parametrize("edit", [edits.rotated(SIZES), edits.flipped(SIZES), edits.swapped(SIZES)])
def test_edits_deal_groups_of_the_given_sizes(edit: edits.Edit):
    changed_K, groups_K = edit(np.random.default_rng(0), held(11, 20), np.zeros(11, np.int64))
    assert sorted(Counter(groups_K.tolist()).values(), reverse=True) == list(SIZES)
    assert [len(labels) for _, labels in changed_K] == [20] * 11


def test_thinned_clients_keep_a_share_of_their_images():
    changed_K, _ = edits.thinned(0.3)(np.random.default_rng(0), held(50, 100), np.zeros(50, np.int64))
    counts = [len(labels) for _, labels in changed_K]
    assert 30 <= min(counts) < 40
    assert 90 < max(counts) <= 100


def test_images_of_other_classes_go():
    changed_K, _ = edits.of_classes(3)(np.random.default_rng(0), held(4, 20), np.zeros(4, np.int64))
    assert [sorted(set(labels.tolist())) for _, labels in changed_K] == [[0, 1, 2]] * 4
    assert [len(images) for images, _ in changed_K] == [6] * 4


def test_silhouettes_are_those_of_scikit_learn():
    cosines_KK, _ = cosines_of_groups(SIZES, 0.3)
    labels_K = np.array([0, 0, 0, 1, 1, 1, 2, 0, 1, 1, 1])
    distances_KK = 1.0 - cosines_KK
    np.fill_diagonal(distances_KK, 0.0)
    expected_K = silhouette_samples(distances_KK, labels_K, metric="precomputed")
    assert silhouettes(cosines_KK, labels_K) == pytest.approx(expected_K)
    assert silhouette(cosines_KK, np.zeros(11, np.int64)) == -1.0


def test_cosines_are_pooled_over_the_first_rounds():
    """Cosines 0.5 and 1; the third round is not counted."""
    gram_RKK = np.array([[[4.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert pooled(gram_RKK, 2)[0, 1] == pytest.approx(0.75)


@pytest.mark.parametrize("name", RULES)
def test_rules_find_groups_that_are_far_apart(name: str):
    cosines_KK, truth_K = cosines_of_groups(SIZES, 0.02)
    assert same(RULES[name](cosines_KK), truth_K)


@pytest.mark.parametrize("name", methods(4))
def test_methods_take_a_stored_federation(name: str):
    cosines_KK, truth_K = cosines_of_groups((4, 4, 4), 0.02)
    trunk = Trunk("swapped 10/10", 0, 1, np.array([cosines_KK] * 5), truth_K, np.full(12, 9))
    assert methods(4)[name](trunk).shape == (12,)


def test_federation_is_trained_once(tmp_path: Path):
    store(tmp_path, "rotated 18/2", 0, 1)
    path = path_of(tmp_path, "rotated 18/2", 0)
    written = path.stat().st_mtime_ns
    store(tmp_path, "rotated 18/2", 0, 1)
    trunk = load(tmp_path, "rotated 18/2", 0)
    assert path.stat().st_mtime_ns == written
    assert trunk.gram_RKK.shape == (1, 20, 20)
    assert sorted(Counter(trunk.truth_K.tolist()).values()) == [2, 18]
    assert trunk.images_K.min() > 0


def test_groups_are_tighter_than_rotated_clients_and_noise_is_not():
    cosines_KK, truth_K = cosines_of_groups((6, 5, 4), 0.02)
    assert evidence.score(cosines_KK, truth_K, np.random.default_rng(0)) > 10
    noise = np.random.default_rng(1).standard_normal((20, 3)) + 4.0
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosines_KK = noise @ noise.T
    found_K = RULES["Ward, silhouette"](cosines_KK)
    assert evidence.score(cosines_KK, found_K, np.random.default_rng(0)) < 3


def test_tightness_is_what_is_left_within_groups():
    """Squares about the mean 1.5: 2 * 1.5^2 + 2 * 0.5^2 = 5; within 0,1 and 2,3: 4 * 0.25 = 1."""
    vectors = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert evidence.tightness(vectors, np.array([0, 0, 1, 1])) == pytest.approx(np.log(5.0))


def test_groups_become_clusters_when_they_hold_and_are_evident():
    groups_K, other_K = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    rounds = [Found(other_K, 0.9, 9.0), Found(groups_K, 0.9, 9.0), Found(groups_K, 0.4, 9.0)]
    assert same(decided(rounds, 0.3, 3.0), groups_K)
    assert not decided(rounds[:2], 0.3, 3.0).any(), "not those of the round before"
    assert not decided(rounds, 0.5, 3.0).any(), "the silhouette is too small"
    assert not decided(rounds, 0.3, 10.0).any(), "the score is too small"


def test_groups_by_name_only_are_none():
    trunk = Trunk("majority 0.1, 30 clients", 0, 1, np.ones((1, 2, 2)), np.array([0, 1]), np.full(2, 9))
    assert trunk.num_groups == 2
    assert not trunk.has_groups

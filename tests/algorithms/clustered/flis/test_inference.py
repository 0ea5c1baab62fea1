"""Inference similarity: Morafah et al. 2022, section 2."""

import numpy as np
import pytest

from fedgrid.algorithms.clustered.flis.inference import (
    compute_similarities,
    find_components,
    find_distinct_groups,
    find_neighbours,
)

CERTAIN = 30.0


def predictions(*classes, num_classes=3):
    """Return probabilities of all but certain predictions of these classes."""
    logits = CERTAIN * np.eye(num_classes)[list(classes)]
    return (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)


FOUR = [predictions(0, 1, 2, 0), predictions(0, 1, 2, 1), predictions(0, 1, 1, 1), predictions(2, 2, 1, 1)]
"""Of four images, models 0 and 1 agree on three, 0 and 2 on two, 0 and 3 on none, 1 and 3 on one."""
AGREEMENT = np.array([[4, 3, 2, 0], [3, 4, 3, 1], [2, 3, 4, 2], [0, 1, 2, 4]]) / 4


def test_agreement_of_hard_labels_is_the_share_of_equal_predictions():
    assert compute_similarities(FOUR, "hard", "agreement").tolist() == AGREEMENT.tolist()


def test_printed_formula_is_the_root_of_equal_predictions_over_the_number_of_images():
    np.testing.assert_allclose(compute_similarities(FOUR, "hard", "printed"), np.sqrt(AGREEMENT * 4) / 4)


@pytest.mark.parametrize("num_images", [4, 7, 2500])
def test_model_is_as_itself_by_agreement_and_far_from_it_as_printed(num_images):
    """2500 images: 0.02."""
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.ones(3), num_images).astype(np.float32)
    for labels in ("hard", "soft"):
        assert compute_similarities([model, model], labels, "agreement")[0].tolist() == [1.0, 1.0]
    assert compute_similarities([model], "hard", "printed")[0, 0] == pytest.approx(num_images**-0.5)


@pytest.mark.parametrize("similarity", ["agreement", "printed"])
def test_soft_labels_of_certain_models_are_hard_ones(similarity):
    soft, hard = (compute_similarities(FOUR, labels, similarity) for labels in ("soft", "hard"))
    np.testing.assert_allclose(soft, hard, atol=1e-6)


def test_soft_labels_by_hand():
    """One image: (1, 0) and (0.6, 0.8): the cosine is 0.6."""
    found = compute_similarities([np.array([[1.0, 0.0]]), np.array([[0.6, 0.8]])], "soft", "agreement")
    np.testing.assert_allclose(found, [[1, 0.6], [0.6, 1]])


class TestFigure1:
    """The paper's Figure 1: clients 1, 2 and 3 agree, client 4 does not."""

    SIMILAR = np.array([[1, 0.9, 0.8, 0.1], [0.9, 1, 0.85, 0.2], [0.8, 0.85, 1, 0.1], [0.1, 0.2, 0.1, 1]])

    def test_three_clients_share_a_cluster_and_the_fourth_is_alone(self):
        joined = find_neighbours(self.SIMILAR, 0.8)
        groups, owners = find_distinct_groups(joined, [1, 2, 3, 4])
        assert groups == [[1, 2, 3], [4]]
        assert owners.tolist() == [0, 0, 0, 1]

    def test_clusters_overlap_where_similarity_is_not_transitive(self):
        """At 0.85 client 2 is joined with 1 and 3, who are not joined with each other."""
        groups, _ = find_distinct_groups(find_neighbours(self.SIMILAR, 0.85), [1, 2, 3, 4])
        assert groups == [[1, 2], [1, 2, 3], [2, 3], [4]]
        assert find_components(find_neighbours(self.SIMILAR, 0.85)).tolist() == [0, 0, 0, 1]


def test_constant_models_are_alike_whatever_their_data():
    """They predict one class: similarity 1, as in the paper's method."""
    constant = [predictions(1, 1, 1), predictions(1, 1, 1)]
    assert compute_similarities(constant, "hard", "agreement").min() == 1.0

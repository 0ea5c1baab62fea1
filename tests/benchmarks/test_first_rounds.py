"""The first rounds of a scenario, and a file of some images."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.first_rounds import (
    MAX_ROUNDS,
    ROUNDS_AFTER_RISE,
    build_plateau,
    compare_states,
    compute_temperatures,
    is_enough,
    list_views,
)
from benchmarks.groups.stored import Round, SharedPrefix
from benchmarks.plateau import draw_plateaus, find_first_rise, write_rows
from benchmarks.some_images import draw_images
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.tracking.papers.shared.paper import read_csv_rows


def rounds_with(*cosines):
    """Return rounds of two clients whose updates of length 2 have these cosines."""
    return [Round((0, 1), np.array([[4.0, 4.0 * c], [4.0 * c, 4.0]]), np.zeros((2, 2))) for c in cosines]


def test_temperature_of_two_clients_is_half_their_cosine_distance():
    assert np.allclose(compute_temperatures(rounds_with(1.0, 0.5, 0.0)), [0.0, 0.25, 0.5])


def test_whole_states_have_a_temperature_of_their_own_where_a_model_has_buffers():
    parameters, states = rounds_with(0.0, 1.0)
    both = [Round((0, 1), parameters.gram_MM, np.zeros((2, 2)), states.gram_MM)]
    assert np.allclose(compute_temperatures(both), [0.5])
    assert np.allclose(compute_temperatures(compare_states(both)), [0.0])
    assert compare_states([parameters]) == [parameters]
    truth_K = np.zeros(2, np.int64)
    assert list(list_views(SharedPrefix(truth_K, 0, both))) == [", parameters", ", states"]
    assert list(list_views(SharedPrefix(truth_K, 0, [parameters]))) == [""]


def test_training_goes_on_until_the_temperature_over_states_has_risen_too():
    risen = [0.5, 0.6, 0.4, 0.3, 0.2]
    parameters, states = rounds_with(*risen), rounds_with(*[0.1 + 0.01 * number for number in range(5)])
    both = [
        Round((0, 1), one.gram_MM, np.zeros((2, 2)), other.gram_MM)
        for one, other in zip(parameters, states, strict=True)
    ]
    assert is_enough(parameters)
    assert not is_enough(both)
    assert is_enough(both, limit=5)


def test_first_rise_is_the_first_round_above_the_one_before():
    assert find_first_rise([0.4, 0.3, 0.3, 0.35, 0.2, 0.3]) == 4
    assert find_first_rise([0.4, 0.3]) is None


def test_training_goes_on_for_two_rounds_after_the_rise_and_ends_without_one():
    falling = [0.1 + 0.01 * number for number in range(MAX_ROUNDS)]
    assert not is_enough(rounds_with(*falling[:-1]))
    assert is_enough(rounds_with(*falling))
    risen = [0.5, 0.6, 0.4, 0.3, 0.2]
    assert not is_enough(rounds_with(*risen[: 3 + ROUNDS_AFTER_RISE - 1]))
    assert is_enough(rounds_with(*risen[: 3 + ROUNDS_AFTER_RISE]))


def test_loss_on_the_plateau_is_the_entropy_of_the_groups_classes(tmp_path: Path):
    """Two clients have two classes alike, the third has one class; on the plateau losses are ln 2 and 0."""
    counts_KL, truth_K = np.array([[3, 1], [1, 3], [0, 4]]), np.array([0, 0, 1])
    losses = (np.log(2), np.log(2), 0.0), (np.log(2) - 0.2, np.log(2) - 0.4, 0.0)
    fits = [np.column_stack([loss_K, (0.5, 0.7, 1.0)]) for loss_K in losses]
    gram_KK = np.eye(3)
    prefix = SharedPrefix(
        truth_K, 0, [Round((0, 1, 2), gram_KK, gram_KK, None, fit) for fit in fits], counts_KL
    )
    run = complete_config({"dataset": "digits", "clients": 3, "split": {"kind": "iid"}}, tmp_path)
    plateau = build_plateau(run, prefix)
    assert plateau.shares_GL.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert np.allclose(plateau.above_entropy_R, [0.0, -0.2])
    assert np.allclose(plateau.average_by_group(plateau.accuracy_RK), [[0.6, 1.0]] * 2)

    write_rows(tmp_path / "rows.csv", [replace(plateau, temperature_R=[0.3, 0.4])])
    rows = read_csv_rows(tmp_path / "rows.csv")
    assert [row["above_entropy"] for row in rows] == ["0.0000", "-0.2000"]
    (axes,) = draw_plateaus(rows).axes
    assert "2" in [text.get_text() for text in axes.texts]


def test_drawn_images_are_some_of_the_set_with_their_labels_each_time():
    images = np.arange(5 * 3 * 2 * 2, dtype=np.uint8).reshape(5, 3, 2, 2)
    held = ImageSet(images, np.arange(5), None)
    once, again = draw_images(held, 3, "train"), draw_images(held, 3, "train")
    assert once["train_images"].shape == (3, 2, 2, 3)
    for image, label in zip(once["train_images"], once["train_labels"], strict=True):
        assert (np.moveaxis(image, -1, 0) == images[label]).all()
    assert (once["train_labels"] == again["train_labels"]).all()

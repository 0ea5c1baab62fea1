"""Trusted distance between models."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.trusted import layers, symmetric_trusted_distances, trusted_distances
from fedgrid.algorithms.updates.source import Layout
from tests.helpers.small_cases import frozen, rng


def layout_of(num_parameters, **tensors):
    """Return the layout of these flat tensors; `fc_bias` is the tensor `fc.bias`."""
    names = tuple(name.replace("_", ".") for name in tensors)
    return Layout(names, tuple((size,) for size in tensors.values()), num_parameters)


TWO_LAYERS = layout_of(4, conv_weight=2, fc_weight=2)
A, B = frozen([3, 4, 0, 2]), frozen([6, 8, 0, 4])


def test_two_layers_by_hand():
    """Layers of norms 5 and 2 against 10 and 4; they differ by 5 and 2.

    T(a, b) = (1 + 5/5) (1 + 2/2) - 1 = 3; T(b, a) = (1 + 5/10) (1 + 2/4) - 1 = 1.25.
    """
    np.testing.assert_allclose(trusted_distances([A, B], TWO_LAYERS), [[0, 3], [1.25, 0]], rtol=1e-6)


def test_the_symmetric_distance_is_the_geometric_mean_of_both_bounds():
    """sqrt(4 * 2.25) - 1 = 2."""
    distances_KK = symmetric_trusted_distances([A, B], TWO_LAYERS)
    np.testing.assert_allclose(distances_KK, [[0, 2], [2, 0]], rtol=1e-6)


def test_distance_does_not_depend_on_the_order_of_the_clients():
    models = [frozen(vector) for vector in rng().standard_normal((5, 4))]
    order = [3, 0, 4, 1, 2]
    np.testing.assert_allclose(
        symmetric_trusted_distances([models[index] for index in order], TWO_LAYERS),
        symmetric_trusted_distances(models, TWO_LAYERS)[np.ix_(order, order)],
        rtol=1e-5,
    )


def test_a_layer_is_the_parameters_of_a_module_and_buffers_are_none():
    layout = layout_of(
        14, conv_weight=6, conv_bias=2, bn_weight=2, bn_bias=2, fc_weight=2, bn_mean=2, bn_counter=1
    )
    assert list(layers(layout)) == [slice(0, 8), slice(8, 12), slice(12, 14)]


def test_buffers_do_not_count_in_the_distance():
    layout = layout_of(2, bn_weight=1, bn_bias=1, bn_mean=1)
    distances_KK = trusted_distances([frozen([1, 0, 5]), frozen([1, 0, -900])], layout)
    assert not distances_KK.any()


def test_a_bias_that_is_nearly_zero_does_not_explode():
    """Kernels of norm 10 that differ by 1.04, biases of norms 1e-6 and 0.1.

    The kernel alone has T = 0.104, and each of the two as a layer 1.104 (1 + 0.1 / 1e-6) - 1 = 1.1e5.
    Fused, sqrt(1.04^2 + 0.1^2) / 10 = 0.1045.
    """
    a, b = frozen([10, 0, 1e-6]), frozen([10, 1.04, 0.1])
    fused_KK = trusted_distances([a, b], layout_of(3, fc_weight=2, fc_bias=1))
    assert fused_KK[0, 1] == pytest.approx(0.10448, rel=1e-4)
    assert fused_KK[1, 0] == pytest.approx(0.10448 / (1 + 0.104**2 + 0.01**2) ** 0.5, rel=1e-3)


def test_a_layer_counts_as_a_tenth_of_the_others_at_least():
    """A module of norm 1e-6 against one of norm 0.1: 0.1 / 0.01 = 10 instead of 1e5, and 1 back.

    With the other layer's 0.104: 1.104 * 11 - 1 and (1 + 1.04 / |b|) * 2 - 1, |b| = sqrt(100 + 1.04^2).
    """
    a, b = frozen([10, 0, 1e-6]), frozen([10, 1.04, 0.1])
    distances_KK = trusted_distances([a, b], layout_of(3, fc_weight=2, scale_weight=1))
    assert distances_KK[0, 1] == pytest.approx(1.104 * 11 - 1, rel=1e-4)
    assert distances_KK[1, 0] == pytest.approx((1 + 1.04 / 10.05394) * 2 - 1, rel=1e-4)


def test_distance_of_zero_layers_by_hand():
    """Zero against zero is no difference; zero against anything is ten times its own size."""
    models = [frozen([1, 0]), frozen([1, 0]), frozen([1, 7])]
    distances_KK = trusted_distances(models, layout_of(2, conv_weight=1, fc_weight=1))
    np.testing.assert_allclose(distances_KK, [[0, 0, 10], [0, 0, 10], [1, 1, 0]])


def test_deep_models_stay_finite():
    """400 layers of ratio 10 would be 11^400: both directions stop where exponentials do."""
    layout = Layout(tuple(f"{index}.weight" for index in range(400)), ((1,),) * 400, 400)
    models = [frozen(np.zeros(400)), frozen(np.ones(400)), frozen(np.full(400, 1.001))]
    distances_KK = trusted_distances(models, layout)
    assert np.isfinite(distances_KK).all()
    assert distances_KK[0, 1] > 1e300
    assert distances_KK[1, 2] == pytest.approx(1.001**400 - 1, rel=1e-3)


def test_distance_of_long_models_agrees_with_float64():
    """Streamed float32 products agree with the formula in float64, for models that are close."""
    random = rng()
    common = random.standard_normal(90_000)
    models = [frozen(common + 1e-3 * random.standard_normal(90_000)) for _ in range(3)]
    layout = layout_of(90_000, conv_weight=70_000, fc_weight=15_000, fc_bias=5_000)
    expected_KK = np.ones((3, 3))
    for where in (slice(70_000), slice(70_000, 90_000)):
        parts = [model[where].astype(np.float64) for model in models]
        expected_KK *= [[1 + np.linalg.norm(a - b) / np.linalg.norm(a) for b in parts] for a in parts]
    np.testing.assert_allclose(trusted_distances(models, layout), expected_KK - 1, rtol=1e-5)

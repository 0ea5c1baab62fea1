"""MNIST-1D: series of 40 numbers, ten shapes like digits, each moved, stretched, tilted and hidden in noise.

A series is made from its class' template of 12 values: standardised, moved to begin at 0, a sixth as high.
36 to 60 zeros follow it, and all are stretched to 72 places; its height is scaled by 0.8 to 1.2; it is moved
to the right by 0 to 47 places, round the end; where no template is, white noise of deviation 0.25, smoothed
by a Gaussian of deviation 2, replaces it; white noise of deviation 0.02 is added everywhere, and a line that
falls by -0.375 to 0.375; 40 places of the 72 are left. Values between places are interpolated linearly. Last,
the data are given mean 0 and deviation 1. There are 500 series of a class.

Source: Greydanus, Kobak, Scaling Down Deep Learning with MNIST-1D, ICML 2024; constants and templates as in
https://github.com/greydanus/mnist1d (Apache-2.0), whose README has the accuracies 32 % (logistic regression),
68 % (perceptron), 94 % (convolutions) and 91 % (GRU). The random numbers are ours: other series than in its
file, of the same distribution.

Shapes: L classes, N series, T places, V values.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.seeds import make_generator

TEMPLATES = (
    (5, 6, 6.5, 6.75, 7, 7, 7, 7, 6.75, 6.5, 6, 5),
    (5, 3, 3, 3.4, 3.8, 4.2, 4.6, 5, 5.4, 5.8, 5, 5),
    (5, 6, 6.5, 6.5, 6, 5.25, 4.75, 4, 3.5, 3.5, 4, 5),
    (5, 6, 6.5, 6.5, 6, 5, 5, 6, 6.5, 6.5, 6, 5),
    (5, 4.4, 3.8, 3.2, 2.6, 2.6, 5, 5, 5, 5, 5, 5),
    (5, 3, 3, 3, 3, 5, 6, 6.5, 6.5, 6, 4.5, 5),
    (5, 4, 3.5, 3.25, 3, 3, 3, 3, 3.25, 3.5, 4, 5),
    (5, 7, 7, 6.6, 6.2, 5.8, 5.4, 5, 4.6, 4.2, 5, 5),
    (5, 4, 3.5, 3.5, 4, 5, 5, 4, 3.5, 3.5, 4, 5),
    (5, 4, 3.5, 3.5, 4, 5, 5, 5, 5, 4.7, 4.3, 5),
)
"""Twelve heights of each of the ten shapes."""
PLACES, LENGTH = 72, 40
LEAST_PADDING, MOST_PADDING = 36, 60
MOST_MOVED = 47
CORRELATED_NOISE, SMOOTHING, WHITE_NOISE = 0.25, 2, 0.02
MOST_TILT = 0.375
SERIES = 5000

Floats = NDArray[np.float64]


def draw_mnist1d() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw the series, shape (N, 40), and their classes, 0 to 9, in random order."""
    rng = make_generator(0, "MNIST-1D")
    labels_N = rng.permutation(np.arange(SERIES) % len(TEMPLATES))
    # The order of the draws below is part of the data set: labels, shapes, correlated noise, white noise,
    # tilts.
    drawn_NT, is_drawn_NT = _draw_shapes(_scale_templates()[labels_N], rng)
    noise_NT = _draw_white_noise(CORRELATED_NOISE, rng)
    # Imported here, as most runs do without.
    from scipy.ndimage import gaussian_filter1d

    noisy_NT = np.where(is_drawn_NT, drawn_NT, gaussian_filter1d(noise_NT, SMOOTHING)) + _draw_white_noise(
        WHITE_NOISE, rng
    )
    tilts_N = rng.uniform(-MOST_TILT, MOST_TILT, (SERIES, 1))
    tilted_NT = noisy_NT - tilts_N * np.linspace(-0.5, 0.5, PLACES)
    series_NT = _interpolate_rows(
        tilted_NT, np.broadcast_to(np.linspace(0, PLACES - 1, LENGTH), (SERIES, LENGTH))
    )
    standard_NT = (series_NT - series_NT.mean()) / series_NT.std()
    return standard_NT.astype(np.float32), labels_N


def _scale_templates() -> Floats:
    """Scale the templates: standardised, moved to begin at 0, a sixth as high; shape (L, V)."""
    raw = np.array(TEMPLATES)
    standard = (raw - raw.mean(axis=1, keepdims=True)) / raw.std(axis=1, keepdims=True)
    templates_LV: Floats = (standard - standard[:, :1]) / 6
    return templates_LV


def _draw_shapes(templates_NV: Floats, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Draw the series without noise, and mark the places that belong to the template, both of shape (N, T).

    Args:
        templates_NV: the 12 values of each series' template.
        rng: draws padding, scale and shift of each series.
    """
    count, width = templates_NV.shape
    padding_N = rng.integers(LEAST_PADDING, MOST_PADDING + 1, (count, 1))
    scale_N = rng.uniform(0.8, 1.2, (count, 1))
    moved_N = rng.integers(0, MOST_MOVED + 1, (count, 1))
    place_NT = (np.arange(PLACES) - moved_N) % PLACES
    position_NT = place_NT * (width + padding_N - 1) / (PLACES - 1)
    # Padded by the most zeros for all; how many of them a series uses is in its positions.
    padded = np.pad(templates_NV, ((0, 0), (0, MOST_PADDING)))
    return scale_N * _interpolate_rows(padded, position_NT), position_NT < width


def _draw_white_noise(deviation: float, rng: np.random.Generator) -> Floats:
    """Draw white noise, shape (N, T)."""
    return deviation * rng.standard_normal((SERIES, PLACES))


def _interpolate_rows(values_NV: Floats, position_NP: Floats) -> Floats:
    """Interpolate each row linearly at some positions between 0 and V-1."""
    # The last position is interpolated from the last pair of values, so that `left + 1` exists.
    left = np.minimum(position_NP.astype(np.int64), values_NV.shape[1] - 2)
    share = position_NP - left
    rows = np.arange(len(values_NV))[:, None]
    values_NP: Floats = (1 - share) * values_NV[rows, left] + share * values_NV[rows, left + 1]
    return values_NP

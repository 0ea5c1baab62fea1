"""Encoders: sizes of the paper's, codes and images as decoded."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.encoder import EncoderSettings, choose_kind
from fedgrid.engine.federation.encoders.encoder import (
    COMPONENTS,
    MEAN,
    STATE,
    Encoder,
    decode_codes,
    encode_images,
    fit_components,
    format_model_name,
)
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector, read_layout

GREY, COLOUR, DIGIT = (1, 28, 28), (3, 32, 32), (1, 8, 8)


def images_of(shape, count=5):
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def drawn(kind, shape):
    """Return an encoder that is not trained."""
    return Encoder(
        kind, shape, {STATE: draw_initial_vector(format_model_name(kind), image_inputs(*shape), 1, seed=0)}
    )


@pytest.mark.parametrize(
    ("kind", "shape", "parameters"),
    [
        ("dense", GREY, 81_304),  # 784-50-20-50-784: 785 * 50 + 51 * 20 + 21 * 50 + 51 * 784
        ("convolutional", COLOUR, 47_601),
        ("dense", DIGIT, 65 * 50 + 51 * 20 + 21 * 50 + 51 * 64),
    ],
)
def test_number_of_parameters_is_the_papers(kind, shape, parameters):
    assert (
        read_layout(build_blank(format_model_name(kind), image_inputs(*shape), 1)).num_parameters
        == parameters
    )


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        ("dense", GREY, 20),
        ("convolutional", COLOUR, 768),
        ("convolutional", (3, 64, 64), 3072),
        ("convolutional", GREY, 768),  # padded to 32 x 32
        ("convolutional", DIGIT, 48),
    ],
)
def test_codes_have_the_papers_size_and_decode_to_the_images_shape(kind, shape, size):
    encoder = drawn(kind, shape)
    codes = encode_images(encoder, images_of(shape))
    assert codes.shape == (5, size)
    assert encoder.code_size == size
    decoded = decode_codes(encoder, codes)
    assert decoded.shape == (5, *shape)
    assert ((decoded >= 0) & (decoded <= 1)).all()


def test_clients_need_the_encoder_alone():
    # 785 * 50 + 51 * 20; weights, biases, and BatchNorm's four numbers a channel with a counter a layer
    assert drawn("dense", GREY).num_bytes == 4 * 40_270
    kernels = 16 * (3 * 12 + 12 * 24 + 24 * 48)
    assert drawn("convolutional", COLOUR).num_bytes == 4 * (kernels + 84 + 4 * 84 + 3)


def test_grey_images_have_the_dense_encoder_by_default():
    settings = EncoderSettings(federated=1)
    assert choose_kind(settings, GREY) == "dense"
    assert choose_kind(settings, COLOUR) == "convolutional"
    assert choose_kind(EncoderSettings(name="pixels"), COLOUR) == "pixels"


def test_pixels_are_their_own_codes():
    encoder, images = Encoder("pixels", DIGIT, {}), images_of(DIGIT)
    codes = encode_images(encoder, images)
    np.testing.assert_array_equal(codes, (images / np.float32(255)).reshape(5, 64))
    np.testing.assert_array_equal(decode_codes(encoder, codes), images / np.float32(255))
    assert encoder.num_bytes == 0


def test_principal_components_are_scikit_learns():
    from sklearn.decomposition import PCA

    images = images_of(DIGIT, 30)
    arrays = fit_components(images, 4)
    reference = PCA(4, svd_solver="full").fit(images.reshape(30, -1) / 255)
    signs = np.sign((reference.components_ * arrays[COMPONENTS]).sum(axis=1))
    np.testing.assert_allclose(arrays[COMPONENTS], reference.components_ * signs[:, None], atol=1e-5)
    np.testing.assert_allclose(arrays[MEAN], reference.mean_, atol=1e-6)
    encoder = Encoder("pca", DIGIT, fit_components(images, 29))
    np.testing.assert_allclose(decode_codes(encoder, encode_images(encoder, images)), images / 255, atol=1e-4)

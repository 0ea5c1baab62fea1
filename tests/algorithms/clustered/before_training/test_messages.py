"""What clients say before training: class means, styles."""

import numpy as np
import pytest
import torch

from fedgrid.algorithms.clustered.before_training.class_means import (
    BITS,
    VECTOR,
    ClassMeans,
    flip_bits,
    read_vector,
    round_to_bits,
    scale_vector,
)
from fedgrid.algorithms.clustered.before_training.ladd import Styles, compute_styles


def rng(seed=0):
    return np.random.default_rng(seed)


def quantised(vector, flip, rng):
    return flip_bits(round_to_bits(scale_vector(vector), rng), flip, rng)


def test_without_flips_it_is_rounding():
    assert quantised(np.array([-1.0, 3.0, 0.9, 1.1]), 0.0, rng()).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("flip", [0.0, 0.1, 0.5])
def test_share_of_flipped_bits_is_the_probability(flip):
    bits = round_to_bits(rng(1).random(10_000), rng(2))
    share = (flip_bits(bits, flip, rng(3)) != bits).mean()
    assert abs(share - flip) <= 4 * np.sqrt(flip * (1 - flip) / 10_000)


def test_draws_after_a_vector_do_not_depend_on_it():
    one, other = rng(), rng()
    quantised(np.array([0.0, 0.5, 1.0]), 0.1, one)
    quantised(np.array([0.0, 0.1, 1.0]), 0.1, other)
    assert one.random() == other.random()


CODES = torch.tensor([[0.0, 4.0], [2.0, 8.0], [5.0, 1.0]])
LABELS = torch.tensor([0, 0, 1])
"""Means: class 0 has (1, 6), class 1 has (5, 1)."""


def said(message, codes=CODES, labels=LABELS, num_classes=2, seed=0):
    return message.describe(codes, labels, num_classes, np.random.default_rng(seed))


def test_whole_vector_is_scaled_or_each_class():
    """(1, 6, 5, 1) over 1..6 rounds to 0 1 1 0; with a third class (5.5, 6) each class gives 0 1."""
    codes, labels = torch.cat([CODES, torch.tensor([[5.5, 6.0]])]), torch.tensor([0, 0, 1, 2])
    whole = read_vector(said(ClassMeans(flip=0.0, normalise="vector"), codes, labels, 3))
    apart = read_vector(said(ClassMeans(flip=0.0), codes, labels, 3))
    assert whole[:6].tolist() == [0, 1, 1, 0, 1, 1]
    assert apart[:6].tolist() == [0, 1, 1, 0, 0, 1]


def test_means_are_sent_as_they_are_without_quantisation():
    assert said(ClassMeans(quantise=False))[VECTOR].tolist() == [1, 6, 5, 1]


def test_missing_class_is_fair_coins_of_the_same_length():
    """1,000 classes of 8 entries, of which the client has one."""
    codes = torch.arange(8.0)[None]
    bits = read_vector(said(ClassMeans(flip=0.0), codes, torch.tensor([0]), 1_000))
    assert len(bits) == 8_000
    assert abs(bits[8:].mean() - 0.5) < 4 * 0.5 / np.sqrt(7_992)


def test_missing_class_lies_in_the_range_of_the_others_without_quantisation():
    vector = said(ClassMeans(quantise=False), num_classes=50)[VECTOR]
    assert vector.min() == 1
    assert vector.max() == 6


@pytest.mark.parametrize(
    ("size", "classes", "num_bytes"), [(20, 10, 25), (768, 10, 960), (20, 62, 155), (3072, 7, 2688)]
)
def test_messages_have_the_papers_sizes(size, classes, num_bytes):
    codes = torch.zeros(1, size)
    assert said(ClassMeans(), codes, torch.tensor([0]), classes)[BITS].nbytes == num_bytes


def test_each_client_draws_its_budget():
    """With budgets 0 and 0.5 some clients' bits are those without flips, others' are not."""
    codes, labels = torch.rand(10, 40), torch.arange(10)
    plain = [said(ClassMeans(flip=0.0), codes, labels, 10, seed)[BITS] for seed in range(20)]
    mixed = [said(ClassMeans(flip=(0.0, 0.5)), codes, labels, 10, seed)[BITS] for seed in range(20)]
    same = sum(one.tobytes() == other.tobytes() for one, other in zip(plain, mixed, strict=True))
    assert 2 < same < 18


@pytest.mark.parametrize(
    ("shape", "classes", "entries"),
    [((1, 28, 28), 10, 250), ((3, 32, 32), 10, 1_470), ((1, 28, 28), 62, 1_550), ((3, 64, 64), 7, 3_549)],
)
def test_styles_have_the_papers_sizes(shape, classes, entries):
    images = torch.zeros(1, *shape, dtype=torch.uint8)
    assert said(Styles(), images, torch.tensor([0]), classes)[VECTOR].shape == (entries,)


def test_style_of_a_flat_image_is_its_mean_alone():
    """A grey 8 x 8 image of value 51 / 255 = 0.2 has amplitude 64 * 0.2 at frequency zero, and no other."""
    found = compute_styles(torch.full((1, 1, 8, 8), 51, dtype=torch.uint8), 0.2)
    expected = np.zeros(9)
    expected[4] = 64 * 0.2
    np.testing.assert_allclose(found[0], expected, atol=1e-5)


def test_style_does_not_see_where_things_are():
    """The amplitudes are the same for an image moved around its edges, and for one turned by 180 degrees."""
    image = torch.randint(0, 256, (1, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    moved, turned = image.roll((2, 3), (2, 3)), image.flip(2, 3)
    np.testing.assert_allclose(compute_styles(moved, 0.3), compute_styles(image, 0.3), atol=1e-4)
    np.testing.assert_allclose(compute_styles(turned, 0.3), compute_styles(image, 0.3), atol=1e-4)


def test_one_style_a_client():
    images = torch.stack(
        [torch.full((1, 8, 8), 51, dtype=torch.uint8), torch.zeros(1, 8, 8, dtype=torch.uint8)]
    )
    found = said(Styles(share=0.1, per_class=False), images, torch.tensor([0, 1]))[VECTOR]
    np.testing.assert_allclose(found, [32 * 0.2], rtol=1e-6)


def test_with_flips_of_one_half_the_data_have_no_effect():
    """The bits of two vectors are both fair coins: their shares of ones and of agreement are 1/2."""
    ones = quantised(np.r_[0.0, np.ones(9_999)], 0.5, rng(1))
    assert abs(ones.mean() - 0.5) < 4 * 0.5 / 100

"""Data sets made by code: what their sources say of them."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedgrid.engine.federation.data.generated import dialects, fedprox, linear_mixture, mnist1d


@pytest.mark.parametrize(
    ("make", "dtype", "shape", "num_classes", "num_groups", "sizes"),
    [
        (partial(fedprox.synthetic, 1.0, 1.0), np.float32, (60,), 10, 30, (6329, 718)),
        (linear_mixture.linear_mixture, np.float32, (100,), 2, 4, (9600, 2400)),
        (mnist1d.mnist1d, np.float32, (1, 40), 10, None, (4000, 1000)),
        (dialects.dialects, np.int64, (24,), 4, 3, (4500, 1500)),
    ],
)
def test_examples_have_their_type_and_shape_and_are_made_alike_again(
    make, dtype, shape, num_classes, num_groups, sizes
):
    for part, again, size in zip(make(), make(), sizes, strict=True):
        assert (part.images.dtype, part.images.shape, len(part)) == (dtype, (size, *shape), size)
        assert len(np.unique(part.labels)) == num_classes
        assert part.labels.dtype == np.int64
        assert num_groups == (None if part.groups is None else len(np.unique(part.groups)))
        assert len(part.group_names) == (num_groups or 0)
        np.testing.assert_array_equal(part.images, again.images)
        np.testing.assert_array_equal(part.labels, again.labels)


class TestFedProx:
    def test_devices_hold_lognormal_numbers_of_examples_above_fifty(self):
        pool, server = fedprox.synthetic(0, 0)
        sizes_K = np.bincount(np.concatenate([pool.groups, server.groups]))
        assert sizes_K.min() >= 50
        # The logarithm of what is above 50 is N(4, 2): its mean of 30 devices is within 3 * 2 / sqrt(30).
        assert np.log(sizes_K - 49.5).mean() == pytest.approx(4, abs=1.1)
        assert np.bincount(server.groups).tolist() == np.ceil(sizes_K / 10).tolist()

    def test_alpha_changes_no_class_and_beta_moves_inputs(self):
        """u_k is added to all logits: argmax(W x + b) is that of W - u_k and b - u_k."""
        (near, _), (far, _), (other, _) = (
            fedprox.synthetic(0, 1),
            fedprox.synthetic(1, 1),
            fedprox.synthetic(0, 0),
        )
        np.testing.assert_array_equal(near.labels, far.labels)
        means = [[pool.images[pool.groups == k].mean() for k in range(30)] for pool in (near, other)]
        # B_k, plus the mean of 60 numbers of deviation 1.
        assert np.std(means[0]) == pytest.approx(1, abs=0.4)
        assert np.std(means[1]) == pytest.approx(60**-0.5, abs=0.05)

    def test_one_linear_model_for_all_beats_the_largest_class(self):
        pool, server = fedprox.synthetic(0, 0)
        model = LogisticRegression(max_iter=50).fit(pool.images, pool.labels)
        assert (
            model.score(server.images, server.labels) > 0.7 > np.bincount(server.labels).max() / len(server)
        )


def _score(pool, server, of_group, on_group):
    trained, tested = pool.groups == of_group, server.groups == on_group
    model = LogisticRegression(max_iter=50).fit(pool.images[trained], pool.labels[trained])
    return model.score(server.images[tested], server.labels[tested])


def test_linear_mixture_is_learnt_by_a_model_a_group():
    """Vectors at 60 degrees agree in sign on two thirds of all x; the noise turns arctan(0.1) / pi = 3 %."""
    pool, server = linear_mixture.linear_mixture()
    assert _score(pool, server, 0, 0) == pytest.approx(0.968, abs=0.03)
    assert _score(pool, server, 0, 1) == pytest.approx(2 / 3, abs=0.06)


def test_mnist1d_is_as_hard_for_a_linear_model_as_published():
    pool, server = mnist1d.mnist1d()
    model = LogisticRegression(max_iter=50).fit(pool.images[:, 0], pool.labels)
    assert model.score(server.images[:, 0], server.labels) == pytest.approx(0.32, abs=0.03)
    every = np.concatenate([pool.images, server.images])
    assert (every.mean(), every.std()) == pytest.approx((0, 1), abs=1e-5)
    assert np.bincount(np.concatenate([pool.labels, server.labels])).tolist() == [500] * 10


class TestDialects:
    def words(self, part):
        texts = ("".join(dialects.CHARACTERS[token] for token in sentence) for sentence in part.images)
        return [text.strip("_").split() for text in texts]

    def test_half_of_the_verbs_mean_something_else_in_another_dialect(self):
        _, server = dialects.dialects()
        for words, meaning, dialect in zip(self.words(server), server.labels, server.groups, strict=True):
            [verb] = set(words) & {*dialects.TRUE_FRIENDS, *dialects.FALSE_FRIENDS}
            if verb in dialects.TRUE_FRIENDS:
                assert dialects.TRUE_FRIENDS.index(verb) == meaning
            else:
                assert (dialects.FALSE_FRIENDS.index(verb) + dialect) % 4 == meaning

    def test_letters_are_more_frequent_in_some_dialects(self):
        pool, _ = dialects.dialects()
        counts = [
            np.bincount(pool.images[pool.groups == dialect].ravel(), minlength=28) for dialect in range(3)
        ]
        shares = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
        assert np.ptp(shares, axis=0).max() > 0.01

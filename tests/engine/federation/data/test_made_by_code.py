"""Data sets made by code: what their sources say of them."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fedgrid.algorithms.averaging.fedprox import BIBTEX as OF_FEDPROX
from fedgrid.algorithms.clustered.while_training.ifca import BIBTEX as OF_IFCA
from fedgrid.engine.federation.data.generated import dialects, fedprox
from fedgrid.engine.federation.data.made_by_code import MADE_BY_CODE
from fedgrid.engine.runtime.data.datasets import DATASETS, digest_pair, load_dataset

NOWHERE = Path("no-data-needed")


def accuracy(trained, tested):
    """Return that of a linear model, on a set that it was not trained on."""
    model = LinearDiscriminantAnalysis()
    model.fit(trained.images.reshape(len(trained), -1), trained.labels)
    return model.score(tested.images.reshape(len(tested), -1), tested.labels)


def of_group(part, group):
    return part.take(np.flatnonzero(part.groups == group))


@pytest.mark.parametrize("dataset", MADE_BY_CODE, ids=lambda dataset: dataset.name)
def test_data_set_is_what_its_entry_says_and_the_same_again(dataset):
    pool, server = pair = load_dataset(dataset.name, NOWHERE)
    assert digest_pair(pair) == digest_pair(dataset.read(NOWHERE))
    assert len(server) == dataset.test_size
    assert len(pool.group_names) == (dataset.num_groups or 0)
    if dataset.num_groups:
        assert [len(np.unique(part.groups)) for part in pair] == [dataset.num_groups] * 2


class TestFedProx:
    def test_devices_hold_lognormal_numbers_of_examples_above_fifty(self):
        sizes_K = np.array([len(labels) for labels in fedprox.draw_synthetic(0, 0)[1]])
        assert sizes_K.min() >= 50
        # The logarithm of what is above 50 is N(4, 2): its mean of 30 devices is within 3 * 2 / sqrt(30).
        assert np.log(sizes_K - 49.5).mean() == pytest.approx(4, abs=1.1)

    def test_alpha_changes_no_class_and_beta_moves_inputs(self):
        """u_k is added to all logits: argmax(W x + b) is that of W - u_k and b - u_k.

        B_k is the mean of a device's inputs, but for that of 60 numbers of deviation 1.
        """
        (near, classes), (far, same_classes) = fedprox.draw_synthetic(0, 0), fedprox.draw_synthetic(1, 0)
        for pair in (zip(near, far, strict=True), zip(classes, same_classes, strict=True)):
            assert all((one == other).all() for one, other in pair)
        deviations = [np.std([x.mean() for x in fedprox.draw_synthetic(0, beta)[0]]) for beta in (0, 1)]
        assert deviations == pytest.approx([60**-0.5, 1], abs=0.35)

    def test_one_linear_model_for_all_beats_the_largest_class(self):
        pool, server = load_dataset("synthetic-0-0", NOWHERE)
        assert accuracy(pool, server) > 0.7 > np.bincount(server.labels).max() / len(server)


def test_linear_mixture_is_learnt_by_a_model_a_group():
    """Vectors at 60 degrees agree in sign on two thirds of all x; the noise turns arctan(0.1) / pi = 3 %."""
    pool, server = load_dataset("linear-mixture", NOWHERE)
    scores = [accuracy(of_group(pool, 0), of_group(server, group)) for group in (0, 1)]
    assert scores == pytest.approx([0.968, 2 / 3], abs=0.05)


def test_mnist1d_is_as_hard_for_a_linear_model_as_published():
    pool, server = load_dataset("mnist1d", NOWHERE)
    assert accuracy(pool, server) == pytest.approx(0.32, abs=0.03)
    every = np.concatenate([pool.images, server.images])
    assert (every.mean(), every.std()) == pytest.approx((0, 1), abs=1e-5)
    assert np.bincount(np.concatenate([pool.labels, server.labels])).tolist() == [500] * 10


class TestDialects:
    def test_half_of_the_verbs_mean_something_else_in_another_dialect(self):
        for dialect, (sentences, meanings) in enumerate(zip(*dialects.draw_dialects(), strict=True)):
            for tokens, meaning in zip(sentences, meanings, strict=True):
                words = {*"".join(dialects.CHARACTERS[token] for token in tokens).strip("_").split()}
                [verb] = words & {*dialects.TRUE_FRIENDS, *dialects.FALSE_FRIENDS}
                if verb in dialects.TRUE_FRIENDS:
                    assert dialects.TRUE_FRIENDS[meaning] == verb
                else:
                    assert dialects.FALSE_FRIENDS[(meaning - dialect) % 4] == verb

    def test_letters_are_more_frequent_in_some_dialects(self):
        counts = [np.bincount(sentences.ravel(), minlength=28) for sentences in dialects.draw_dialects()[0]]
        assert np.ptp(np.array(counts) / np.sum(counts, axis=1, keepdims=True), axis=0).max() > 0.01


def test_papers_are_cited_as_algorithms_cite_them():
    assert (DATASETS["synthetic-1-1"].bibtex, DATASETS["linear-mixture"].bibtex) == (OF_FEDPROX, OF_IFCA)

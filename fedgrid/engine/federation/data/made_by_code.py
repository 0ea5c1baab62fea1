"""Data sets that code draws, the same for every run: nothing is downloaded.

With `split natural` the hidden groups of the clients are those of the data (devices, dialects).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.generated import dialects, fedprox, linear_mixture, mnist1d
from fedgrid.engine.federation.data.images import ClassLabels, ImageSet, Pair
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.training.settings import Training

# Papers of the data sets, as BibTeX. Algorithms cite the first two, too.
FEDPROX = r"""@inproceedings{li2020federated,
  author = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and
    Smith, Virginia},
  title = {Federated Optimization in Heterogeneous Networks},
  booktitle = {Proceedings of Machine Learning and Systems (MLSys)},
  year = {2020},
  eprint = {1812.06127},
  archiveprefix = {arXiv}
}"""
IFCA = r"""@inproceedings{ghosh2020efficient,
  author = {Ghosh, Avishek and Chung, Jichan and Yin, Dong and Ramchandran, Kannan},
  title = {An Efficient Framework for Clustered Federated Learning},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020},
  eprint = {2006.04088},
  archiveprefix = {arXiv}
}"""
MNIST1D = r"""@inproceedings{greydanus2024scaling,
  author = {Greydanus, Sam and Kobak, Dmitry},
  title = {Scaling Down Deep Learning with {MNIST-1D}},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning (ICML)},
  year = {2024},
  eprint = {2011.14439},
  archiveprefix = {arXiv}
}"""
MIT = "MIT, as fedgrid"
"""Licence of what fedgrid's own code draws."""
POOL_OF_MNIST1D = 4000
"""Number of training series, as in its release; the other thousand are the server's."""


def _separate_tests(
    drawn: tuple[Sequence[NDArray[Any]], Sequence[ClassLabels]],
    group_kind: str,
    test_share: float,
    vocabulary: int = 0,
) -> Pair:
    """Separate the server's test set from the pool: the last `test_share` of each group, rounded up.

    Args:
        drawn: the examples of each group, and the classes of each group.
        group_kind: what a group is, as `device`; its number follows in the group's name.
        test_share: share of each group's examples in the test set.
        vocabulary: number of different tokens. Default: 0, the examples are no tokens.
    """
    images, labels = drawn
    sizes = [len(group_labels) for group_labels in labels]
    is_test = np.concatenate([np.arange(size) >= int((1 - test_share) * size) for size in sizes])
    all_examples = ImageSet(
        np.concatenate(images),
        np.concatenate(labels),
        np.repeat(np.arange(len(sizes)), sizes),
        tuple(f"{group_kind} {group}" for group in range(len(sizes))),
        vocabulary,
    )
    return all_examples.take(np.flatnonzero(~is_test)), all_examples.take(np.flatnonzero(is_test))


def _read_mnist1d() -> Pair:
    """Draw MNIST-1D and give its series a channel, shape (N, 1, 40)."""
    series_NT, labels_N = mnist1d.draw_mnist1d()
    all_series = ImageSet(series_NT[:, None], labels_N)
    return all_series.take(slice(None, POOL_OF_MNIST1D)), all_series.take(slice(POOL_OF_MNIST1D, None))


def _build_synthetic(alpha: float, beta: float) -> Dataset:
    """Describe FedProx's data for one (alpha, beta); training as in the paper, but 30 rounds, not 200."""
    return Dataset(
        f"synthetic-{alpha:g}-{beta:g}",
        f"synthetic({alpha:g}, {beta:g})",
        "made by code, after FedProx; its 30 devices are natural groups; a tenth of each is test",
        num_classes=fedprox.CLASSES,
        inputs=Inputs("numbers", (fedprox.INPUTS,)),
        pool_size=6329,
        test_size=718,
        model="linear",
        training=Training(rounds=30, local_epochs=20, batch_size=10, optimizer="sgd", learning_rate=0.01),
        # There is no file: the path is ignored.
        read=lambda _: _separate_tests(fedprox.draw_synthetic(alpha, beta), "device", 0.1),
        num_groups=fedprox.DEVICES,
        bibtex=FEDPROX,
        licence=MIT,
    )


MADE_BY_CODE = (
    *(_build_synthetic(alpha, beta) for alpha, beta in ((0, 0), (0.5, 0.5), (1, 1))),
    Dataset(
        "linear-mixture",
        "linear mixture",
        "made by code, after IFCA's regressions, with the sign as class; they are natural groups",
        num_classes=2,
        inputs=Inputs("numbers", (linear_mixture.INPUTS,)),
        pool_size=9600,
        test_size=2400,
        model="linear",
        training=Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1),
        read=lambda _: _separate_tests(linear_mixture.draw_linear_mixture(), "theta", 0.2),
        num_groups=linear_mixture.GROUPS,
        bibtex=IFCA,
        licence=MIT,
    ),
    Dataset(
        "mnist1d",
        "MNIST-1D",
        "made by code, after github.com/greydanus/mnist1d",
        num_classes=10,
        inputs=Inputs("numbers", (1, mnist1d.LENGTH)),
        pool_size=POOL_OF_MNIST1D,
        test_size=1000,
        model="cnn-1d",
        training=Training(rounds=40, batch_size=32, optimizer="sgd", learning_rate=0.1, momentum=0.9),
        read=lambda _: _read_mnist1d(),
        bibtex=MNIST1D,
        licence=f"{MIT}; its templates have the Apache License 2.0",
    ),
    Dataset(
        "dialects",
        "dialects",
        "ours: sentences of a small grammar; three dialects are natural groups",
        num_classes=dialects.MEANINGS,
        inputs=Inputs("tokens", (dialects.LENGTH,), len(dialects.CHARACTERS)),
        pool_size=4500,
        test_size=1500,
        model="lstm",
        training=Training(rounds=10, batch_size=32, optimizer="adam", learning_rate=0.01),
        read=lambda _: _separate_tests(dialects.draw_dialects(), "dialect", 0.25, len(dialects.CHARACTERS)),
        num_groups=dialects.DIALECTS,
        licence=MIT,
    ),
)
"""The entries, in the order of listings."""

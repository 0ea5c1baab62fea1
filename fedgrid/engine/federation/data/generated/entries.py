"""The data sets made by code, for the registry."""

from fedgrid.algorithms.averaging.fedprox import BIBTEX as FEDPROX
from fedgrid.algorithms.clustered.while_training.ifca import BIBTEX as IFCA
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.generated import dialects, fedprox, linear_mixture, mnist1d
from fedgrid.engine.federation.data.inputs import Inputs
from fedgrid.engine.federation.training.settings import Training

MNIST1D = r"""@inproceedings{greydanus2024scaling,
  author = {Greydanus, Sam and Kobak, Dmitry},
  title = {Scaling Down Deep Learning with {MNIST-1D}},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning (ICML)},
  year = {2024},
  eprint = {2011.14439},
  archiveprefix = {arXiv}
}"""


def _synthetic(alpha: float, beta: float) -> Dataset:
    """Return FedProx's data with its training, but for fewer rounds: it has 200."""
    return Dataset(
        f"synthetic-{alpha:g}-{beta:g}",
        f"synthetic({alpha:g}, {beta:g})",
        "made by code, after FedProx; its 30 devices are natural groups, a tenth of each is test",
        num_classes=fedprox.CLASSES,
        inputs=Inputs("numbers", (fedprox.INPUTS,)),
        pool_size=6329,
        model="linear",
        training=Training(rounds=30, local_epochs=20, batch_size=10, optimizer="sgd", learning_rate=0.01),
        read=lambda _: fedprox.synthetic(alpha, beta),
        num_groups=fedprox.DEVICES,
        bibtex=FEDPROX,
    )


GENERATED = (
    *(_synthetic(alpha, beta) for alpha, beta in ((0, 0), (0.5, 0.5), (1, 1))),
    Dataset(
        "linear-mixture",
        "linear mixture",
        "made by code, after IFCA's synthetic regressions, with the sign as class; they are natural groups",
        num_classes=2,
        inputs=Inputs("numbers", (linear_mixture.INPUTS,)),
        pool_size=9600,
        model="linear",
        training=Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1),
        read=lambda _: linear_mixture.linear_mixture(),
        num_groups=linear_mixture.GROUPS,
        bibtex=IFCA,
    ),
    Dataset(
        "mnist1d",
        "MNIST-1D",
        "made by code, after github.com/greydanus/mnist1d",
        num_classes=10,
        inputs=Inputs("numbers", (1, mnist1d.LENGTH)),
        pool_size=mnist1d.POOL,
        model="cnn-1d",
        training=Training(rounds=30, batch_size=32, optimizer="sgd", learning_rate=0.02, momentum=0.9),
        read=lambda _: mnist1d.mnist1d(),
        bibtex=MNIST1D,
    ),
    Dataset(
        "dialects",
        "dialects",
        "ours: sentences of a small grammar; three dialects are natural groups",
        num_classes=dialects.MEANINGS,
        inputs=Inputs("tokens", (dialects.LENGTH,), len(dialects.CHARACTERS)),
        pool_size=4500,
        model="lstm",
        training=Training(rounds=10, batch_size=32, optimizer="adam", learning_rate=0.01),
        read=lambda _: dialects.dialects(),
        num_groups=dialects.DIALECTS,
    ),
)
"""In the order of listings."""

"""Registry entries of algorithms with one model for all, and the values of the setting `local`."""

from fedgrid.algorithms.averaging import fednova, fedopt, fedprox, scaffold
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS

FEDOPT_SOURCE = "Reddi et al. 2021, arXiv:2003.00295"
FEDOPT_BIBTEX = r"""@inproceedings{mcmahan2017communication,
  author = {McMahan, H. Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\"u}era y
    Arcas, Blaise},
  title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  booktitle = {Proceedings of the 20th International Conference on Artificial Intelligence and Statistics
    (AISTATS)},
  year = {2017},
  eprint = {1602.05629},
  archiveprefix = {arXiv}
}

@inproceedings{reddi2021adaptive,
  author = {Reddi, Sashank J. and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush,
    Keith and Kone{\v{c}}n{\'y}, Jakub and Kumar, Sanjiv and McMahan, H. Brendan},
  title = {Adaptive Federated Optimization},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021},
  eprint = {2003.00295},
  archiveprefix = {arXiv}
}"""
_FEDAVGM = r"""@misc{hsu2019measuring,
  author = {Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew},
  title = {Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification},
  year = {2019},
  eprint = {1909.06335},
  archiveprefix = {arXiv}
}"""
BIBTEX_OF_OPTIMIZER = {
    "momentum": _FEDAVGM,
    **dict.fromkeys(("adagrad", "adam", "yogi"), FEDOPT_BIBTEX),
}
"""Server optimizer -> BibTeX of the paper that proposed it."""

LOCAL_METHODS |= {
    "fedprox": fedprox.ProximalTraining,
    "fednova": fednova.NormalisedTraining,
    "scaffold": scaffold.ControlledTraining,
}

FEDAVG = AlgorithmEntry(
    "fedavg",
    "BNC",
    "one model for all: fedopt.FedOpt, the baseline",
    FEDOPT_SOURCE,
    fedopt.FedOpt,
    fedopt.FedOptSettings(),
    bibtex=FEDOPT_BIBTEX,
    arena={},
)

ENTRIES = (
    AlgorithmEntry(
        "fedprox",
        "FedProx",
        "one model for all; local training is pulled back to it",
        "Li et al. 2020, arXiv:1812.06127",
        fedprox.FedProx,
        fedprox.FedProxSettings(),
        bibtex=fedprox.BIBTEX,
        search={"mu": {"low": 0.001, "high": 1.0, "log": True}},
        arena={"mu": 0.01},
    ),
    AlgorithmEntry(
        "scaffold",
        "SCAFFOLD",
        "one model for all; control variates correct the clients' drift",
        "Karimireddy et al. 2020, arXiv:1910.06378",
        scaffold.Scaffold,
        scaffold.ScaffoldSettings(),
        bibtex=scaffold.BIBTEX,
        arena={},
    ),
    AlgorithmEntry(
        "fednova",
        "FedNova",
        "one model for all; updates count the same, however many steps they took",
        "Wang et al. 2020, arXiv:2007.07481",
        fednova.FedNova,
        fednova.FedNovaSettings(),
        bibtex=fednova.BIBTEX,
        search={"mu": {"low": 0.0, "high": 0.1}},
        arena={},
    ),
)

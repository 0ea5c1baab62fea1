"""One model for all, however it is trained, in the registry; and what the setting `local` may name."""

from fedgrid.algorithms.averaging import fednova, fedopt_papers, fedprox, scaffold
from fedgrid.algorithms.averaging.control_variates import ControlledTraining
from fedgrid.algorithms.averaging.fednova import FedNova, FedNovaSettings, NormalisedTraining
from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.averaging.fedprox import FedProx, FedProxSettings, ProximalTraining
from fedgrid.algorithms.averaging.scaffold import Scaffold, ScaffoldSettings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS

LOCAL_METHODS |= {"fedprox": ProximalTraining, "fednova": NormalisedTraining, "scaffold": ControlledTraining}

FEDAVG = AlgorithmEntry(
    "fedavg",
    "BNC",
    "one model for all: FedOpt, the baseline",
    fedopt_papers.SOURCE,
    FedOpt,
    FedOptSettings(),
    bibtex=fedopt_papers.BIBTEX,
    arena={},
)

ENTRIES = (
    AlgorithmEntry(
        "fedprox",
        "FedProx",
        "one model for all; local training is pulled back to it",
        "Li et al. 2020, arXiv:1812.06127",
        FedProx,
        FedProxSettings(),
        bibtex=fedprox.BIBTEX,
        search={"mu": {"low": 0.001, "high": 1.0, "log": True}},
        arena={"mu": 0.01},
    ),
    AlgorithmEntry(
        "scaffold",
        "SCAFFOLD",
        "one model for all; control variates correct the clients' drift",
        "Karimireddy et al. 2020, arXiv:1910.06378",
        Scaffold,
        ScaffoldSettings(),
        bibtex=scaffold.BIBTEX,
        arena={},
    ),
    AlgorithmEntry(
        "fednova",
        "FedNova",
        "one model for all; updates count the same, however many steps they took",
        "Wang et al. 2020, arXiv:2007.07481",
        FedNova,
        FedNovaSettings(),
        bibtex=fednova.BIBTEX,
        search={"mu": {"low": 0.0, "high": 0.1}},
        arena={},
    ),
)

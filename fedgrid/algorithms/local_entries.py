"""The entries of algorithms that train by a rule of their own, and the methods that `local` may name."""

from fedgrid.algorithms.averaging import fednova, fedprox, scaffold
from fedgrid.algorithms.averaging.control_variates import ControlledTraining
from fedgrid.algorithms.averaging.fednova import FedNova, FedNovaSettings, NormalisedTraining
from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.averaging.fedprox import FedProx, FedProxSettings, ProximalTraining
from fedgrid.algorithms.averaging.scaffold import Scaffold, ScaffoldSettings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.personalised import lg_fedavg, per_fedavg
from fedgrid.algorithms.personalised.lg_fedavg import LgFedAvg, LgFedAvgSettings
from fedgrid.algorithms.personalised.per_fedavg import PerFedAvg, PerFedAvgSettings

FINE_TUNED_BIBTEX = r"""@misc{yu2020salvaging,
  author = {Yu, Tao and Bagdasaryan, Eugene and Shmatikov, Vitaly},
  title = {Salvaging Federated Learning by Local Adaptation},
  year = {2020},
  eprint = {2002.04758},
  archiveprefix = {arXiv}
}"""

LOCAL_METHODS |= {"fedprox": ProximalTraining, "fednova": NormalisedTraining, "scaffold": ControlledTraining}

LOCAL_ENTRIES = (
    AlgorithmEntry(
        "fedprox",
        "FedProx",
        "one model for all; local training is pulled back to it",
        "Li et al. 2020, arXiv:1812.06127",
        FedProx,
        FedProxSettings(),
        bibtex=fedprox.BIBTEX,
    ),
    AlgorithmEntry(
        "scaffold",
        "SCAFFOLD",
        "one model for all; control variates correct the clients' drift",
        "Karimireddy et al. 2020, arXiv:1910.06378",
        Scaffold,
        ScaffoldSettings(),
        bibtex=scaffold.BIBTEX,
    ),
    AlgorithmEntry(
        "fednova",
        "FedNova",
        "one model for all; updates count the same, however many steps they took",
        "Wang et al. 2020, arXiv:2007.07481",
        FedNova,
        FedNovaSettings(),
        bibtex=fednova.BIBTEX,
    ),
    AlgorithmEntry(
        "lg-fedavg",
        "LG-FedAvg",
        "shares the last layers; each client keeps the others",
        "Liang et al. 2020, arXiv:2001.01523",
        LgFedAvg,
        LgFedAvgSettings(),
        bibtex=lg_fedavg.BIBTEX,
    ),
    AlgorithmEntry(
        "fine-tuned",
        "FedAvg-FT",
        "one model for all, which each client fine-tunes before the test",
        "Yu et al. 2020, arXiv:2002.04758",
        FedOpt,
        FedOptSettings(fine_tune=45),
        bibtex=FINE_TUNED_BIBTEX,
    ),
    AlgorithmEntry(
        "per-fedavg",
        "Per-FedAvg",
        "one model for all, which each client adapts in a few steps before the test",
        "Fallah et al. 2020, arXiv:2002.07948",
        PerFedAvg,
        PerFedAvgSettings(),
        bibtex=per_fedavg.BIBTEX,
    ),
)

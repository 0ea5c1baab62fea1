"""Registry entries of personalised algorithms."""

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.personalised import lg_fedavg, per_fedavg

FINE_TUNED_BIBTEX = r"""@misc{yu2020salvaging,
  author = {Yu, Tao and Bagdasaryan, Eugene and Shmatikov, Vitaly},
  title = {Salvaging Federated Learning by Local Adaptation},
  year = {2020},
  eprint = {2002.04758},
  archiveprefix = {arXiv}
}"""


ENTRIES = (
    AlgorithmEntry(
        "lg-fedavg",
        "LG-FedAvg",
        "shares the last layers; each client keeps the others",
        "Liang et al. 2020, arXiv:2001.01523",
        lg_fedavg.LgFedAvg,
        lg_fedavg.LgFedAvgSettings(),
        bibtex=lg_fedavg.BIBTEX,
        search=lambda rounds: {
            "shared": [1, 2],
            "warmup_rounds": {"low": 0, "high": max(1, rounds * 6 // 10)},
        },
        arena={},
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
        per_fedavg.PerFedAvg,
        per_fedavg.PerFedAvgSettings(),
        bibtex=per_fedavg.BIBTEX,
        search={
            "alpha": {"low": 0.001, "high": 0.5, "log": True},
            "variant": ["first-order", "hessian-free"],
        },
        arena={},
    ),
)

"""Registry entries of FLIS."""

from fedgrid.algorithms.clustered.flis import dynamic, hierarchical
from fedgrid.algorithms.contract.entry import AlgorithmEntry

BIBTEX = r"""@misc{morafah2022flis,
  author = {Morafah, Mahdi and Vahidian, Saeed and Wang, Weijia and Lin, Bill},
  title = {{FLIS}: Clustered Federated Learning via Inference Similarity for Non-{IID} Data Distribution},
  year = {2022},
  eprint = {2208.09754},
  archiveprefix = {arXiv}
}"""

SOURCE = "Morafah et al. 2022, arXiv:2208.09754"

ENTRIES = (
    AlgorithmEntry(
        "flis-dc",
        "FLIS-DC",
        "overlapping clusters in each round, of models that predict alike; clients choose one",
        SOURCE,
        dynamic.FlisDc,
        dynamic.FlisDcSettings(),
        bibtex=BIBTEX,
        search={"beta": {"low": 0.1, "high": 0.9}, "labels": ["hard", "soft"]},
        arena={"beta": 0.3},
    ),
    AlgorithmEntry(
        "flis-hc",
        "FLIS-HC",
        "clusters once, in round 1, by the predictions of all clients' models",
        SOURCE,
        hierarchical.FlisHc,
        hierarchical.FlisHcSettings(),
        bibtex=BIBTEX,
        search={"threshold": {"low": 0.1, "high": 0.9}, "labels": ["hard", "soft"]},
        arena={},
    ),
    AlgorithmEntry(
        "flis-dc-as-published",
        "FLIS-DC as published",
        "clients choose by accuracy on their test images; models that agree on 96 % are joined",
        SOURCE,
        dynamic.FlisDc,
        dynamic.FlisDcSettings(
            always_joined=0.96, choose_on="test", choose_by="accuracy", similarity_over="state"
        ),
        bibtex=BIBTEX,
        search={"beta": {"low": 0.1, "high": 0.9}, "labels": ["hard", "soft"]},
    ),
    AlgorithmEntry(
        "flis-hc-as-published",
        "FLIS-HC as published",
        "no clusters: means over all clients that agree on 96 %, whether they have taken part or not",
        SOURCE,
        hierarchical.FlisHc,
        hierarchical.FlisHcSettings(variant="neighbours", similarity_over="state"),
        bibtex=BIBTEX,
        search={"threshold": {"low": 0.1, "high": 0.9}, "labels": ["hard", "soft"]},
    ),
)

"""The entries of all algorithms of the package, in the order in which lists show them."""

from fedgrid.algorithms.averaging import entries as averaging
from fedgrid.algorithms.averaging.fedopt import FedOptSettings
from fedgrid.algorithms.clustered.before_training import entries as before_training
from fedgrid.algorithms.clustered.flis import entries as flis
from fedgrid.algorithms.clustered.while_training import entries as while_training
from fedgrid.algorithms.contract.base import Settings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.personalised import entries as personalised
from fedgrid.algorithms.references import Oracle, Solo

REFERENCES = (
    AlgorithmEntry(
        "solo",
        "SOLO",
        "reference: each client trains alone, and sends nothing",
        "no federation",
        Solo,
        Settings(),
        is_reference=True,
        arena={},
    ),
    AlgorithmEntry(
        "oracle",
        "ORACLE",
        "reference: one model for each hidden group from round 1; no server knows the groups",
        averaging.FEDOPT_SOURCE,
        Oracle,
        FedOptSettings(),
        is_reference=True,
        bibtex=averaging.FEDOPT_BIBTEX,
        arena={},
        told="groups",
    ),
)

ENTRIES = sorted(
    (
        averaging.FEDAVG,
        *while_training.ENTRIES,
        *flis.ENTRIES,
        *before_training.ENTRIES,
        *averaging.ENTRIES,
        *personalised.ENTRIES,
        *REFERENCES,
    ),
    # Versions as published stand at the end of every list.
    key=lambda entry: entry.name.endswith("-as-published"),
)

NAMES_IN_PAPERS = {
    **{entry.title.lower(): entry.name for entry in ENTRIES},
    **dict.fromkeys(("fedopt", "fed-avg", "avg"), "fedavg"),
    **dict.fromkeys(("cfl", "clustered-fl"), "sattler"),
    **dict.fromkeys(("fl+hc", "flhc"), "briggs"),
    **dict.fromkeys(("ocfl", "one-shot"), "ocfl-hdbscan"),
    **dict.fromkeys(("local", "local-only", "standalone"), "solo"),
    "prigent": "embeddings",
}
"""Name of an algorithm in papers, in small letters -> its name here, for messages."""

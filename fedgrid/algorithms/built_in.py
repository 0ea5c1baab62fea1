"""Every algorithm of the package. Adding one is a module and an entry here, or in `local_entries.py`."""

from fedgrid.algorithms.averaging import fedopt_papers
from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.clustered.before_training.entries import EMBEDDINGS, EMBEDDINGS_AS_PUBLISHED
from fedgrid.algorithms.clustered.flis.entries import FLIS, FLIS_AS_PUBLISHED
from fedgrid.algorithms.clustered.while_training import briggs, communities, ifca, ocfl, sattler
from fedgrid.algorithms.clustered.while_training.briggs import (
    Briggs,
    BriggsAsPublished,
    BriggsAsPublishedSettings,
    BriggsSettings,
)
from fedgrid.algorithms.clustered.while_training.communities import CommunitiesSettings, Leiden, Louvain
from fedgrid.algorithms.clustered.while_training.evident_groups import EvidentGroups, EvidentGroupsSettings
from fedgrid.algorithms.clustered.while_training.ifca import Ifca, IfcaSettings
from fedgrid.algorithms.clustered.while_training.ocfl import Ocfl, OcflSettings
from fedgrid.algorithms.clustered.while_training.sattler import (
    Sattler,
    SattlerAsPublished,
    SattlerAsPublishedSettings,
    SattlerSettings,
)
from fedgrid.algorithms.clustering.clusterers import (
    HDBSCAN,
    AffinityAsPublished,
    AffinityPropagation,
    Clusterer,
    HDBSCANAsPublished,
    KMeans,
    MeanShift,
)
from fedgrid.algorithms.contract.base import Settings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.local_entries import LOCAL_ENTRIES
from fedgrid.algorithms.references import Oracle, Solo

FEDOPT_SOURCE = "Reddi et al. 2021, arXiv:2003.00295"
SATTLER_SOURCE = "Sattler et al. 2021, arXiv:1910.01991"
BRIGGS_SOURCE = "Briggs et al. 2020, arXiv:2004.11791"
COMMUNITIES_SOURCE = "Bettinelli et al. 2024"
OCFL_SOURCE = "Zuziak et al. 2025, arXiv:2509.01587"


def _ocfl(name: str, title: str, summary: str, settings: OcflSettings) -> AlgorithmEntry:
    return AlgorithmEntry(name, title, summary, OCFL_SOURCE, Ocfl, settings, bibtex=ocfl.BIBTEX)


def _ocfl_as_published(clusterer: Clusterer) -> OcflSettings:
    return OcflSettings(
        clusterer=clusterer, noise="residual", unclustered_consumes_shot=True, similarity_over="state"
    )


ENTRIES = (
    AlgorithmEntry(
        "fedavg",
        "BNC",
        "one model for all: FedOpt, the baseline",
        FEDOPT_SOURCE,
        FedOpt,
        FedOptSettings(),
        bibtex=fedopt_papers.BIBTEX,
    ),
    AlgorithmEntry(
        "sattler",
        "SCL",
        "splits a cluster when its mean update vanishes but its members' updates do not",
        SATTLER_SOURCE,
        Sattler,
        SattlerSettings(),
        bibtex=sattler.BIBTEX,
    ),
    AlgorithmEntry(
        "briggs",
        "BCL",
        "agglomerative clustering, once, in a fixed round",
        BRIGGS_SOURCE,
        Briggs,
        BriggsSettings(),
        bibtex=briggs.BIBTEX,
    ),
    _ocfl(
        "ocfl-kmeans",
        "OCFL-KM",
        "clusters once, at the temperature's rise: k-means",
        OcflSettings(clusterer=KMeans()),
    ),
    _ocfl(
        "ocfl-affinity",
        "OCFL-AFF",
        "clusters once, at the temperature's rise: affinity propagation",
        OcflSettings(clusterer=AffinityPropagation()),
    ),
    _ocfl(
        "ocfl-meanshift",
        "OCFL-MS",
        "clusters once, at the temperature's rise: mean-shift",
        OcflSettings(clusterer=MeanShift()),
    ),
    _ocfl(
        "ocfl-hdbscan",
        "OCFL-HDB",
        "clusters once, at the temperature's rise: HDBSCAN",
        OcflSettings(clusterer=HDBSCAN()),
    ),
    AlgorithmEntry(
        "louvain",
        "Louvain",
        "communities of models each round: Louvain; a higher resolution gives more of them",
        COMMUNITIES_SOURCE,
        Louvain,
        CommunitiesSettings(),
        bibtex=communities.BIBTEX,
    ),
    AlgorithmEntry(
        "leiden",
        "Leiden",
        "communities of models each round: Leiden; a higher resolution gives more of them",
        COMMUNITIES_SOURCE,
        Leiden,
        CommunitiesSettings(),
        bibtex=communities.BIBTEX,
    ),
    *LOCAL_ENTRIES,
    AlgorithmEntry(
        "evident-groups",
        "Evident groups",
        "clusters once a test says that there are groups; clients fine-tune what they are served",
        "docs/our-algorithm.md",
        EvidentGroups,
        EvidentGroupsSettings(fine_tune=45),
    ),
    AlgorithmEntry(
        "ifca",
        "IFCA",
        "num_clusters models; each client trains the one that fits its data best, each round",
        "Ghosh et al. 2020, arXiv:2006.04088",
        Ifca,
        IfcaSettings(),
        bibtex=ifca.BIBTEX,
    ),
    *FLIS,
    *EMBEDDINGS,
    AlgorithmEntry(
        "solo",
        "SOLO",
        "reference: each client trains alone, and sends nothing",
        "no federation",
        Solo,
        Settings(),
        is_reference=True,
    ),
    AlgorithmEntry(
        "oracle",
        "ORACLE",
        "reference: one model for each hidden group from round 1; no server knows the groups",
        FEDOPT_SOURCE,
        Oracle,
        FedOptSettings(),
        is_reference=True,
        bibtex=fedopt_papers.BIBTEX,
    ),
    AlgorithmEntry(
        "sattler-as-published",
        "SCL as published",
        "complete linkage, norms over the whole state, first split in round 22",
        SATTLER_SOURCE,
        SattlerAsPublished,
        SattlerAsPublishedSettings(),
        bibtex=sattler.BIBTEX,
    ),
    AlgorithmEntry(
        "briggs-as-published",
        "BCL as published",
        "similarities in place of distances: merges dissimilar clients",
        BRIGGS_SOURCE,
        BriggsAsPublished,
        BriggsAsPublishedSettings(),
        bibtex=briggs.BIBTEX,
    ),
    _ocfl(
        "ocfl-affinity-as-published",
        "OCFL-AFF as published",
        "distances in place of similarities: mixes members of clusters",
        _ocfl_as_published(AffinityAsPublished()),
    ),
    _ocfl(
        "ocfl-hdbscan-as-published",
        "OCFL-HDB as published",
        "scikit-learn's HDBSCAN; all noise clients are one cluster",
        _ocfl_as_published(HDBSCANAsPublished()),
    ),
    *FLIS_AS_PUBLISHED,
    *EMBEDDINGS_AS_PUBLISHED,
)

ALSO_CALLED = {
    **{entry.title.lower(): entry.name for entry in ENTRIES},
    **dict.fromkeys(("fedopt", "fed-avg", "avg"), "fedavg"),
    **dict.fromkeys(("cfl", "clustered-fl"), "sattler"),
    **dict.fromkeys(("fl+hc", "flhc"), "briggs"),
    **dict.fromkeys(("ocfl", "one-shot"), "ocfl-hdbscan"),
    **dict.fromkeys(("local", "local-only", "standalone"), "solo"),
    "prigent": "embeddings",
}
"""What papers and tables call algorithms, in small letters -> name here, for messages."""

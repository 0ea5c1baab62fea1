"""Registry entries of algorithms that cluster by what clients send while they train."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fedgrid.algorithms.clustered.while_training import (
    briggs,
    communities,
    evident_groups,
    ifca,
    ocfl,
    sattler,
    ward_reference,
)
from fedgrid.algorithms.clustering import clusterers
from fedgrid.algorithms.contract.entry import AlgorithmEntry, SearchSpace, TruthKind, choose_clustering_rounds

SATTLER_SOURCE = "Sattler et al. 2021, arXiv:1910.01991"
BRIGGS_SOURCE = "Briggs et al. 2020, arXiv:2004.11791"
COMMUNITIES_SOURCE = "Bettinelli et al. 2024"
OCFL_SOURCE = "Zuziak et al. 2025, arXiv:2509.01587"

SHARES = {"epsilon_1_share": {"low": 0.3, "high": 0.9}, "epsilon_2_share": {"low": 0.05, "high": 0.6}}
"""Search space of SCL, in shares of the run's own norms."""
EPSILONS = {
    "epsilon_1": {"low": 0.05, "high": 2.0, "log": True},
    "epsilon_2": {"low": 0.1, "high": 5.0, "log": True},
}
"""Search space of SCL as published. Norms, here of networks of the size of MNIST's, whose updates have norms
around 1. ResNets need a file."""
COMMUNITIES = {
    "resolution": {"low": 0.5, "high": 2.0},
    "exponent": [1.0, 2.0, 3.0, 5.0],
    "attribution": ["avg", "1nn", "wnn"],
}
"""Search space of the community algorithms."""
MIN_SHARE = {"clusterer.min_cluster_share": {"low": 0.1, "high": 0.4}}
"""Search space of the clusterers with a smallest cluster."""


def _build_sattler_space(epsilons: SearchSpace, rounds: int) -> SearchSpace:
    """Build the search space of SCL for this number of rounds."""
    return {**epsilons, "cooldown": choose_clustering_rounds(rounds), "linkage": ["single", "complete"]}


def _build_briggs_space(linkages: SearchSpace, rounds: int) -> SearchSpace:
    """Build the search space of BCL for this number of rounds."""
    when = choose_clustering_rounds(rounds)
    return {
        # The order of the keys is part of a search: its trials are drawn in it.
        "threshold": {"low": 0.05, "high": 1.0},
        **linkages,
        "round": {**when, "low": when["low"] + 1, "high": when["high"] + 1},
    }


def _build_ocfl_entry(
    name: str,
    title: str,
    summary: str,
    settings: ocfl.OcflSettings,
    clusterer_space: SearchSpace,
    arena: Mapping[str, Any] | None = None,
    truth: TruthKind = "",
) -> AlgorithmEntry:
    """Build the entry of OCFL with a clusterer.

    Args:
        name: name of the entry.
        title: name in papers.
        summary: one line.
        settings: the defaults, with the clusterer.
        clusterer_space: search space of the clusterer, in addition to the window.
        arena: settings with which it is in the arena; None: it is not in it.
        truth: knowledge of the hidden groups.
    """
    return AlgorithmEntry(
        name,
        title,
        summary,
        OCFL_SOURCE,
        ocfl.Ocfl,
        settings,
        # Longer windows would leave too few rounds after the clustering.
        search=lambda rounds: {"window": {"low": 1, "high": max(2, rounds // 5)}, **clusterer_space},
        bibtex=ocfl.BIBTEX,
        arena=arena,
        told=truth,
    )


def _build_published_settings(clusterer: clusterers.Clusterer) -> ocfl.OcflSettings:
    """Build OCFL's settings as in the archived runs."""
    return ocfl.OcflSettings(
        clusterer=clusterer, noise="residual", unclustered_consumes_shot=True, similarity_over="state"
    )


ENTRIES = (
    AlgorithmEntry(
        "sattler",
        "SCL",
        "splits a cluster when its mean update vanishes but its members' updates do not",
        SATTLER_SOURCE,
        sattler.Sattler,
        sattler.SattlerSettings(),
        bibtex=sattler.BIBTEX,
        search=partial(_build_sattler_space, SHARES),
        arena={},
    ),
    AlgorithmEntry(
        "briggs",
        "BCL",
        "agglomerative clustering, once, in a fixed round",
        BRIGGS_SOURCE,
        briggs.Briggs,
        briggs.BriggsSettings(),
        bibtex=briggs.BIBTEX,
        search=partial(_build_briggs_space, {"linkage": ["average", "complete", "single"]}),
        arena={"round": 6, "threshold": 0.4},
    ),
    _build_ocfl_entry(
        "ocfl-kmeans",
        "OCFL-KM",
        "clusters once, at the temperature's rise: k-means",
        ocfl.OcflSettings(clusterer=clusterers.KMeans()),
        {},
        arena={},
        truth="number",
    ),
    _build_ocfl_entry(
        "ocfl-affinity",
        "OCFL-AFF",
        "clusters once, at the temperature's rise: affinity propagation",
        ocfl.OcflSettings(clusterer=clusterers.AffinityPropagation()),
        {"clusterer.damping": {"low": 0.5, "high": 0.95}},
        arena={},
    ),
    _build_ocfl_entry(
        "ocfl-meanshift",
        "OCFL-MS",
        "clusters once, at the temperature's rise: mean-shift",
        ocfl.OcflSettings(clusterer=clusterers.MeanShift()),
        {},
        arena={},
    ),
    _build_ocfl_entry(
        "ocfl-hdbscan",
        "OCFL-HDB",
        "clusters once, at the temperature's rise: HDBSCAN",
        ocfl.OcflSettings(clusterer=clusterers.HDBSCAN()),
        MIN_SHARE,
        arena={},
    ),
    AlgorithmEntry(
        "evident-groups",
        "Evident groups",
        "clusters once a test says that there are groups; clients fine-tune what they are served",
        "docs/our-algorithm.md",
        evident_groups.EvidentGroups,
        evident_groups.EvidentGroupsSettings(fine_tune=45),
        search=lambda rounds: {
            "evidence": {"low": 4.0, "high": 16.0},
            "window": {"low": 2, "high": max(3, rounds * 6 // 10)},
        },
        arena={},
    ),
    AlgorithmEntry(
        "louvain",
        "Louvain",
        "communities of models each round: Louvain; a higher resolution gives more of them",
        COMMUNITIES_SOURCE,
        communities.Louvain,
        communities.CommunitiesSettings(),
        bibtex=communities.BIBTEX,
        search=COMMUNITIES,
        arena={},
    ),
    AlgorithmEntry(
        "leiden",
        "Leiden",
        "communities of models each round: Leiden; a higher resolution gives more of them",
        COMMUNITIES_SOURCE,
        communities.Leiden,
        communities.CommunitiesSettings(),
        bibtex=communities.BIBTEX,
        search=COMMUNITIES,
        arena={},
    ),
    AlgorithmEntry(
        "ifca",
        "IFCA",
        "num_clusters models; each client trains the one that fits its data best, each round",
        "Ghosh et al. 2020, arXiv:2006.04088",
        ifca.Ifca,
        ifca.IfcaSettings(),
        bibtex=ifca.BIBTEX,
        search={"start": ["fresh", "deal", "rejection"]},
        arena={"num_clusters": 3},
        told="number",
    ),
    AlgorithmEntry(
        "ward-told",
        "Ward told k",
        "reference: clusters once, in a fixed round, into num_clusters: Ward's tree on standardised updates",
        "docs/our-algorithm.md",
        ward_reference.WardReference,
        ward_reference.WardReferenceSettings(),
        is_reference=True,
        arena={},
        told="number",
    ),
    AlgorithmEntry(
        "sattler-as-published",
        "SCL as published",
        "complete linkage, norms over the whole state, first split in round 22",
        SATTLER_SOURCE,
        sattler.SattlerAsPublished,
        sattler.SattlerAsPublishedSettings(),
        bibtex=sattler.BIBTEX,
        search=partial(_build_sattler_space, EPSILONS),
    ),
    AlgorithmEntry(
        "briggs-as-published",
        "BCL as published",
        "similarities in place of distances: merges dissimilar clients",
        BRIGGS_SOURCE,
        briggs.BriggsAsPublished,
        briggs.BriggsAsPublishedSettings(),
        bibtex=briggs.BIBTEX,
        search=partial(_build_briggs_space, {}),
    ),
    _build_ocfl_entry(
        "ocfl-affinity-as-published",
        "OCFL-AFF as published",
        "distances in place of similarities: mixes members of clusters",
        _build_published_settings(clusterers.AffinityAsPublished()),
        {},
    ),
    _build_ocfl_entry(
        "ocfl-hdbscan-as-published",
        "OCFL-HDB as published",
        "scikit-learn's HDBSCAN; all noise clients are one cluster",
        _build_published_settings(clusterers.HDBSCANAsPublished()),
        MIN_SHARE,
    ),
)

"""The algorithms by name."""

import pytest

from fedgrid.algorithms.contract.base import Algorithm
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm

TITLES = {
    "fedavg": "BNC",
    "sattler": "SCL",
    "briggs": "BCL",
    "ocfl-kmeans": "OCFL-KM",
    "ocfl-affinity": "OCFL-AFF",
    "ocfl-meanshift": "OCFL-MS",
    "ocfl-hdbscan": "OCFL-HDB",
}
PUBLISHED = [
    "sattler-as-published",
    "briggs-as-published",
    "ocfl-affinity-as-published",
    "ocfl-hdbscan-as-published",
]


def test_the_papers_algorithms_and_their_titles():
    assert {name: ALGORITHMS[name].title for name in TITLES} == TITLES
    assert set(PUBLISHED) <= set(ALGORITHMS)


def test_every_entry_describes_itself_in_one_line():
    titles = [entry.title for entry in ALGORITHMS.values()]
    assert len(set(titles)) == len(titles)
    for name, entry in ALGORITHMS.items():
        assert entry.name == name
        for text in (entry.title, entry.summary, entry.source):
            assert text.strip() == text != ""
            assert "\n" not in text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_that_knows_something_of_the_hidden_groups_says_so(name):
    """Their number, if a setting needs one; the groups, if the simulation reveals them."""
    entry = ALGORITHMS[name]
    asked = getattr(entry.settings, "clusterer", entry.settings)
    needs_number = getattr(asked, "num_clusters", None) is not None
    takes_groups = entry.algorithm.reveal is not Algorithm.reveal
    assert entry.told == ("groups" if takes_groups else "number" if needs_number else "")
    assert bool(entry.truth_line) == bool(entry.told)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_name_makes_an_algorithm_with_its_defaults(name):
    algorithm = create_algorithm(name, {})
    assert isinstance(algorithm, Algorithm)
    assert vars(algorithm) == {"settings": algorithm.settings}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_similarity_is_over_the_parameters_and_as_published_over_the_state(name):
    # pFedMe compares no updates.
    published = name.endswith("-as-published") and name != "pfedme-as-published"
    over = "state" if published else "parameters"
    assert create_algorithm(name, {}).settings.similarity_over == over
    other = {"state": "parameters", "parameters": "state"}[over]
    assert create_algorithm(name, {"similarity_over": other}).settings.similarity_over == other


def test_the_papers_settings_are_the_defaults():
    kmeans, hdbscan = (
        create_algorithm(name, {}).settings.clusterer for name in ("ocfl-kmeans", "ocfl-hdbscan")
    )
    assert kmeans.num_clusters == 3
    assert hdbscan.min_cluster_share == 0.2
    published = create_algorithm("briggs-as-published", {}).settings
    assert (published.round, published.threshold, published.linkage, published.metric) == (
        21,
        0.05,
        "average",
        "cosine",
    )
    published = create_algorithm("sattler-as-published", {}).settings
    assert (published.epsilon_1, published.epsilon_2, published.cooldown) == (0.35, 0.35, 20)
    assert (published.linkage, published.similarity_over) == ("complete", "state")

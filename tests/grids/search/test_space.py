"""What a search may vary: read, checked against the algorithm's settings, and rounded."""

import pytest
import yaml

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.errors import ConfigError
from fedgrid.grids.presets.yaml_file import Place, YamlFile
from fedgrid.grids.search.built_in import FAMILIES, built_in
from fedgrid.grids.search.space import Choices, Range, nested, read_space


def test_ranges_and_lists():
    given = yaml.safe_load(
        "{threshold: {low: 0.05, high: 1}, round: {low: 2, high: 8, step: 3}, linkage: [single, average]}"
    )
    assert read_space(given, "briggs") == {
        "threshold": Range(0.05, 1),
        "round": Range(2, 8, step=3, whole=True),
        "linkage": Choices(("single", "average")),
    }


def test_a_setting_within_a_setting_has_a_dot():
    space = read_space({"clusterer.min_cluster_share": [0.1, 0.3]}, "ocfl-hdbscan")
    assert nested({"window": 2, "clusterer.min_cluster_share": 0.3}) == {
        "window": 2,
        "clusterer": {"min_cluster_share": 0.3},
    }
    assert list(space) == ["clusterer.min_cluster_share"]


def test_a_setting_that_may_be_nothing():
    assert read_space({"late": [None, 5]}, "louvain") == {"late": Choices((None, 5))}
    assert read_space({"late": {"low": 2, "high": 5}}, "louvain") == {"late": Range(2, 5, whole=True)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "search = 5: expected settings of briggs"),
        ({}, "search = {}: expected settings of briggs"),
        ({"treshold": [0.1]}, "unknown key 'treshold' in search; did you mean 'threshold'? allowed: "),
        ({"clusterer.x": [0.1]}, "unknown key 'clusterer' in search"),
        ({"threshold.x": [0.1]}, "search.threshold.x: threshold has no settings"),
        ({"threshold": 0.4}, "search.threshold = 0.4: expected a list of values, or {low: ..., high: ...}"),
        ({"threshold": []}, "search.threshold = []: expected a list of plain values"),
        ({"threshold": [[0.1]]}, "expected a list of plain values"),
        ({"threshold": [0.1, 0.1]}, "a value stands there twice"),
        ({"threshold": [-0.1]}, "briggs: threshold = -0.1: input should be greater than or equal to 0"),
        ({"threshold": [True]}, "threshold = True: input should be a number, not true or false"),
        ({"linkage": ["avrage"]}, "linkage = 'avrage': input should be 'average', 'complete', "),
        ({"linkage": {"low": 0, "high": 1}}, "search.linkage is not a number: give it a list of values"),
        ({"threshold": {"low": 0.1}}, "search.threshold: high is missing"),
        (
            {"threshold": {"low": 0.1, "hihg": 1}},
            "unknown key 'hihg' in search.threshold; did you mean 'high'?",
        ),
        ({"threshold": {"low": "a", "high": 1}}, "search.threshold.low = 'a': expected a number"),
        ({"threshold": {"low": -1, "high": 1}}, "threshold = -1: input should be greater than or equal to 0"),
        ({"threshold": {"low": 1, "high": 1}}, "low = 1 should be below high = 1"),
        ({"threshold": {"low": 0, "high": 1, "log": True}}, "log is for a low above 0, and without a step"),
        ({"threshold": {"low": 1, "high": 2, "log": "yes"}}, "log = 'yes': expected true or false"),
        ({"threshold": {"low": 0, "high": 1, "step": 2}}, "step = 2: expected more than 0, at most 1"),
        ({"round": {"low": 1.5, "high": 3}}, "search.round.low = 1.5: expected a whole number"),
        ({"round": {"low": 1, "high": 3, "step": 0.5}}, "search.round.step = 0.5: expected a whole number"),
    ],
)
def test_a_slip_is_one_line_that_names_the_key(given, says):
    with pytest.raises(ConfigError) as refused:
        read_space(given, "briggs")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_slip_in_a_file_is_found_by_its_line():
    file = YamlFile("my.yaml", b"algorithm: briggs\nsearch:\n  linkage: [single]\n  treshold: [0.1]\n")
    with pytest.raises(ConfigError, match=r"^my.yaml, line 4: unknown key 'treshold'"):
        read_space(file.values["search"], "briggs", Place(file, ("search",)))


def test_values_that_only_go_with_others_are_left_to_the_trials():
    """Ward wants Euclidean distances, which another setting of the same space may give."""
    read_space({"linkage": ["ward"], "metric": ["euclidean"]}, "briggs")


def test_numbers_are_rounded_within_the_range():
    assert Range(0.05, 2).rounded(0.123456789) == 0.1235
    assert Range(0.12354, 2).rounded(0.12354) == 0.12354
    assert Range(1, 9, whole=True).rounded(3.0) == 3


def test_steps_and_spreads():
    """Half way from 0.01 to 1 by ratios is 0.1; 0.3 is no multiple of 0.2 above 0."""
    assert Range(0, 0.3, step=0.1).steps() == [0, 0.1, 0.2, 0.3]
    assert Range(0, 0.3, step=0.2).steps() == [0, 0.2]
    assert Range(0.01, 1, log=True).spread(3) == [0.01, 0.1, 1]
    assert Range(1, 3, whole=True).spread(5) == [1, 2, 3]


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name.startswith(tuple(FAMILIES))])
@pytest.mark.parametrize("rounds", [2, 15, 50, 80])
def test_built_in_spaces_fit_their_algorithms(name, rounds):
    assert read_space(built_in(name, rounds), name)


def test_the_papers_cooldown_and_round_are_in_the_built_in_spaces():
    """50 rounds: cooldowns 5, 10, ..., 30; rounds 6, 11, ..., 31."""
    assert 20 in read_space(built_in("sattler", 50), "sattler")["cooldown"].steps()
    assert 21 in read_space(built_in("briggs", 50), "briggs")["round"].steps()


def test_what_has_no_space_says_what_has():
    with pytest.raises(ConfigError, match="bnc has no space of its own .*sattler, briggs, louvain"):
        built_in("bnc", 15)

"""The space of a search: reading, checks against the algorithm's settings, and rounding."""

import pytest
import yaml

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.nested_values import nest_keys
from fedgrid.grids.presets.yaml_file import Place, YamlFile
from fedgrid.grids.search.space import Choices, Range, find_built_in_space, read_space


def test_space_has_ranges_and_lists():
    given = yaml.safe_load(
        "{threshold: {low: 0.05, high: 1}, round: {low: 2, high: 8, step: 3}, linkage: [single, average]}"
    )
    assert read_space(given, "briggs") == {
        "threshold": Range(0.05, 1),
        "round": Range(2, 8, step=3, is_integer=True),
        "linkage": Choices(("single", "average")),
    }


def test_nested_setting_has_a_dot():
    space = read_space({"clusterer.min_cluster_share": [0.1, 0.3]}, "ocfl-hdbscan")
    assert nest_keys({"window": 2, "clusterer.min_cluster_share": 0.3}) == {
        "window": 2,
        "clusterer": {"min_cluster_share": 0.3},
    }
    assert list(space) == ["clusterer.min_cluster_share"]


def test_settings_of_what_the_runs_choose_are_searched():
    """The entry of fedavg trains plainly, which has no settings."""
    chosen = {"local": {"name": "fedprox", "mu": 0.1}}
    space = read_space({"local.mu": [0.2, 0.5]}, "fedavg", settings=chosen)
    assert space == {"local.mu": Choices((0.2, 0.5))}
    for space, settings in (({"local.mu": [0.2]}, {}), ({"local.mu": [-1.0]}, chosen)):
        with pytest.raises(ConfigError, match="local"):
            read_space(space, "fedavg", settings=settings)


def test_optional_setting_can_be_null_or_a_range():
    assert read_space({"late": [None, 5]}, "louvain") == {"late": Choices((None, 5))}
    assert read_space({"late": {"low": 2, "high": 5}}, "louvain") == {"late": Range(2, 5, is_integer=True)}


def test_key_of_training_is_a_dimension_too():
    given = {"training.learning_rate": {"low": 0.01, "high": 1, "log": True}, "training.local_epochs": [1, 3]}
    assert read_space(given, "fedavg") == {
        "training.learning_rate": Range(0.01, 1, log=True),
        "training.local_epochs": Choices((1, 3)),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rate": [1]}, "'learning_rate' in search; did you mean 'training.learning_rate'?"),
        ({"training.learning_rte": [1]}, "in search.training; did you mean 'learning_rate'?"),
        ({"training": [1]}, "'training' in search; did you mean 'training.KEY'?"),
        ({"training.learning_rate": [0]}, "training.learning_rate = 0: "),
        ({"training.local_epochs": {"low": 0.5, "high": 2}}, "low = 0.5: expected a whole number"),
        (5, "search = 5: expected settings of briggs"),
        ({}, "search = {}: expected settings of briggs"),
        ({"treshold": [0.1]}, "'treshold' in search; did you mean 'threshold'? allowed: "),
        ({"clusterer.x": [0.1]}, "unknown key 'clusterer' in search"),
        ({"algorithm.threshold": [0.1]}, "stand here without 'algorithm.'; write threshold"),
        ({"threshold.x": [0.1]}, "search.threshold.x: threshold has no settings"),
        ({"threshold": 0.4}, "search.threshold = 0.4: expected a list of values, or {low: ..., high: ...}"),
        ({"threshold": []}, "search.threshold = []: expected a list"),
        ({"threshold": [[0.1]]}, "expected a list of plain values"),
        ({"threshold": [0.1, 0.1]}, "a value is listed twice"),
        ({"threshold": [-0.1]}, "briggs: threshold = -0.1: "),
        ({"threshold": [True]}, "threshold = True: "),
        ({"linkage": {"low": 0, "high": 1}}, "search.linkage is not a number: give it a list"),
        ({"threshold": {"low": 0.1}}, "search.threshold: high is missing"),
        ({"threshold": {"low": 0.1, "hihg": 1}}, "'hihg' in search.threshold; did you mean 'high'?"),
        ({"threshold": {"low": "a", "high": 1}}, "search.threshold.low = 'a': expected a number"),
        ({"threshold": {"low": -1, "high": 1}}, "threshold = -1: "),
        ({"threshold": {"low": 1, "high": 1}}, "low = 1 should be below high = 1"),
        ({"threshold": {"low": 0, "high": 1, "log": True}}, "log needs low above 0, and no step"),
        ({"threshold": {"low": 1, "high": 2, "log": "yes"}}, "log = 'yes': expected true or false"),
        ({"threshold": {"low": 0, "high": 1, "step": 2}}, "step = 2: expected more than 0, at most 1"),
        ({"round": {"low": 1, "high": 3, "step": 0.5}}, "search.round.step = 0.5: expected a whole number"),
    ],
)
def test_error_in_a_space_names_the_key_in_one_line(given, message):
    with pytest.raises(ConfigError) as refused:
        read_space(given, "briggs")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_error_in_a_space_names_the_line_of_the_file():
    file = YamlFile("my.yaml", b"algorithm: briggs\nsearch:\n  linkage: [single]\n  treshold: [0.1]\n")
    with pytest.raises(ConfigError, match=r"^my.yaml, line 4: unknown key 'treshold'"):
        read_space(file.values["search"], "briggs", Place(file, ("search",)))


def test_combinations_of_values_are_not_checked_in_a_space():
    """Ward needs Euclidean distances, which another setting of the same space may choose."""
    space = read_space({"linkage": ["ward"], "metric": ["euclidean"]}, "briggs")
    assert set(space) == {"linkage", "metric"}


def test_numbers_of_a_range_are_rounded_within_it():
    assert Range(0.05, 2).round_value(0.123456789) == 0.1235
    assert Range(0.12354, 2).round_value(0.12354) == 0.12354
    assert Range(1, 9, is_integer=True).round_value(3.0) == 3


def test_steps_and_spreads_of_a_range():
    """Half way from 0.01 to 1 by ratios is 0.1; 0.3 is no multiple of 0.2 above 0."""
    assert Range(0, 0.3, step=0.1).list_steps() == [0, 0.1, 0.2, 0.3]
    assert Range(0, 0.3, step=0.2).list_steps() == [0, 0.2]
    assert Range(0.01, 1, log=True).space_evenly(3) == [0.01, 0.1, 1]
    assert Range(1, 3, is_integer=True).space_evenly(5) == [1, 2, 3]


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if ALGORITHMS[name].search])
@pytest.mark.parametrize("rounds", [2, 50])
def test_built_in_spaces_fit_their_algorithms(name, rounds):
    assert read_space(find_built_in_space(name, rounds), name)


def test_built_in_spaces_contain_the_papers_cooldown_and_round():
    """50 rounds: cooldowns 5, 10, ..., 30; rounds 6, 11, ..., 31."""
    assert 20 in read_space(find_built_in_space("sattler", 50), "sattler")["cooldown"].list_steps()
    assert 21 in read_space(find_built_in_space("briggs", 50), "briggs")["round"].list_steps()


def test_sattlers_space_is_of_shares_and_the_published_ones_of_norms():
    """A share and its epsilon as a number exclude each other."""
    assert {"epsilon_1_share", "epsilon_2_share"} < find_built_in_space("sattler", 50).keys()
    assert {"epsilon_1", "epsilon_2"} < find_built_in_space("sattler-as-published", 50).keys()
    assert not {"epsilon_1", "epsilon_2"} & find_built_in_space("sattler", 50).keys()


def test_algorithm_without_a_space_names_those_that_have_one():
    with pytest.raises(ConfigError, match="fedavg has no .*search space .*sattler, briggs, ocfl-kmeans"):
        find_built_in_space("fedavg", 15)

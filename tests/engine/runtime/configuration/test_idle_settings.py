"""Settings that cannot act within a run's rounds: refused by default, said where something was typed."""

import pytest

from fedgrid.algorithms.contract.section import find_first_rounds
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.configuration.idle_settings import (
    check_idle,
    check_keys,
    find_idle_settings,
    format_idle_lines,
)
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.grids.presets.load import load_grid
from tests.helpers.small_grid import NOWHERE


def run(rounds=None, **algorithm):
    given = {"dataset": "digits", "algorithm": algorithm}
    return complete_config(given if rounds is None else {**given, "training": {"rounds": rounds}}, NOWHERE)


@pytest.mark.parametrize("name", ["briggs", "sattler-as-published"])
def test_defaults_that_cannot_act_are_refused(name):
    """Digits have 15 rounds."""
    config = run(name=name)
    with pytest.raises(ConfigError, match=r"acts from round 2[12] on, and the last round is 15, both by def"):
        check_idle(config, {"algorithm": name})


def test_what_is_typed_is_taken_and_said():
    sentence = "algorithm briggs: round 21 acts from round 21 on, and the last round is 3"
    for typed in ({"algorithm": {"name": "briggs", "round": 21}}, {"training": {"rounds": 15}}):
        check_idle(run(name="briggs"), {"algorithm": "briggs", **typed})
    assert find_idle_settings(run(3, name="briggs")) == {"round": sentence}
    assert format_idle_lines([run(3, name="briggs"), run(4, name="fedavg")]) == [f"{sentence} (1 run)"]
    assert "round 30" in find_idle_settings(run(name="briggs", round=30))["round"]


LAST_THAT_ACTS = {
    "briggs": {"round": 5},
    "sattler": {"cooldown": 4},
    "sattler-as-published": {"cooldown": 3},
    "lg-fedavg": {"warmup_rounds": 4},
    "louvain": {"late": 5},
    "ocfl-hdbscan": {"recluster_every": 3},
    "embeddings": {"recluster_every": 4},
    "ladd": {"recluster_every": 4},
    "ocfl-kmeans": {"window": 4},
}


@pytest.mark.parametrize(("name", "settings"), LAST_THAT_ACTS.items(), ids=LAST_THAT_ACTS)
def test_a_setting_acts_up_to_the_last_round(name, settings):
    ((key, value),) = settings.items()
    assert find_idle_settings(run(5, name=name, **settings)) == {}
    assert list(find_idle_settings(run(5, name=name, **{key: value + 1}))) == [key]


def test_algorithms_at_their_defaults_act_within_fifty_rounds():
    for entry in ALGORITHMS.values():
        acts_from = find_first_rounds(type(entry.settings), entry.settings.model_dump())
        assert all(1 <= first <= 50 for first in acts_from.values())


IDLE = [
    (
        {"split": {"alpha": 0.3}},
        "split.alpha",
        "only with: nonoverlapping-imbalanced, ",
    ),
    ({"split": {"proportions": "published"}}, "split.proportions", "only with: nonoverlapping-imbalanced"),
    ({"split": {"kind": "iid", "alpha": 1.0}}, "split.alpha", "with split iid, only with"),
    (
        {"split": {"kind": "dirichlet", "test_leakage": "published"}},
        "split.test_leakage",
        "several clients",
    ),
    (
        {"algorithm": {"name": "fedavg", "server_momentum": 0.5}},
        "algorithm.server_momentum",
        "a server_optimizer",
    ),
    (
        {"algorithm": {"name": "leiden", "server_optimizer": "adam"}},
        "algorithm.server_optimizer",
        "with late",
    ),
    ({"algorithm": {"name": "leiden", "beta": 2.0}}, "algorithm.beta", "attribution wnn"),
    ({"algorithm": {"name": "embeddings", "sample": "cluster"}}, "algorithm.sample", "participation below 1"),
    ({"training": {"buffers": "local"}}, "training.buffers", "a model that has BatchNorm"),
    ({"privacy": {"delta": 1e-6}}, "privacy.delta", "noise in the uplink"),
]


@pytest.mark.parametrize(("given", "key", "said"), IDLE, ids=[key for _, key, _ in IDLE])
def test_a_key_without_effect_is_refused_and_says_with_what_it_acts(given, key, said):
    given = {"algorithm": "fedavg", **given}
    with pytest.raises(ConfigError, match=f"^{key} .*has no effect.*{said}.*; leave it out$") as refused:
        check_keys(complete_config(given, NOWHERE), find_dataset("digits", NOWHERE))
    assert refused.value.key == tuple(key.split("."))


def test_a_search_may_set_keys_that_act_beside_other_values():
    config = complete_config({"algorithm": {"name": "ifca", "redraws": 3}}, NOWHERE)
    check_keys(config, find_dataset("digits", NOWHERE), searched=["start", "redraws"])


def test_an_axis_over_a_key_without_effect_is_refused_with_its_line(tmp_path):
    """Else there are two ids and the same numbers."""
    path = tmp_path / "mine.yaml"
    path.write_text("split: overlapping-balanced\naxes:\n  split.alpha: [0.1, 0.5]\n")
    with pytest.raises(ConfigError, match=r"mine.yaml, line 3: split.alpha = 0.1 has no effect with split"):
        load_grid(str(path), {}, [], NOWHERE)


def test_a_stored_run_with_such_a_key_goes_on():
    """Earlier versions took it: its id stays, and its images are dealt as then."""
    stored, plain = (complete_config({"split": split}, NOWHERE) for split in ({"alpha": 0.3}, {}))
    assert stored.run_id == "2e42d39885ae"
    dealt = [prepare_setup(config, NOWHERE)[0].clients for config in (stored, plain)]
    assert [len(client.train) for client in dealt[0]] == [len(client.train) for client in dealt[1]]

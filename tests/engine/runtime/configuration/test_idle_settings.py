"""Settings that cannot act within a run's rounds: refused by default, said where something was typed."""

import pytest

from fedgrid.algorithms.contract.section import first_rounds
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.configuration.idle_settings import check_idle, idle_lines, idle_settings
from tests.helpers.command_line import fedgrid
from tests.helpers.small_grid import NOWHERE


def run(rounds=None, **algorithm):
    given = {"dataset": "digits", "algorithm": algorithm}
    return complete(given if rounds is None else {**given, "training": {"rounds": rounds}}, NOWHERE)


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
    assert idle_settings(run(3, name="briggs")) == {"round": sentence}
    assert idle_lines([run(3, name="briggs"), run(4, name="fedavg")]) == [f"{sentence} (1 run)"]
    assert "round 30" in idle_settings(run(name="briggs", round=30))["round"]


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
    assert idle_settings(run(5, name=name, **settings)) == {}
    assert list(idle_settings(run(5, name=name, **{key: value + 1}))) == [key]


def test_algorithms_at_their_defaults_act_within_fifty_rounds():
    for entry in ALGORITHMS.values():
        acts_from = first_rounds(type(entry.settings), entry.settings.model_dump())
        assert all(1 <= first <= 50 for first in acts_from.values())


def test_dry_run_says_it_in_one_line():
    algorithm, rounds = ("--algorithm", "briggs"), ("--set", "training.rounds=2", "--clients", 4)
    result = fedgrid("run", *algorithm, *rounds, "--seeds", "0..1", "--dry-run", "--split", "rotated")
    assert result.code == 0
    assert "last round is 2 (2 runs)" in " ".join(result.err.split())

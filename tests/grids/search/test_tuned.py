"""`--tuned`: the values that a search has found, for the runs that it is about and no others."""

import json
from pathlib import Path

import pytest

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.presets.grid import load_grid
from fedgrid.grids.search.tuned import noted, read_tuned
from tests.helpers.command_line import fedgrid

NOWHERE = Path("unused")


def best(by, trial, params):
    return {
        "by": by,
        "needs_truth": by == "ari",
        "trial": trial,
        "params": params,
        "scores": {},
        "run_ids": [],
    }


@pytest.fixture
def storage(tmp_path):
    """A storage with a finished search for Sattler on MNIST, and one for Briggs that is under way."""
    write(
        tmp_path,
        "sattler-mnist",
        algorithm="sattler",
        datasets=["mnist"],
        best={
            "label_free": best("validation", 7, {"epsilon_1": 0.2, "cooldown": 10}),
            "oracle": best("ari", 9, {"epsilon_1": 0.1, "cooldown": 15}),
        },
    )
    write(tmp_path, "going", algorithm="briggs", datasets=["mnist"], best={}, complete=False)
    return Storage.of(tmp_path)


def write(root, name, **values):
    folder = root / "grids" / name
    folder.mkdir(parents=True, exist_ok=True)
    found = {"trials_asked": 32, "trials_done": 8, "complete": True, **values}
    (folder / "search.json").write_text(json.dumps(found, indent=2))


def grid(storage, *names, changes=(), **options):
    tuned = read_tuned(names, storage)
    overrides = [one.override for one in tuned]
    return noted(load_grid("paper", {}, changes, NOWHERE, overrides=overrides, **options), tuned)


def settings(grid, algorithm, dataset):
    [values] = {
        (run.algorithm["epsilon_1"], run.algorithm["epsilon_2"], run.algorithm["cooldown"])
        for run in grid.runs
        if (run.algorithm["name"], run.dataset) == (algorithm, dataset)
    }
    return values


def test_found_values_are_for_their_algorithm_and_data_set_only(storage):
    """What was not searched, here epsilon_2, stays as the preset has it."""
    plain, tuned = load_grid("paper", {}, [], NOWHERE), grid(storage, "sattler-mnist")
    assert settings(tuned, "sattler", "mnist") == (0.2, 1.0, 10)
    assert settings(tuned, "sattler", "fmnist") == settings(plain, "sattler", "fmnist")
    changed = {run.name for run in tuned.runs} - {
        run.name for run, before in zip(tuned.runs, plain.runs, strict=True) if run == before
    }
    assert len(changed) == 8
    assert all(name.startswith("mnist-") and "-sattler-" in name for name in changed)


def test_the_oracles_values_must_be_asked_for(storage):
    assert settings(grid(storage, "sattler-mnist:oracle"), "sattler", "mnist") == (0.1, 1.0, 15)


def test_set_wins_over_what_was_found(storage):
    tuned = grid(storage, "sattler-mnist", changes=["algorithm.epsilon_1=0.5"], filters=["algorithm=sattler"])
    assert settings(tuned, "sattler", "mnist") == (0.5, 1.0, 10)


def test_the_grid_says_where_its_values_came_from(storage):
    free, oracle = grid(storage, "sattler-mnist"), grid(storage, "sattler-mnist:oracle")
    assert free.text.endswith(
        "\n# tuned: sattler-mnist, trial 7 (by validation): {epsilon_1: 0.2, cooldown: 10}\n"
    )
    assert "# tuned: sattler-mnist:oracle, trial 9 (oracle: chosen by the hidden groups): " in oracle.text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("satler-mnist", "no search 'satler-mnist' in .*; there: going, sattler-mnist"),
        ("sattler-mnist:best", "unknown kind of best 'best'; known: oracle"),
        ("going", "--tuned going: 8 of 32 trials are done; give the search's command again"),
        ("sattler-mnist,sattler-mnist:oracle", "both are of sattler on mnist; leave one out"),
    ],
)
def test_what_cannot_be_used_says_why(storage, name, says):
    with pytest.raises(ConfigError, match=says):
        grid(storage, name)


def test_a_search_that_is_about_no_run_is_refused(storage):
    with pytest.raises(ConfigError, match="no run of sattler on mnist in this grid; leave it out"):
        grid(storage, "sattler-mnist", filters=["dataset=cifar10"])


def test_a_search_without_a_score_to_choose_by_is_refused(storage):
    write(storage.root, "blind", algorithm="briggs", datasets=["mnist"], best={})
    with pytest.raises(ConfigError, match="no trial of this search has a score to choose by"):
        grid(storage, "blind")


def test_a_value_that_no_longer_can_be_names_the_searchs_file(storage):
    write(
        storage.root,
        "old",
        algorithm="sattler",
        datasets=["mnist"],
        best={"label_free": best("validation", 1, {"epsilon_3": 0.1})},
    )
    with pytest.raises(ConfigError, match=r"old/search.json, line \d+: .*unknown key 'epsilon_3'"):
        grid(storage, "old")


def test_on_the_command_line(storage):
    refused = fedgrid("run", "quickstart", "--tuned", "sattler-mnist", "--storage", storage.root)
    assert refused.code == 2
    assert "--tuned sattler-mnist: no run of sattler on mnist in this grid" in refused.err

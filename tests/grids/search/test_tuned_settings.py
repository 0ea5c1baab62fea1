"""`--tuned`: the best values of a search, for runs of its algorithm and data sets only."""

import shutil
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.search.files import DEFINITION_DIGEST, compute_digest
from fedgrid.grids.search.tuned_settings import add_notes, read_tuned
from fedgrid.sealed_json import seal_values
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
        best={
            "label_free": best("validation", 7, {"epsilon_1": 0.2, "cooldown": 10}),
            "oracle": best("ari", 9, {"epsilon_1": 0.1, "cooldown": 15}),
        },
    )
    write(tmp_path, "going", "briggs", best={}, complete=False)
    return Storage.from_text(tmp_path)


def write(root, name, algorithm="sattler", **values):
    """Write what a search has found; on MNIST, if nothing else is said."""
    folder = root / "grids" / name
    folder.mkdir(parents=True, exist_ok=True)
    grid = GridFolder(Storage.from_text(root), name)
    grid.keep([], "search: {}\n")
    found = {"trials_asked": 32, "trials_done": 8, "complete": True, "datasets": ["mnist"], **values}
    found |= {"name": name, "algorithm": algorithm, DEFINITION_DIGEST: compute_digest(grid)}
    (folder / "search.json").write_text(seal_values(found, indent=2))


def grid(storage, *names, changes=(), **options):
    tuned = read_tuned(names, storage)
    overrides = [one.override for one in tuned]
    return add_notes(load_grid("paper", {}, changes, NOWHERE, overrides=overrides, **options), tuned)


def settings(grid, algorithm, dataset):
    [values] = {
        (run.algorithm.epsilon_1, run.algorithm.epsilon_2, run.algorithm.cooldown)
        for run in grid.runs
        if (run.algorithm.name, run.dataset) == (algorithm, dataset)
    }
    return values


def test_tuned_values_apply_only_to_their_algorithm_and_data_set(storage):
    """A setting that was not searched, here epsilon_2, keeps the value of the preset."""
    plain, tuned = load_grid("paper", {}, [], NOWHERE), grid(storage, "sattler-mnist")
    assert settings(tuned, "sattler", "mnist") == (0.2, None, 10)
    assert settings(tuned, "sattler", "fmnist") == settings(plain, "sattler", "fmnist")
    changed = {run.name for run in tuned.runs} - {
        run.name for run, before in zip(tuned.runs, plain.runs, strict=True) if run == before
    }
    assert len(changed) == 8
    assert all(name.startswith("mnist-") and "-sattler-" in name for name in changed)


def test_set_option_overrides_tuned_values(storage):
    tuned = grid(storage, "sattler-mnist", changes=["algorithm.epsilon_1=0.5"], filters=["algorithm=sattler"])
    assert settings(tuned, "sattler", "mnist") == (0.5, None, 10)


def test_preset_of_the_grid_names_the_search_of_its_values(storage):
    free, oracle = grid(storage, "sattler-mnist"), grid(storage, "sattler-mnist:oracle")
    assert settings(oracle, "sattler", "mnist") == (0.1, None, 15)
    assert free.text.endswith(
        "\n# tuned: sattler-mnist, trial 7 (by validation): {epsilon_1: 0.2, cooldown: 10}\n"
    )
    assert "# tuned: sattler-mnist:oracle, trial 9 (oracle: chosen by the hidden groups): " in oracle.text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("satler-mnist", "no search 'satler-mnist' in .*; there: going, sattler-mnist"),
        ("sattler-mnist:best", "unknown kind of best 'best'; known: oracle"),
        ("going", "--tuned going: 8 of 32 trials are done; "),
        ("sattler-mnist,sattler-mnist:oracle", "are both of sattler on mnist; leave one out"),
    ],
)
def test_unusable_search_is_refused_with_the_reason(storage, name, message):
    with pytest.raises(ConfigError, match=message):
        grid(storage, name)


def test_search_that_fits_no_run_or_has_no_valid_best_is_refused(storage):
    with pytest.raises(ConfigError, match="no run of sattler on mnist in this grid; leave it out"):
        grid(storage, "sattler-mnist", filters=["dataset=cifar10"])
    write(storage.root, "blind", "briggs", best={})
    with pytest.raises(ConfigError, match="no trial of this search has a score to choose by"):
        grid(storage, "blind")
    write(storage.root, "old", best={"label_free": best("validation", 1, {"epsilon_3": 0.1})})
    with pytest.raises(ConfigError, match=r"old/search.json, line \d+: .*unknown key 'epsilon_3'"):
        grid(storage, "old")


def test_tuned_training_is_of_the_algorithm_alone_and_said(storage):
    params = {"epsilon_1": 0.2, "training.learning_rate": 0.3}
    found = {"label_free": best("validation", 1, params)}
    write(storage.root, "rate", best=found)
    tuned = grid(storage, "rate", filters=["dataset=mnist"])
    rates = {run.algorithm.name: run.training.learning_rate for run in tuned.runs}
    assert rates.pop("sattler") == 0.3
    assert {*rates.values()} == {0.01}
    note = "--tuned rate: sattler trains with training.learning_rate 0.3, other algorithms with 0.01"
    assert tuned.notes == (note,)
    assert grid(storage, "rate", filters=["algorithm=sattler"]).notes == ()


def test_tuned_option_of_the_command_line(storage):
    refused = fedgrid("run", "quickstart", "--tuned", "sattler-mnist", "--storage", storage.root)
    assert refused.code == 2
    assert "--tuned sattler-mnist: no run of sattler on mnist in this grid" in refused.err


def test_search_json_of_another_or_an_edited_search_is_damage(storage):
    """Copied by hand, and sealed."""
    write(storage.root, "briggs-mnist", "briggs", best={})
    folders = [storage.root / "grids" / name for name in ("briggs-mnist", "sattler-mnist")]
    shutil.copy(folders[0] / "search.json", folders[1])
    GridFolder(storage, "briggs-mnist").write_file("preset.yaml", "search: {threshold: [0.1, 0.9]}\n")
    for name in ("sattler-mnist", "briggs-mnist"):
        with pytest.raises(ConfigError, match="search.json is damaged .it is of another search.; repeat"):
            read_tuned([name], storage)

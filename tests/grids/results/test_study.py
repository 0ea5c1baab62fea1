"""A grid as a study: which runs have results, how far the others are, and what algorithms are called."""

import pytest

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.run_config import complete
from fedgrid.engine.run_folder import RunFolder
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import SCORES
from fedgrid.grids.results.study import describe, load
from tests.helpers.logged_runs import ROUNDS, config_of, record


@pytest.fixture
def storage(tmp_path):
    return Storage(tmp_path)


def config(**values):
    given = {"dataset": "mnist", "overlap": "overlapping", "balance": "imbalanced", "clients": 15}
    return complete({**given, **values}, None)


def titles(storage, *configs):
    return [run.algorithm for run in describe(configs, storage)]


def finish(storage, run):
    record(storage.root, run, ROUNDS)
    (RunFolder(storage, run).path / SCORES).write_text("{}")


def test_study_has_results_of_finished_runs_and_reasons_for_the_others(storage):
    done, half, failed, waiting = runs = [config_of(seed) for seed in range(4)]
    GridFolder(storage, "mine").keep(runs, "")
    finish(storage, done)
    for name in ("state-000002.safetensors", "state-000002.sha256"):
        folder = RunFolder(storage, half).path
        folder.mkdir(exist_ok=True)
        (folder / name).touch()
    RunFolder(storage, failed).fail("no such image", 3)
    study = load("mine", storage)
    assert [result.run.run_id for result in study.finished] == [done.run_id]
    assert study.lacking == {
        half.run_id: f"2 of {ROUNDS} rounds",
        failed.run_id: "failed: no such image",
        waiting.run_id: "not started",
    }


def test_references_and_archived_runs_are_known_by_their_configuration(storage):
    names = ("bnc", "solo", "oracle")
    runs = [*(config(algorithm=name) for name in names), config().model_copy(update={"model": "archive-cnn"})]
    described = describe(runs, storage)
    assert [run.is_reference for run in described] == [False, True, True, False]
    assert [run.is_archived for run in described] == [False, False, False, True]


def test_run_with_damaged_records_is_missing_with_the_reason(storage):
    run = config_of(0)
    GridFolder(storage, "mine").keep([run], "")
    finish(storage, run)
    (RunFolder(storage, run).path / "clients.parquet").write_bytes(b"PAR1")
    study = load("mine", storage)
    assert study.finished == ()
    assert "cannot read" in study.lacking[run.run_id]


def test_study_of_an_unknown_grid_names_the_known_ones(storage):
    GridFolder(storage, "mine").keep([config_of(0)], "")
    with pytest.raises(ConfigError, match="unknown grid 'mime'; did you mean 'mine'"):
        load("mime", storage)


def test_algorithms_are_called_as_in_the_papers_tables(storage):
    runs = [config(algorithm=name) for name in ("ocfl-hdbscan", "sattler-as-published")]
    assert titles(storage, *runs) == ["OCFL-HDB", "SCL as published"]
    assert [run.published for run in describe(runs, storage)] == ["OCFL-HDB", "SCL"]


def test_settings_are_named_where_runs_of_a_scenario_differ_in_nothing_else(storage):
    runs = [
        config(algorithm={"name": "briggs", "threshold": threshold, "linkage": "complete"})
        for threshold in (0.1, 0.4)
    ]
    assert titles(storage, *runs) == ["BCL (threshold 0.1)", "BCL (threshold 0.4)"]


def test_settings_that_go_with_the_scenario_are_not_named(storage):
    """As in `paper`, where Sattler's epsilons are the data set's."""
    runs = [
        config(dataset=dataset, algorithm={"name": "sattler", "epsilon_1": epsilon})
        for dataset, epsilon in (("mnist", 0.35), ("cifar10", 185))
    ]
    assert titles(storage, *runs) == ["SCL", "SCL"]


def test_runs_that_differ_in_another_key_have_the_same_title_and_different_scenarios(storage):
    runs = describe([config(algorithm="bnc", model=model) for model in ("tinyvgg", "digitnet")], storage)
    assert [run.algorithm for run in runs] == ["BNC", "BNC"]
    assert [run.setting for run in runs] == [(("model", "tinyvgg"),), (("model", "digitnet"),)]
    assert len({run.scenario for run in runs}) == len({run.name for run in runs}) == 2


def test_a_data_set_of_ones_own_has_a_plain_name(tmp_path, storage):
    runs = describe([config().model_copy(update={"dataset": "folder:/home/me/my cats"})], storage)
    assert runs[0].dataset == "folder_my_cats"
    assert runs[0].block == ("folder_my_cats", 15)

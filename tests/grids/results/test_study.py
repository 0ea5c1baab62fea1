"""A grid as a study: which runs have results, how far the others are, and what algorithms are called."""

from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.runs import describe_configs
from fedgrid.grids.results.study import compute_model_bytes, load
from fedgrid.manifest import ProvenancePart
from fedgrid.tracking.report.contents import build_report_page
from tests.helpers.finished_runs import mark_finished
from tests.helpers.logged_runs import ROUNDS, build_config, write_run
from tests.helpers.manifests import list_files


def test_the_size_of_digitnet_is_four_bytes_a_parameter():
    """64 -> 128 -> 96 -> 10: 8,320 + 12,384 + 970 parameters, and no buffers."""
    assert compute_model_bytes(complete_config({"dataset": "digits"}, Path())) == 4 * (8_320 + 12_384 + 970)


def test_buffers_are_sent_too():
    """ResNet-34 with 10 classes has 21,282,122 parameters, and 17,060 entries of BatchNorm buffers."""
    size = compute_model_bytes(complete_config({"dataset": "cifar10"}, Path())) // 4
    assert size == 21_282_122 + 17_060


def test_the_size_of_a_model_whose_images_are_not_here_is_unknown(tmp_path):
    gone = complete_config({"dataset": "digits"}, Path()).model_copy(
        update={"dataset": f"folder:{tmp_path}/gone"}
    )
    assert compute_model_bytes(gone) is None


@pytest.fixture
def storage(tmp_path):
    return Storage(tmp_path)


def config(**values):
    given = {"dataset": "mnist", "split": "overlapping-imbalanced", "clients": 15}
    return complete_config({**given, **values}, None)


def titles(storage, *configs):
    return [run.algorithm for run in describe_configs(configs, storage)]


def finish(storage, run):
    write_run(storage.root, run, ROUNDS)
    mark_finished(storage.root, run)


def test_study_has_results_of_finished_runs_and_reasons_for_the_others(storage):
    done, half, failed, waiting = runs = [build_config(seed) for seed in range(4)]
    GridFolder(storage, "mine").keep(runs, "")
    finish(storage, done)
    folder = RunFolder(storage, half).path
    folder.mkdir()
    list_files(folder, rounds=ROUNDS, rounds_done=2)
    RunFolder(storage, failed).mark_failed("no such image", 3)
    study = load("mine", storage)
    assert [result.run_id for result in study.finished] == [done.run_id]
    assert {run.run_id: run.lacking for run in study.unfinished} == {
        half.run_id: f"2 of {ROUNDS} rounds",
        failed.run_id: "failed: no such image",
        waiting.run_id: "not started",
    }


def test_a_score_that_does_not_exist_is_no_nan(storage):
    done = build_config(0)
    GridFolder(storage, "mine").keep([done], "")
    finish(storage, done)
    [result] = load("mine", storage).finished
    assert np.isnan(result.last("epsilon")), "other runs have it"
    assert np.isnan(result.curves["message_bytes"]).all()
    with pytest.raises(KeyError, match="no score 'arri'; did you mean 'ari'"):
        result.last("arri")
    with pytest.raises(KeyError, match="no score 'acc'"):
        result.curves["acc"]


def test_references_and_archived_runs_are_known_by_their_configuration(storage):
    names = ("fedavg", "solo", "oracle")
    runs = [*(config(algorithm=name) for name in names), config().model_copy(update={"model": "archive-cnn"})]
    described = describe_configs(runs, storage)
    assert [run.is_reference for run in described] == [False, True, True, False]
    assert [run.is_archived for run in described] == [False, False, False, True]


def made_with(storage, run, *parts):
    """Note parts: (first round, torch, code)."""
    values = tuple(ProvenancePart(number, {"torch": torch, "code": code}) for number, torch, code in parts)
    list_files(RunFolder(storage, run).path, made_with=values)


def test_study_notes_runs_that_changed_and_runs_that_differ(storage):
    one, other = runs = [build_config(seed) for seed in range(2)]
    GridFolder(storage, "mine").keep(runs, "")
    for run in runs:
        write_run(storage.root, run, ROUNDS)
    made_with(storage, one, (1, "2.1", "a" * 64), (3, "2.2", "a" * 64))
    made_with(storage, other, (1, "2.2", "b" * 64))
    for run in runs:
        mark_finished(storage.root, run)
    assert load("mine", storage).notes == (
        f"{one.name}: rounds before 3 were made with torch 2.1, now 2.2",
        "runs of one algorithm were made with several versions of code: "
        f"fedavg {'a' * 12} (1), {'b' * 12} (1)",
    )
    assert ("note", load("mine", storage).notes[0]) in build_report_page(load("mine", storage)).facts


def test_study_notes_what_algorithms_of_a_scenario_train_with_otherwise(storage):
    """As after `--tuned`; another data set may have other settings, and so may a variant."""
    slow, fast = {"learning_rate": 0.01}, {"learning_rate": 0.1}
    runs = [config(algorithm="fedavg", training=slow), config(algorithm="ifca", training=fast)]
    GridFolder(storage, "mine").keep(runs, "")
    assert load("mine", storage).notes == (
        "algorithms differ in training.learning_rate: 0.01 (fedavg); 0.1 (ifca)",
    )
    GridFolder(storage, "axis").keep([config(algorithm="fedavg", training=one) for one in (slow, fast)], "")
    assert load("axis", storage).notes == ()


def test_algorithms_have_codes_of_their_own(storage):
    """The digest covers the algorithm's modules, its clusterer's and its local training's."""
    local = {"name": "fedavg", "local": {"name": "fedprox"}}
    unnamed = {"name": "embeddings", "encoder": {"federated": 2}}
    runs = [config(algorithm=algorithm) for algorithm in ("fedavg", "ifca", local, unnamed)]
    GridFolder(storage, "mine").keep(runs, "")
    for run, code in zip(runs, "abcd", strict=True):
        write_run(storage.root, run, ROUNDS)
        made_with(storage, run, (1, "2.1", code * 64))
        mark_finished(storage.root, run)
    assert load("mine", storage).notes == ()


def test_settings_are_named_where_runs_of_a_scenario_differ_in_nothing_else(storage):
    runs = [
        config(algorithm={"name": "briggs", "threshold": threshold, "linkage": "complete"})
        for threshold in (0.1, 0.4)
    ]
    assert titles(storage, *runs) == ["briggs (threshold 0.1)", "briggs (threshold 0.4)"]


def test_settings_that_go_with_the_scenario_are_not_named(storage):
    """As in `paper`, where Sattler's epsilons are the data set's."""
    runs = [
        config(dataset=dataset, algorithm={"name": "sattler", "epsilon_1": epsilon})
        for dataset, epsilon in (("mnist", 0.35), ("cifar10", 185))
    ]
    assert titles(storage, *runs) == ["sattler", "sattler"]


def test_runs_that_differ_in_another_key_have_the_same_title_and_different_scenarios(storage):
    runs = describe_configs(
        [config(algorithm="fedavg", model=model) for model in ("tinyvgg", "digitnet")], storage
    )
    assert [run.algorithm for run in runs] == ["fedavg", "fedavg"]
    assert [run.setting for run in runs] == [(("model", "tinyvgg"),), (("model", "digitnet"),)]
    assert len({run.scenario for run in runs}) == len({run.name for run in runs}) == 2


def test_a_data_set_of_ones_own_has_a_plain_name(tmp_path, storage):
    runs = describe_configs([config().model_copy(update={"dataset": "folder:/home/me/my cats"})], storage)
    assert runs[0].dataset == "folder_my_cats"
    assert runs[0].block == ("folder_my_cats", 15)


def test_sizes_of_models_are_there_if_they_are_asked_for(storage):
    """Of digitnet, 21,674 parameters. The published runs recorded no bytes; their model is unknown."""
    trained = build_config(0)
    archived = trained.model_copy(update={"model": "archive-cnn"})
    GridFolder(storage, "mine").keep([trained, archived], "")
    assert [run.model_bytes for run in load("mine", storage).runs] == [None, None]
    assert [run.model_bytes for run in load("mine", storage, sizes=True).runs] == [4 * 21_674, None]


def test_a_run_knows_all_of_its_keys_whatever_the_axes_of_the_grid(storage):
    [run] = describe_configs(
        [config(participation=0.5, algorithm={"name": "briggs", "threshold": 0.1})], storage
    )
    assert run.axes == ()
    assert (run.keys["participation"], run.keys["algorithm.threshold"]) == ("0.5", "0.1")
    assert "algorithm.beta" not in run.keys

"""Searches in this process. A search that is interrupted anywhere and continued ends with the same bytes."""

import json
import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.algorithms.averaging.fedopt import FedOpt
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.grids.search import progress
from fedgrid.grids.search.definition import load_search
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.killed import Killed, kill_after

NOWHERE = Path("unused")
ON_MNIST = ("briggs", "--dataset", "mnist")
SHORT = ("training.rounds=2", "training.local_epochs=1")
SEARCH = ("search", "briggs", "--clients", 3, *SHORT, "--in-process", "--trials", 4)


@pytest.fixture(scope="module", autouse=True)
def small_batches(unrendered):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "BATCH", 2)
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    storage = new_storage(tmp_path_factory.mktemp("undisturbed"))
    result = fedgrid(*SEARCH, "--storage", storage, FEDGRID_TRACK="mlflow")
    assert (result.code, result.err) == (0, "")
    return storage, result


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return write_file


def contents(storage, name="briggs-digits"):
    """Return file -> bytes of a search's folder, without wall-clock times."""
    folder = storage / "grids" / name
    kept = ("search.json", "search.csv", "runs.jsonl", "preset.yaml")
    paths = [*(folder / file for file in kept), *sorted(folder.glob("figures/*"))]
    return {path.name: path.read_bytes() for path in paths}


def found(storage, name="briggs-digits"):
    """Return the result of a search as its file has it, which is JSON that every language reads."""
    path = storage / "grids" / name / "search.json"
    strict_json(path.read_text())
    return unseal_file(path)


def test_setting_need_not_act_at_its_default_if_it_is_searched(write, tmp_path):
    """Briggs clusters in round 21 by default, and digits have 15 rounds."""
    text = "dataset: digits\nalgorithm: briggs\n"
    for what in ("briggs", write(text), write(f"{text}search: {{round: [3, 6]}}\n")):
        assert "round" in load_search(what, {}, [], NOWHERE, own={"trials": 2}).space
    with pytest.raises(ConfigError, match="round 21 acts from round 21 on, and the last round is 15"):
        load_search(write(f"{text}search: {{threshold: [0.1, 0.5]}}\n"), {}, [], NOWHERE, own={"trials": 2})
    file = write(f"{text}searcher: grid\nsearch: {{round: [6, 30]}}\n")
    result = fedgrid("search", file, "--dry-run", "--in-process", "--storage", tmp_path / "runs")
    assert result.code == 0
    assert "warning: algorithm briggs: round 30 acts from round 30 on" in result.err
    assert "round 6 acts" not in result.err


def test_search_shows_and_writes_its_best(undisturbed):
    storage, result = undisturbed
    assert "briggs-digits: best first by validation" in result.out
    assert "best by validation: trial " in result.out
    assert "best by ARI (oracle, needs the hidden groups): trial " in result.out
    assert "4 of 4 trials done; 8 rounds, 2 of them computed, in " in result.out
    assert "Use it:  fedgrid run GRID --tuned briggs-digits" in result.out
    written = found(storage)
    assert (written["complete"], written["trials_done"], written["objective"]) == (True, 4, "validation")
    assert [trial["trial"] for trial in written["trials"]] == [1, 2, 3, 4]
    free, oracle = written["best"]["label_free"], written["best"]["oracle"]
    assert (free["by"], free["needs_truth"]) == ("validation", False)
    assert (oracle["by"], oracle["needs_truth"]) == ("ari", True)
    assert free["scores"]["validation"] == max(trial["scores"]["validation"] for trial in written["trials"])
    assert oracle["scores"]["ari"] == max(trial["scores"]["ari"] for trial in written["trials"])
    assert {"curves.svg", "curves.png", "heat-map.svg", "heat-map.png"} <= set(contents(storage))


def test_trial_is_scored_on_the_validation_images_of_its_runs(undisturbed):
    storage, _ = undisturbed
    for trial in found(storage)["trials"]:
        [run_id] = trial["run_ids"]
        [folder] = storage.glob(f"*-{run_id}")
        config = json.loads((folder / "config.json").read_text())
        scores = json.loads((folder / "scores.json").read_text())
        assert config["split"]["scored_on"] == "validation"
        assert {key: config["algorithm"][key] for key in trial["params"]} == trial["params"]
        assert trial["scores"]["validation"] == scores["personalised_f1"]
        assert trial["scores"]["ari"] == scores["ari"]


def test_mlflow_has_the_best_and_the_trial_of_each_run(undisturbed):
    storage, _ = undisturbed
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("briggs-digits").experiment_id
    [parent] = client.search_runs([experiment], "tags.`fedgrid.run_id` = 'grid'")
    written = found(storage)
    best = written["best"]["label_free"]
    assert parent.info.status == "FINISHED"
    assert (parent.data.tags["objective"], parent.data.tags["search"]) == ("validation", "complete")
    assert parent.data.tags["best.label_free.threshold"] == str(best["params"]["threshold"])
    assert parent.data.metrics["search/best_label_free"] == best["scores"]["validation"]
    assert parent.data.metrics["search/best_oracle"] == written["best"]["oracle"]["scores"]["ari"]
    kept = {artifact.path for artifact in client.list_artifacts(parent.info.run_id)}
    assert {"preset.yaml", "search.json", "search.csv", "figures"} <= kept
    runs = client.search_runs([experiment], "tags.`mlflow.parentRunId` != ''")
    trials = {run.data.tags["fedgrid.run_id"]: run.data.tags["trial"] for run in runs}
    assert trials == {trial["run_ids"][0]: str(trial["trial"]) for trial in written["trials"]}


def test_finished_search_runs_nothing(undisturbed):
    storage, _ = undisturbed
    before = contents(storage)
    times = {path: path.stat().st_mtime_ns for path in storage.rglob("*.*") if path.is_file()}
    again = fedgrid(*SEARCH, "--storage", storage)
    assert (again.code, again.err) == (0, "")
    assert "4 of 4 trials done; nothing left to do" in again.out
    assert contents(storage) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.parametrize("rounds", [3, 4])
def test_killed_and_continued_search_ends_the_same(undisturbed, storage, monkeypatch, rounds):
    """Batches have four rounds: killed within the first, and at the beginning of the second."""
    with monkeypatch.context() as patch:
        kill_after(rounds, patch)
        with pytest.raises(Killed):
            fedgrid(*SEARCH, "--storage", storage)
    assert fedgrid(*SEARCH, "--storage", storage).code == 0
    assert contents(storage) == contents(undisturbed[0])


def test_killed_search_with_early_stopping_ends_the_same(storage, tmp_path, monkeypatch):
    """Of all four one goes past round 2 of four: 4 x 1 + 2 x 1 + 1 x 2 = 8 rounds, not 16.

    Clustering in round 1, 2, 3 or 4: where trials are compared, after rounds 1 and 2, the earlier is better.
    """
    file = tmp_path / "early.yaml"
    file.write_text(
        "clients: 3\nalgorithm: {name: briggs, threshold: 0.4}\ntraining: {rounds: 4}\nsearcher: grid\n"
        "trials: 4\nearly_stop: {at: [1, 2], keep: 0.4}\nsearch: {round: [4, 3, 2, 1]}\n"
    )
    command = ("search", file, "--in-process", "--storage")
    whole = fedgrid(*command, storage)
    assert (whole.code, whole.err) == (0, "")
    stopped = "4 of 4 trials done, 3 of them stopped early (2 after round 1, 1 after round 2)"
    assert f"{stopped}; 8 rounds, 5 of them computed, in " in whole.out
    written = found(storage, "early")
    assert [trial["params"]["round"] for trial in written["trials"]] == [1, 2, 3, 4], "in start order"
    assert [trial["stopped_at"] for trial in written["trials"]] == [None, 2, 1, 1]
    assert [trial["scores"] is None for trial in written["trials"]] == [False, True, True, True]
    assert written["best"]["label_free"]["params"] == written["best"]["oracle"]["params"] == {"round": 1}
    assert f"{stopped}; nothing left to do" in fedgrid(*command, storage).out
    status = fedgrid("status", "early", "--storage", storage).out
    assert status.splitlines()[:2] == [
        "early: finished",
        "4 runs: 1 done, 0 running, 0 waiting, 0 failed, 3 stopped early",
    ]

    other = new_storage(tmp_path / "other")
    with monkeypatch.context() as patch:
        kill_after(5, patch)
        with pytest.raises(Killed):
            fedgrid(*command, other)
    assert fedgrid(*command, other).code == 0
    assert contents(other, "early") == contents(storage, "early")

    damaged = next(path for path in other.glob("*/rounds-*.parquet"))
    damaged.write_bytes(b"no table")
    refused = fedgrid(*command, other)
    assert refused.code == 1
    assert f"{damaged}: " in refused.err
    assert f"move {damaged.parent} away" in refused.err


def test_more_trials_continue_the_search(undisturbed, storage):
    fewer = [2 if part == 4 else part for part in SEARCH]
    assert fedgrid(*fewer, "--storage", storage).code == 0
    assert found(storage)["trials_done"] == 2
    more = fedgrid(*SEARCH, "--storage", storage)
    assert "4 of 4 trials done; 4 rounds, 2 of them computed, in " in more.out
    assert contents(storage) == contents(undisturbed[0])


def test_json_ends_with_the_result_of_the_search(undisturbed):
    storage, _ = undisturbed
    events = fedgrid(*SEARCH, "--storage", storage, "--json").events
    assert [event["event"] for event in events] == ["result"] * 4 + ["search"]
    assert {key: value for key, value in events[-1].items() if key != "event"} == found(storage)


def test_failed_trial_is_reported_and_not_the_best(storage, tmp_path):
    """A server learning rate of 1e38 makes the second round's updates infinite; ward wants Euclidean."""
    file = tmp_path / "fails.yaml"
    file.write_text(
        "clients: 3\ntraining: {rounds: 2}\nalgorithm: {name: briggs, round: 1}\nsearcher: grid\ntrials: 4\n"
        "search:\n  server_learning_rate: [1.0, 1.0e+38]\n  linkage: [average, ward]\n"
    )
    command = ("search", file, "--in-process", "--retries", 0, "--storage", storage)
    result = fedgrid(*command)
    assert result.code == 1
    written = found(storage, "fails")
    ended, failed, no_run, _ = written["trials"]
    assert ended["failed"] is None
    assert (no_run["failed"], no_run["run_ids"]) == (
        "algorithm briggs: linkage 'ward' needs metric 'euclidean', not 'cosine'",
        [],
    )
    assert failed["failed"].startswith(
        "1 of 1 runs failed; digits-3-nonoverlapping-balanced: clients 0, 1, 2"
    )
    assert written["complete"]
    assert written["best"]["label_free"]["trial"] == written["best"]["oracle"]["trial"] == 1
    assert "trial 2 failed: 1 of 1 runs failed" in result.out
    assert fedgrid(*command).code == 1
    assert found(storage, "fails") == written


def test_filter_selects_the_runs_of_each_trial(tmp_path):
    search = load_search("briggs", {}, [], NOWHERE, own={"trials": 5}, filters=["dataset=mnist"], base=None)
    assert search.name == "briggs-mnist"
    assert len(search.base) == 8
    assert {run.algorithm.round for run in search.base} == {21}
    runs = search.build_runs({"threshold": 0.25})
    assert [run.scenario for run in runs] == [run.scenario for run in search.base]
    assert {run.algorithm.threshold for run in runs} == {0.25}
    assert {run.split.scored_on for run in runs} == {"validation"}


def test_option_adds_keys_of_training_to_the_space():
    """Of an algorithm that has a space, and of one that has none; Adam excludes FedNova, and momentum."""
    also = ["training.learning_rate={low: 0.01, high: 0.3, log: true}", "training.momentum=0,0.5"]
    search = load_search("briggs", {}, [], NOWHERE, own={}, base="quickstart", extra_settings=also)
    assert [*search.space][-2:] == ["training.learning_rate", "training.momentum"]
    assert search.axes[-3:] == ("algorithm.round", "training.learning_rate", "training.momentum")
    [*runs] = search.build_runs({"threshold": 0.2, "training.learning_rate": 0.05, "training.momentum": 0.5})
    assert {(run.training.learning_rate, run.training.momentum) for run in runs} == {(0.05, 0.5)}
    assert {run.algorithm.threshold for run in runs} == {0.2}
    alone, search = (
        load_search(name, {}, [], NOWHERE, own={}, extra_settings=["training.optimizer=sgd,adam"])
        for name in ("fedavg", "fednova")
    )
    assert [*alone.space] == ["training.optimizer"]
    for settings in (
        {"training.optimizer": "adam"},
        {"training.optimizer": "adam", "training.momentum": 0.5},
    ):
        with pytest.raises(ConfigError, match="adam"):
            search.build_runs(settings)


def test_the_algorithm_of_a_trial_knows_the_model(monkeypatch):
    seen = []
    monkeypatch.setattr(FedOpt, "problem", lambda self, given: seen.append((given.input_shape, given.layout)))
    search = load_search("briggs", {}, [], NOWHERE, own={}, base="quickstart")
    seen.clear()
    search.build_runs({"threshold": 0.2})
    assert {(shape, layout.head) for shape, layout in seen} == {((1, 8, 8), "5")}


def test_base_gives_the_settings_that_are_not_searched():
    """Quickstart's briggs clusters in round 6 of 15; of an algorithm that it lacks the defaults hold."""
    search = load_search("briggs", {}, [], NOWHERE, own={}, base="quickstart")
    assert [run.algorithm.round for run in search.base] == [6]
    assert [run.name for run in load_search("louvain", {}, [], NOWHERE, own={}, base="quickstart").base] == [
        "digits-15-nonoverlapping-balanced-louvain-s0"
    ]


def test_default_that_is_taken_back_stays_so_in_every_trial(write):
    """`evident-groups` fine-tunes by default; a trial changes another setting."""
    path = write(
        "dataset: digits\nalgorithm: {name: evident-groups, fine_tune: 0}\nsearch: {evidence: [4.0, 6.0]}\n"
    )
    (trial,) = load_search(path, {}, [], NOWHERE, own={}).build_runs({"evidence": 6.0})
    settings = build_algorithm(trial).settings
    assert (settings.evidence, settings.fine_tune) == (6.0, 0)


def test_command_line_overrides_the_file_of_a_search(write):
    path = write("algorithm: louvain\ntrials: 5\nobjective: silhouette\nsearch: {resolution: [1, 2]}\n")
    search = load_search(path, {"clients": 6}, [], NOWHERE, own={"trials": 7})
    assert (search.name, search.algorithm, search.trials) == ("mine", "louvain", 7)
    assert (search.objective, search.searcher) == ("silhouette", "optuna")
    assert [run.clients for run in search.base] == [6]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("searhc: {}", ["line 2", "'searhc'", "'search'"]),
        ("traning: {}", ["line 2", "'traning'", "'training'"]),
        ("search:\n  treshold: [1]", ["line 3", "'treshold' in search"]),
        ("trials: 0", ["line 2", "trials = 0", "at least 1"]),
        ("searcher: optima", ["line 2", "'optima'", "'optuna'"]),
        ("objective: f1", ["line 2", "'f1'", "known: validation, "]),
        ("early_stop: 1", ["line 2", "early_stop = 1", "true or false, or {at: "]),
        ("early_stop: {after: [1]}", ["line 2", "'after' in early_stop", "at, keep"]),
        ("early_stop: {at: [8, 4]}", ["line 2", "early_stop.at = [8, 4]", "ascending"]),
        ("early_stop: {at: [0.9, 2]}", ["early_stop.at = [0.9, 2]", "rounds 14, 2 of digits"]),
        ("early_stop: {at: [1.5]}", ["line 2", "early_stop.at = [1.5]", "ascending"]),
        ("early_stop: {at: [8], keep: 1}", ["line 2", "early_stop.keep = 1", "a share"]),
        ("early_stop: {at: [4, 15]}", ["in round 15", "has 15 rounds"]),
        ("early_stop: true\nevaluation: {every: 3}", ["in round 4 of digits-15-", "evaluation"]),
    ],
)
def test_error_in_a_search_file_names_its_line(write, text, parts):
    with pytest.raises(ConfigError) as refused:
        load_search(write(f"algorithm: {{name: briggs, round: 6}}\n{text}\n"), {}, [], NOWHERE, own={})
    assert [part for part in parts if part not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("[fedavg, {name: briggs, round: 6}]", "one algorithm, not fedavg, briggs"),
        ("fedavg", "built-in search space"),
    ],
)
def test_search_of_an_algorithm_without_a_space_or_of_two_is_refused(write, algorithm, message):
    with pytest.raises(ConfigError, match=message):
        load_search(write(f"algorithm: {algorithm}\n"), {}, [], NOWHERE, own={})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["brigs"], "no algorithm or file 'brigs'; did you mean 'briggs'? known: fedavg, "),
        (["briggs", "--base", "papr"], "unknown preset 'papr'; did you mean 'paper'?"),
        ([*ON_MNIST, "--trials", 0], "--trials: trials = 0"),
        ([*ON_MNIST, "--searcher", "tpe"], "--searcher: unknown searcher 'tpe'; known: optuna"),
        ([*ON_MNIST, "--searcher", "grid"], "or more, and this search 32 trials: use --trials"),
        ([*ON_MNIST, "--name", "a/b"], "a grid named 'a/b': expected letters, digits"),
        (["fedavg", "--space", "training.learning_rate"], "expected KEY=VALUE,VALUE"),
    ],
)
def test_error_on_the_search_command_line_starts_nothing(storage, arguments, message):
    before = sorted(storage.rglob("*"))
    result = fedgrid("search", *arguments, "--in-process", "--storage", storage)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert sorted(storage.rglob("*")) == before


def test_different_search_of_the_same_name_is_refused(undisturbed):
    storage, _ = undisturbed
    before = contents(storage)
    for option, value, key in (
        ("--objective", "ari", "objective"),
        ("--searcher", "random", "searcher"),
        ("--seed", 1, "runs and settings"),
    ):
        refused = fedgrid(*SEARCH, option, value, "--storage", storage)
        assert (refused.code, refused.out) == (2, "")
        assert f"{storage} has a search briggs-digits with another {key}" in refused.err
    assert contents(storage) == before


def test_search_with_the_name_of_a_grid_is_refused(undisturbed, tmp_path):
    storage = tmp_path / "copy"
    shutil.copytree(undisturbed[0], storage)
    (storage / "grids" / "briggs-digits" / "preset.yaml").write_text("dataset: digits\n")
    refused = fedgrid(*SEARCH, "--storage", storage)
    assert refused.code == 2
    assert "briggs-digits is already the name of a grid; give the search another --name" in refused.err


def test_search_on_a_kind_of_scenario_is_named_after_the_data_set():
    """The kind's name may have a dash, like those that part a scenario's name."""
    options = {"split": "label-skew", "clients": 4}
    assert load_search("briggs", options, ["training.rounds=1"], NOWHERE, own={}).name == "briggs-digits"


def test_dry_run_shows_the_next_batch_and_writes_nothing(undisturbed, tmp_path):
    """Four of six trials are done: their runs are finished, those of the next two are new."""
    before = contents(undisturbed[0])
    more = (*SEARCH[:-1], 6, "--storage", undisturbed[0], "--dry-run")
    result = fedgrid(*more)
    assert result.code == 0
    assert result.out.count(": finished\n") == 4
    assert result.out.count(": new\n") == 2
    assert "briggs-digits: 4 of 6 trials are done; 6 runs so far and in the next batch" in result.out
    assert contents(undisturbed[0]) == before

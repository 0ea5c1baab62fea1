"""Several runs in a row: each one goes its way to the end, or is kept as it was and told of."""

import fcntl
from pathlib import Path

import pytest
from command_line import new_storage
from mlflow.tracking import MlflowClient

from engine.errors import RunError
from engine.run_config import complete
from engine.run_folder import folder_of
from grids.backend import InProcessBackend
from grids.launch import all_done, forget, launch
from grids.track import RunLog

ROUNDS = 3


def config(seed):
    given = {"clients": 3, "training": {"rounds": ROUNDS}, "algorithm": "bnc", "seed": seed}
    return complete(given, Path("unused"))


RUNS = [config(seed=1), config(seed=2)]


class Breaking:
    """The backend of this process, which at one round of one run raises an error instead."""

    def __init__(self, inner, error, *, seed=None, number=None):
        self.opened = []
        self._inner = inner
        self._error = error
        self._at = (seed, number)
        self._number = 0
        self._seed = None

    def open(self, config, storage):
        self.opened.append(config.seed)
        self._seed = config.seed
        self._number = self._inner.open(config, storage)
        return self._number

    def submit_round(self):
        result = self._inner.submit_round()
        self._number += 1
        if (self._seed, self._number) == self._at:
            return self._fail
        return result

    def _fail(self):
        raise self._error


class News:
    """A reporter that remembers."""

    def __init__(self):
        self.told = []

    def start(self, config, rounds_done):
        self.told.append(("start", config.seed, rounds_done))

    def round(self, config, number, scores):
        self.told.append(("round", config.seed, number))

    def finish(self, outcome):
        self.told.append(("finish", outcome.config.seed, outcome.error))


@pytest.fixture(autouse=True)
def own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def storage(tmp_path):
    return new_storage(tmp_path / "runs")


@pytest.fixture
def run(storage, tmp_path):
    """Return a function that launches `RUNS`, told what breaks: it returns outcomes, news, runs opened."""

    def launched(error=None, *, seed=None, number=None):
        backend = Breaking(InProcessBackend(tmp_path), error, seed=seed, number=number)
        news = News()
        outcomes = launch(RUNS, storage, backend, RunLog("mine", storage, print), news)
        return outcomes, news.told, backend.opened

    return launched


def statuses(storage):
    """Return seed -> status of the runs in MLflow."""
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine")
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    return {int(run.data.tags["seed"]): run.info.status for run in found}


def test_runs_go_one_after_the_other(run, storage):
    outcomes, told, _ = run()
    assert told == [
        news
        for seed in (1, 2)
        for news in [
            ("start", seed, 0),
            *(("round", seed, number) for number in range(1, ROUNDS + 1)),
            ("finish", seed, None),
        ]
    ]
    assert [outcome.scores.rounds for outcome in outcomes] == [ROUNDS, ROUNDS]
    assert all((outcome.folder / "figures" / "temperature.png").exists() for outcome in outcomes)
    assert statuses(storage) == {1: "FINISHED", 2: "FINISHED"}
    assert all_done(RUNS, storage)


def test_a_finished_run_is_not_opened_again(run):
    before, _, _ = run()
    after, told, opened = run()
    assert opened == []
    assert told == [("finish", 1, None), ("finish", 2, None)]
    assert after == before


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RunError("client 2, round 2: its actor died"), "client 2, round 2: its actor died"),
        (ZeroDivisionError("a fault of ours"), "ZeroDivisionError: a fault of ours; see log.txt in "),
    ],
)
def test_a_run_that_fails_is_told_of_and_the_next_one_runs(run, storage, error, says):
    (failed, finished), told, _ = run(error, seed=1, number=2)
    assert failed.error.startswith(says)
    assert failed.scores is None
    assert finished.error is None
    assert ("round", 1, 1) in told
    assert ("round", 2, ROUNDS) in told
    assert statuses(storage) == {1: "FAILED", 2: "FINISHED"}
    assert not all_done(RUNS, storage)


def test_an_unforeseen_fault_leaves_its_traceback_in_the_log(run, storage):
    run(ZeroDivisionError("a fault of ours"), seed=1, number=2)
    log = (folder_of(storage, RUNS[0]) / "log.txt").read_text()
    assert "Traceback" in log
    assert log.rstrip().endswith("ZeroDivisionError: a fault of ours")


def test_a_run_that_failed_goes_on_the_next_time(run, storage):
    run(RunError("out of memory"), seed=1, number=3)
    outcomes, told, opened = run()
    assert opened == [1]
    assert told[:2] == [("start", 1, 2), ("round", 1, 3)]
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert statuses(storage) == {1: "FINISHED", 2: "FINISHED"}


def test_an_interruption_goes_through_and_mlflow_knows(run, storage):
    with pytest.raises(KeyboardInterrupt):
        run(KeyboardInterrupt(), seed=1, number=2)
    assert statuses(storage) == {1: "KILLED"}
    _, told, _ = run()
    assert told[0] == ("start", 1, 1)
    assert statuses(storage) == {1: "FINISHED", 2: "FINISHED"}


def test_a_run_that_another_process_is_at_is_left_to_it(run, storage):
    """A lock belongs to an open file: another one in this process stands for another process."""
    folder = folder_of(storage, RUNS[0])
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (contested, other), told, opened = run()
    assert "is in use by another process" in contested.error
    assert other.error is None
    assert opened == [2]


def test_what_mlflow_missed_is_logged_later_without_computing_it_again(run, storage, monkeypatch):
    """The server was away; the run's files are there; the default store has never heard of it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    run()
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert statuses(storage) == {}
    outcomes, told, _ = run()
    assert not [news for news in told if news[0] == "round"]
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert statuses(storage) == {1: "FINISHED", 2: "FINISHED"}
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    [first, _] = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    points = client.get_metric_history(first.info.run_id, "ari")
    assert [point.step for point in points] == list(range(1, ROUNDS + 1))


def test_forgetting_takes_these_runs_and_no_others(run, storage):
    run()
    forget(RUNS[:1], storage, RunLog("mine", storage, print))
    assert [folder_of(storage, config).exists() for config in RUNS] == [False, True]
    assert statuses(storage) == {2: "FINISHED"}

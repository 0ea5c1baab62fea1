"""Several runs in this process: each one goes its way to the end, is tried again, or is given up."""

import json

import pytest

import fedgrid.grids.execution.in_process
from fedgrid.engine.errors import RunError
from fedgrid.engine.run_folder import RunFolder, folder_of
from fedgrid.engine.session import Session
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.in_process import run_in_process
from fedgrid.grids.execution.watch import Watch
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.tally import Tally
from tests.helpers.small_grid import NOWHERE, ROUNDS, Log, News, config

RUNS = [config(seed=1), config(seed=2)]


class Breaking(Session):
    """A session that, in one round of one run, raises an error instead, so often."""

    error: Exception
    at: tuple[int, int]
    times = 1

    def open(self, config, storage):
        self._seed, self._number = config.seed, super().open(config, storage)
        return self._number

    def next_round(self):
        self._number += 1
        if (self._seed, self._number) == self.at and type(self).times:
            type(self).times -= 1
            raise self.error
        return super().next_round()


@pytest.fixture
def storage(tmp_path):
    return Storage.of(tmp_path / "runs")


@pytest.fixture
def run(storage, monkeypatch):
    """Return a function that launches `RUNS`, told what breaks; it returns the watch and the news."""

    def launched(error=None, *, at=(0, 0), times=1, retries=0, stop_after=None):
        kind = type("Broken", (Breaking,), {"error": error, "at": at, "times": times})
        monkeypatch.setattr(fedgrid.grids.execution.in_process, "Session", kind)
        reporter = News()
        folder = GridFolder(storage, "mine")
        folder.keep(RUNS, "")
        watch = Watch(
            folder=folder,
            storage=storage,
            tally=Tally(RUNS, {}),
            log=Log(),
            reporter=reporter,
            lease=Lease(storage, "mine"),
        )
        if stop_after is not None:
            tell = reporter.round

            def stop_then(config, number, scores):
                tell(config, number, scores)
                if number == stop_after:
                    watch.ask_to_stop()

            reporter.round = stop_then
        run_in_process(RUNS, storage, NOWHERE, watch, retries)
        return watch, reporter.told

    return launched


def rounds(seed, first=1):
    return [("round", seed, number) for number in range(first, ROUNDS + 1)]


def test_runs_go_one_after_the_other(run, storage):
    _, told = run()
    assert told == [
        news for seed in (1, 2) for news in [("start", seed, 0), *rounds(seed), ("finish", seed, None)]
    ]
    for run_config in RUNS:
        folder = folder_of(storage.root, run_config)
        assert (folder / "figures" / "temperature.png").exists()
        assert json.loads((folder / "scores.json").read_text())["rounds"] == ROUNDS
        assert RunFolder(storage, run_config).is_done


def test_a_run_that_fails_goes_on_from_its_last_round(run):
    watch, told = run(RunError("its actor died"), at=(1, 3), retries=1)
    assert told[:6] == [
        ("start", 1, 0),
        ("round", 1, 1),
        ("round", 1, 2),
        ("retry", 1, "its actor died", 1),
        ("start", 1, 2),
        ("round", 1, 3),
    ]
    assert watch.failures == []


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RunError("client 2, round 2: its actor died"), "client 2, round 2: its actor died"),
        (
            ZeroDivisionError("a fault of ours"),
            "ZeroDivisionError: a fault of ours; see log.txt in its folder",
        ),
    ],
)
def test_a_run_that_fails_too_often_is_given_up_and_the_next_one_runs(run, storage, error, says):
    watch, told = run(error, at=(1, 2), times=3, retries=2)
    assert [outcome.error for outcome in watch.failures] == [says]
    failure = RunFolder(storage, RUNS[0]).failure()
    assert (failure.cause, failure.attempts) == (says, 3)
    assert told[-5:] == [("start", 2, 0), *rounds(2), ("finish", 2, None)]


def test_a_run_given_up_is_taken_up_by_the_next_launch(run, storage):
    run(RunError("out of memory"), at=(1, 3), times=1)
    watch, told = run()
    assert told[:2] == [("start", 1, 2), ("round", 1, 3)]
    assert watch.failures == []
    assert RunFolder(storage, RUNS[0]).failure() is None


def test_a_stop_ends_after_the_round_and_starts_nothing_else(run):
    watch, told = run(stop_after=2)
    assert watch.all_stopped
    assert told == [
        ("start", 1, 0),
        ("round", 1, 1),
        ("round", 1, 2),
        ("stopping",),
        ("stop", 1),
    ]
    _, told = run()
    assert told[0] == ("start", 1, 2)

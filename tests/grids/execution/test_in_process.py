"""Several runs in this process: each is finished, retried, or recorded as failed."""

import json

import pytest

import fedgrid.grids.execution.run_events
from fedgrid.engine.federation.errors import FinalError, RunError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.execution.executors import InProcessExecutor
from fedgrid.grids.execution.run_events import RunPreparing, run_to_end
from fedgrid.grids.execution.watch import TICK_SECONDS, Watch
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.small_grid import NOWHERE, ROUNDS, View, config
from tests.helpers.time import FakeTime

RUNS = [config(seed=1), config(seed=2)]


class Breaking(Session):
    """A session that raises an error instead of one round of one run, `times` times."""

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
    return Storage.from_text(tmp_path / "runs")


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def run(storage, monkeypatch, time):
    """Return a function that launches `RUNS` with an error and returns the watch and the view's calls."""

    def launched(error=None, *, at=(0, 0), times=1, retries=0, stop_after=None, lose_after=None):
        kind = type("Broken", (Breaking,), {"error": error, "at": at, "times": times})
        monkeypatch.setattr("fedgrid.engine.runtime.run.session.Session", kind)
        view = View()
        folder = GridFolder(storage, "mine")
        folder.keep(RUNS, "")
        watch = Watch(
            folder=folder,
            storage=storage,
            tally=Tally(RUNS, {}),
            view=view,
            lease=Lease(storage, "mine"),
        )
        if stop_after is not None:
            tell = view.show_round

            def stop_then(config, number, scores):
                tell(config, number, scores)
                if number == stop_after:
                    watch.request_stop()

            view.show_round = stop_then
        if lose_after is not None:
            watch.now = lambda: watch._checked_at + 2 * TICK_SECONDS
            view.show_round = lambda config, number, scores: number == lose_after and watch.lease.lost.set()
        options = LaunchOptions(NOWHERE, retries=retries, cache=None)
        InProcessExecutor(options, time.clock).execute_runs(Grid("mine", tuple(RUNS), ""), RUNS, watch)
        return watch, view.calls

    return launched


@pytest.fixture
def _written_at_once(monkeypatch):
    """Each round is on disk before the next one trains: the order of events is the same on any machine."""
    written = "fedgrid.grids.execution.executors._is_written"
    monkeypatch.setattr(written, lambda write: write is None or write.exception() is None)


def rounds(seed, first=1):
    return [("round", seed, number) for number in range(first, ROUNDS + 1)]


def test_runs_go_one_after_another(run, storage):
    _, calls = run()
    assert calls == [
        call for seed in (1, 2) for call in [("start", seed, 0), *rounds(seed), ("finish", seed, None)]
    ]
    for run_config in RUNS:
        folder = build_folder_path(storage.root, run_config)
        assert json.loads((folder / "scores.json").read_text())["rounds"] == ROUNDS
        assert RunFolder(storage, run_config).is_done


def test_round_is_reported_once_it_is_on_disk_and_never_if_it_cannot_be_written(run, monkeypatch):
    save = RunFolder.save_rounds

    def save_one(folder, rounds):
        if rounds[-1][1].rounds_done > 1:
            raise RunError("the disk is gone")
        save(folder, rounds)

    monkeypatch.setattr(RunFolder, "save_rounds", save_one)
    watch, calls = run()
    assert calls[:3] == [("start", 1, 0), ("round", 1, 1), ("finish", 1, "the disk is gone")]
    assert [failure.cause for failure in watch.failures] == ["the disk is gone"] * 2


def test_failed_run_resumes_from_its_last_round(run):
    watch, calls = run(RunError("its actor died"), at=(1, 3), retries=1)
    assert calls[:6] == [
        ("start", 1, 0),
        ("round", 1, 1),
        ("round", 1, 2),
        ("retry", 1, "its actor died", 1),
        ("start", 1, 2),
        ("round", 1, 3),
    ]
    assert watch.failures == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RunError("client 2, round 2: its actor died"), "client 2, round 2: its actor died"),
        (
            ZeroDivisionError("a bug of ours"),
            "ZeroDivisionError: a bug of ours; see log.txt in its folder",
        ),
    ],
)
def test_next_run_starts_after_one_that_fails_too_often(run, storage, error, message):
    watch, calls = run(error, at=(1, 2), times=3, retries=2)
    assert [run.cause for run in watch.failures] == [message]
    failure = RunFolder(storage, RUNS[0]).read_failure()
    assert (failure.cause, failure.attempts) == (message, 3)
    assert calls[-5:] == [("start", 2, 0), *rounds(2), ("finish", 2, None)]


def test_a_run_that_would_fail_again_is_not_retried(run, storage):
    """A retry cannot mend NaN, nor a plugin's `1 / 0`; the next run starts all the same."""
    watch, calls = run(FinalError("round 2: every update is NaN"), at=(1, 2), times=9, retries=2)
    assert [run.cause for run in watch.failures] == ["round 2: every update is NaN"]
    assert RunFolder(storage, RUNS[0]).read_failure().attempts == 1
    assert "retry" not in {call[0] for call in calls}
    assert calls[-1] == ("finish", 2, None)


def test_pauses_between_retries_grow(run, time, monkeypatch):
    monkeypatch.setattr("fedgrid.engine.runtime.storage.clock.HEED_SECONDS", 60.0)
    run(RunError("out of memory"), at=(1, 1), times=3, retries=3)
    assert [longest / 2 <= pause <= longest for pause, longest in zip(time.pauses, (1, 2, 4), strict=True)]


@pytest.mark.usefixtures("_written_at_once")
def test_lost_lease_ends_the_launch_and_is_no_failure_of_a_run(run, storage):
    with pytest.raises(RunError, match="another fedgrid has taken over"):
        run(lose_after=1, retries=2)
    assert [RunFolder(storage, config).read_failure() for config in RUNS] == [None, None]
    assert RunFolder(storage, RUNS[0]).rounds_done == 1


@pytest.mark.parametrize("step", ["open", "write_scores"])
def test_unexpected_error_outside_a_round_is_in_the_log_that_the_message_names(run, monkeypatch, step):
    def bug(*_):
        raise KeyError("a bug of ours")

    if step == "open":
        monkeypatch.setattr(Breaking, "open", bug)
    else:
        monkeypatch.setattr(fedgrid.grids.execution.run_events, "write_scores", bug)
    watch, _ = run()
    for failed in watch.failures:
        assert failed.cause.endswith("see log.txt in its folder")
        text = (failed.folder / "log.txt").read_text()
        assert "Traceback" in text
        assert "a bug of ours" in text


def test_next_launch_resumes_a_failed_run(run, storage):
    run(RunError("out of memory"), at=(1, 3), times=1)
    watch, calls = run()
    assert calls[:2] == [("start", 1, 2), ("round", 1, 3)]
    assert watch.failures == []
    assert RunFolder(storage, RUNS[0]).read_failure() is None


@pytest.mark.usefixtures("_written_at_once")
def test_stop_ends_after_the_round_and_starts_no_other_run(run):
    watch, calls = run(stop_after=1)
    assert watch.all_stopped
    assert calls == [("start", 1, 0), ("round", 1, 1), ("stopping",), ("stop", 1)]
    _, calls = run()
    assert calls[0] == ("start", 1, 1)


def test_a_run_says_what_its_encoder_is_trained_on_before_it_opens(storage):
    encoder = {"public": "reference", "epochs": 5, "federated": 3}
    split = {"reference_images": 100}
    run = config(seed=1, algorithm={"name": "embeddings", "encoder": encoder}, split=split)
    events = run_to_end(object(), run, storage, lambda: False)
    assert next(events) == RunPreparing("5 epochs of reference, then 3 federated rounds")
    pixels = config(seed=1, algorithm={"name": "embeddings", "encoder": "pixels"})
    with pytest.raises(AttributeError, match="open"):
        next(run_to_end(object(), pixels, storage, lambda: False))

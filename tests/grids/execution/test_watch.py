"""What the driver does with the events of its runs."""

import json
from dataclasses import replace

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.clock import Patience
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.execution.run_events import RoundDone, RunFinished, RunPreparing, RunStarted, RunStopped
from fedgrid.grids.execution.watch import IDLE_SECONDS, Watch
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.round_cache.retention import Retention
from tests.helpers.cached_rounds import list_prefixes_with_states, store_rounds
from tests.helpers.small_grid import View, config, run_seed
from tests.helpers.time import FakeTime

TIMING = {"seconds": 1.0, "train_seconds": 0.5, "evaluate_seconds": 0.2, "ended_ms": 4000}


class Clock:
    time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watched(tmp_path, clock):
    """Return a watch over two runs, whose screen records its calls."""
    storage = Storage.from_text(tmp_path / "runs")
    folder = GridFolder(storage, "mine")
    runs = [config(seed=1), config(seed=2)]
    folder.keep(runs, "")
    lease = Lease(storage, "mine")
    watch = Watch(
        folder=folder,
        storage=storage,
        tally=Tally(runs, {}, now=clock),
        view=View(),
        lease=lease,
        retention=Retention(folder, storage, lambda _: None),
        check_cluster=lambda: watch.checked.append(True),
        now=clock,
    )
    watch.retention.begin_launch()
    watch.checked = []
    return watch, storage, folder, lease


def test_events_are_counted_and_go_to_the_screen(watched):
    watch, storage, *_ = watched
    run = run_seed(storage, seed=1)
    watch.handle_event(run, RunPreparing("3 federated rounds"))
    assert not watch.tally.running
    watch.handle_event(run, RunStarted(2))
    watch.handle_event(run, RoundDone(3, TIMING))
    assert watch.tally.running == {run.run_id: (run, 3)}
    watch.handle_event(run, RunFinished())
    assert (watch.tally.done, watch.tally.running) == (1, {})
    assert watch.view.calls == [
        ("prepare", 1, "3 federated rounds"),
        ("start", 1, 2),
        ("round", 1, 3),
        ("finish", 1, None),
    ]


@pytest.mark.parametrize(
    ("stored", "what"),
    [(1, "round 1 was stored and is"), (2, "rounds 1 to 2 were stored and are")],
)
def test_run_that_cannot_use_its_stored_rounds_says_so_once_in_one_line(watched, capsys, stored, what):
    watch, *_ = watched
    run, whole = config(seed=1), config(seed=2)
    watch.tally = Tally([run, whole], {run.run_id: stored, whole.run_id: 2})
    watch.handle_event(whole, RunStarted(2))
    watch.handle_event(run, RunStarted(0))
    watch.record_retry(run, "client 3 died", 1)
    watch.handle_event(run, RunStarted(0))
    assert capsys.readouterr().err == (
        f"warning: {run.name}: {what} computed again; log.txt in its folder says why\n"
    )


def test_finished_run_releases_its_cached_states(watched):
    watch, storage, *_ = watched
    runs = [run_seed(storage, seed=1), config(seed=2)]
    store_rounds(storage, *runs)
    watch.handle_event(runs[0], RunStarted(0))
    watch.handle_event(runs[0], RunFinished())
    watch.handle_event(runs[1], RunStarted(0))
    watch.record_failure(runs[1], "client 3 died", 1)
    assert list_prefixes_with_states(storage) == {runs[1].shared_prefix}


def test_failed_run_records_its_cause_and_the_grid_goes_on(watched):
    watch, storage, *_ = watched
    run = config(seed=1)
    watch.handle_event(run, RunStarted(0))
    watch.record_retry(run, "client 3 died", 1)
    watch.handle_event(run, RunStarted(0))
    watch.record_failure(run, "client 3 died again", 2)
    failure = RunFolder(storage, run).read_failure()
    assert (failure.cause, failure.attempts) == ("client 3 died again", 2)
    assert [run.cause for run in watch.failures] == ["client 3 died again"]
    assert watch.view.calls[-1] == ("finish", 1, "client 3 died again")
    assert (watch.tally.failed, watch.tally.num_waiting) == (1, 1)


def test_stop_waits_for_the_rounds_under_way(watched):
    watch, _, folder, _ = watched
    run = config(seed=1)
    watch.handle_event(run, RunStarted(0))
    watch.request_stop()
    assert folder.is_stop_requested()
    assert not watch.all_stopped
    watch.handle_event(run, RunStopped())
    assert watch.all_stopped
    assert watch.tally.num_waiting == 2


def test_stop_request_of_another_process_is_noticed(watched, clock):
    watch, storage, _, _ = watched
    GridFolder(storage, "mine").request_stop()
    clock.time += 2
    watch.check_launch()
    assert watch.stopping


def test_progress_is_written_every_five_seconds(watched, clock):
    watch, _, folder, _ = watched
    clock.time += 4.9
    watch.check_launch()
    assert folder.read_progress() is None
    clock.time += 1.1
    watch.check_launch()
    assert folder.read_progress() == json.loads(json.dumps(watch.tally.as_dict()))


def test_driver_ends_when_its_lease_is_lost(watched, clock):
    watch, _, _, lease = watched
    lease.lost.set()
    clock.time += 2
    with pytest.raises(RunError, match="another fedgrid has taken over this storage"):
        watch.check_launch()


def test_one_failed_look_at_the_storage_does_not_end_the_grid(watched, clock, monkeypatch):
    """A network file system fails for some seconds: for stop mark, progress and a failed run's mark."""
    watch, storage, folder, _ = watched
    time, warnings = FakeTime(), []
    monkeypatch.setattr(
        watch, "storage", replace(storage, patience=Patience(60, warnings.append, time.clock))
    )
    for thing, name in (
        (folder, "is_stop_requested"),
        (folder, "write_progress"),
        (RunFolder, "mark_failed"),
    ):
        monkeypatch.setattr(thing, name, failing(2, getattr(thing, name)))
    clock.time += 6
    watch.check_launch()
    watch.record_failure(config(seed=1), "client 3 died", 1)
    assert folder.read_progress() is not None
    assert RunFolder(storage, config(seed=1)).read_failure().cause == "client 3 died"
    assert len(time.pauses) >= 6
    assert ["Input/output error" in line for line in warnings] == [True] * 3


def failing(times, call):
    """Return `call` with a disk error instead of each of the first calls."""
    left = [OSError(5, "Input/output error")] * times

    def called(*arguments):
        if left:
            raise left.pop()
        return call(*arguments)

    return called


def test_storage_that_stays_away_ends_the_grid_in_one_line(watched, clock, monkeypatch):
    watch, storage, folder, _ = watched
    time = FakeTime()
    monkeypatch.setattr(watch, "storage", replace(storage, patience=Patience(300, clock=time.clock)))
    monkeypatch.setattr(folder, "is_stop_requested", failing(10_000, None))
    clock.time += 2
    with pytest.raises(RunError, match="Input/output error; run the same command again to continue"):
        watch.check_launch()
    assert time.seconds == 1300


def test_screen_gets_the_scores_that_are_on_disk_and_none_of_a_round_that_is_not_seen_yet(watched):
    watch, storage, *_ = watched
    run, shown = run_seed(storage, seed=1), []
    watch.view.show_round = lambda config, number, scores: shown.append(scores.get("clusters"))
    watch.handle_event(run, RunStarted(0))
    for number in (1, 2, 3, 4):
        watch.handle_event(run, RoundDone(number, TIMING))
    assert shown == [1, 1, 1, None]
    (build_folder_path(storage.root, run) / "scores.json").unlink()
    watch.view.show_result = lambda config, run: shown.append(dict(run.scores))
    watch.handle_event(run, RunFinished())
    assert shown[-1] == {}


def test_cluster_is_checked_after_a_minute_without_a_run(watched, clock):
    watch, *_ = watched
    clock.time = IDLE_SECONDS
    watch.check_launch()
    assert watch.checked == []
    watch.handle_event(config(seed=1), RunStarted(0))
    clock.time = 2 * IDLE_SECONDS
    watch.check_launch()
    watch.handle_event(config(seed=1), RunStopped())
    clock.time = 3 * IDLE_SECONDS + 2
    watch.check_launch()
    assert watch.checked == [True]

"""Runs as Ray Tune trials: the same bytes as in this process, a bad one among them, a server killed."""

import os
import signal
from pathlib import Path

import pytest

from fedgrid.engine.clients.placement import Placement
from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.run_folder import RunFolder, folder_of
from fedgrid.engine.session import Session
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import take_forward
from fedgrid.grids.execution.watch import Watch
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.tally import Tally
from tests.helpers.small_grid import NOWHERE, Log, News, config

GOOD = [config(seed=1), config(seed=2, algorithm="ocfl-kmeans")]
BAD = config(seed=3, training={"rounds": 3, "learning_rate": 1e30})
"""Its updates are infinite."""
CLOCKS = ("timings.parquet", "log.txt")

pytestmark = [pytest.mark.ray, pytest.mark.slow]


class Killing(News):
    """A screen that, after the first round of a run, kills the run's server."""

    def __init__(self, seed):
        super().__init__()
        self._seed = seed

    def round(self, config, number, scores):
        super().round(config, number, scores)
        if (config.seed, number) == (self._seed, 1):
            self._seed = None
            [pid, *_] = servers()
            os.kill(pid, signal.SIGKILL)


def servers():
    """Return the pids of this process's trials."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text().startswith("ray::Trial"):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def launch(runs, storage, reporter, *, retries):
    """Run `runs` one at a time, as each takes all of the session's CPUs."""
    from fedgrid.grids.execution.trial import Job
    from fedgrid.grids.execution.tune import run_trials

    folder = GridFolder(storage, "mine")
    folder.keep(runs, "")
    tally, lease = Tally(runs, {}), Lease(storage, "mine")
    watch = Watch(folder=folder, storage=storage, tally=tally, log=Log(), reporter=reporter, lease=lease)
    run_trials(Job("mine", runs, {3: Placement(1, 3.5, 0.0)}, storage, NOWHERE), watch, retries)
    return watch


def contents(root, config):
    folder = folder_of(root, config)
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in CLOCKS)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    storage = Storage.of(tmp_path_factory.mktemp("undisturbed"))
    session = Session(InProcessPool(), NOWHERE)
    for run in GOOD:
        for _ in take_forward(session, run, storage, lambda: False):
            pass
    return storage.root


def test_a_killed_server_and_a_bad_run_change_no_number_of_the_others(ray_session, undisturbed, tmp_path):
    storage, reporter = Storage.of(tmp_path), Killing(seed=2)
    watch = launch([BAD, *GOOD], storage, reporter, retries=1)

    assert [outcome.config.seed for outcome in watch.failures] == [3]
    assert watch.failures[0].error.startswith("clients 0, 1, 2, round 1: every update is NaN or infinite")
    assert RunFolder(storage, BAD).failure().attempts == 2
    [retry] = [news for news in reporter.told if news[:2] == ("retry", 2)]
    assert retry[2].startswith("the run's server died: ")
    assert (watch.tally.done, watch.tally.failed, watch.tally.waiting) == (2, 1, 0)
    for run in GOOD:
        assert contents(tmp_path, run) == contents(undisturbed, run)


def test_a_stop_asked_for_beforehand_starts_no_round(ray_session, tmp_path):
    storage, reporter = Storage.of(tmp_path), News()
    GridFolder(storage, "mine").keep(GOOD, "")
    GridFolder(storage, "mine").ask_to_stop()
    launch(GOOD, storage, reporter, retries=0)
    assert [news for news in reporter.told if news[0] in ("round", "finish")] == []

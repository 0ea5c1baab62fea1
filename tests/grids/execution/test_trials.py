"""Runs as Ray Tune trials: the same bytes as in this process, whichever server fails, dies or hangs."""

import os
import re
import signal

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import FAILED, RunFolder, build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.clock import Deadlines
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.execution.server_deadlines import ServerDeadlines
from fedgrid.grids.execution.watch import Watch
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers import stored_runs
from tests.helpers.processes import list_processes, select_kind
from tests.helpers.small_grid import NOWHERE, View, config

GOOD = config(seed=1, algorithm="ocfl-kmeans")
BAD = config(seed=2, algorithm={"name": "fedavg", "server_learning_rate": 1e38})
"""Its updates are infinite in the second round."""
CLOCKS = (*stored_runs.CLOCKS, FAILED)

pytestmark = [pytest.mark.ray, pytest.mark.slow]


SIGNALS = {BAD.seed: signal.SIGSTOP, GOOD.seed: signal.SIGKILL}
"""Seed of a run -> what its server gets after the first round."""


class Clock:
    """Stands still but while `runs`: then each look at it is a minute after the one before."""

    def __init__(self):
        self.runs = False
        self._seconds = 0.0

    def __call__(self):
        self._seconds += 60.0 * self.runs
        return self._seconds


class Striking(View):
    """Kills or stops a run's server after the run's first round, and kills it idle when a run is finished.

    The clock runs only while a server is stopped: no other is silent, however slow the machine is.
    """

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        self._left = dict(SIGNALS)

    def show_round(self, config, number, scores):
        super().show_round(config, number, scores)
        if number == 1 and config.seed in self._left:
            [pid, *_] = servers()
            struck = self._left.pop(config.seed)
            os.kill(pid, struck)
            self._clock.runs = struck == signal.SIGSTOP

    def show_retry(self, config, cause, attempt):
        super().show_retry(config, cause, attempt)
        self._clock.runs = False

    def show_result(self, config, run):
        super().show_result(config, run)
        for pid in servers():
            os.kill(pid, signal.SIGKILL)


def servers():
    """Return the process ids of the server actors of this session."""
    return select_kind("server", list_processes(os.getpid()))


def launch(runs, storage, view, clock, *, retries):
    """Run `runs` one at a time, as each takes all of the session's CPUs."""
    from fedgrid.grids.execution.server_trainable import LaunchContext
    from fedgrid.grids.execution.tune import run_trials

    deadlines = ServerDeadlines(Deadlines(clock, first=300, least=10, times_slowest=1))
    folder = GridFolder(storage, "mine")
    folder.keep(runs, "")
    with Lease(storage, "mine") as lease:
        watch = Watch(folder=folder, storage=storage, tally=Tally(runs, {}), view=view, lease=lease)
        places = {3: Placement(1, 3.5, 0.0)}
        options = LaunchOptions(NOWHERE, retries=retries, cache=None)
        # Each round is reported at once: the view strikes after the first.
        context = LaunchContext("mine", runs, places, storage, options, lease.token, gather_seconds=0.0)
        run_trials(context, watch, deadlines)
    return watch


def contents(root, config):
    folder = build_folder_path(root, config)
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in CLOCKS)
    # A run that failed has its times in a file that is named by what they are.
    return {path.name: path.read_bytes() for path in paths if not path.name.startswith("timings-")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    storage = Storage.from_text(tmp_path_factory.mktemp("undisturbed"))
    session = Session(InProcessPool(), NOWHERE)
    for _ in run_to_end(session, GOOD, storage, lambda: False):
        pass
    with pytest.raises(RunError, match="round 2: every update is NaN or infinite"):
        list(run_to_end(session, BAD, storage, lambda: False))
    return storage.root


def test_killed_hanging_and_failed_runs_change_no_number(ray_session, undisturbed, tmp_path):
    """The servers of both die after a round, one because it hung. Then the first run is finished.

    Its server is killed before the other run starts on it. That run fails by itself in the end.
    """
    storage, clock = Storage.from_text(tmp_path), Clock()
    view = Striking(clock)
    watch = launch([GOOD, BAD], storage, view, clock, retries=2)

    assert [run.run_id for run in watch.failures] == [BAD.run_id]
    assert watch.failures[0].cause.startswith("clients 0, 1, 2, round 2: every update is NaN or infinite")
    assert RunFolder(storage, BAD).read_failure().attempts == 3
    causes = [
        (call[1], call[3], re.split(": | for ", call[2])[0]) for call in view.calls if call[0] == "retry"
    ]
    assert causes == [
        (GOOD.seed, 1, "the run's server died"),
        (BAD.seed, 1, "its server did not respond"),
        (BAD.seed, 2, "the run's server died"),
    ]
    assert (watch.tally.done, watch.tally.failed, watch.tally.num_waiting) == (1, 1, 0)
    for run in (GOOD, BAD):
        assert contents(tmp_path, run) == contents(undisturbed, run)


def test_stop_before_the_launch_starts_no_round(ray_session, tmp_path):
    storage, view = Storage.from_text(tmp_path), View()
    runs = [GOOD, config(seed=2)]
    GridFolder(storage, "mine").keep(runs, "")
    GridFolder(storage, "mine").request_stop()
    launch(runs, storage, view, Clock(), retries=0)
    assert [call for call in view.calls if call[0] in ("round", "finish")] == []

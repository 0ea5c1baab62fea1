"""The process of a tracker, as its driver sees it. That runs are logged so is seen in tests/e2e."""

import os
import signal
import sys
from multiprocessing import Pipe
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following import process
from fedgrid.grids.following.follow import Pauses, Trackers
from fedgrid.grids.following.process import OwnProcess, serve
from fedgrid.grids.following.teller import News, Teller
from fedgrid.grids.trackers.errors import TrackerFailed
from tests.helpers.logged_runs import config_of

CONFIG = config_of(0)


class Canned:
    """A teller that has answers prepared."""

    def prepare(self):
        """Nothing is to be imported."""

    def tell(self, news):
        if news.status == "FAILED":
            raise OSError(28, "No space left on device")
        return news.started_ms

    def make(self):
        raise TrackerFailed("no server answers at http://user:secret@host")


@pytest.fixture
def served(monkeypatch):
    """Return the process of a `Canned` teller, whose other side is a thread."""
    threads = []

    class Process:
        def kill(self):
            """A thread ends with its pipe."""

        def wait(self):
            """As above."""

    def start(self):
        self._pipe, theirs = Pipe()
        threads.append(Thread(target=serve, args=(theirs,)))
        threads[-1].start()
        self._pipe.send(self._teller)
        return Process()

    monkeypatch.setattr(OwnProcess, "_start", start)
    canned = OwnProcess(Canned(), "MLflow")
    yield canned
    canned._pipe.close()
    for thread in threads:
        thread.join()


def test_call_is_answered_and_a_failure_has_the_same_words(served):
    assert served.call("tell", News(CONFIG, None, 3)) == 3
    with pytest.raises(TrackerFailed, match=r"^no server answers at http://\S*@host$"):
        served.call("make")
    with pytest.raises(TrackerFailed, match="No space left on device"):
        served.call("tell", News(CONFIG, "FAILED"))
    assert served.call("tell", News(CONFIG, "FINISHED", 0)) == 0


@pytest.mark.parametrize("code", ["", "import os; os.kill(os.getpid(), 9)"])
def test_death_of_the_process_is_a_failure_and_the_next_call_starts_another(monkeypatch, code):
    started = []
    plain = process.subprocess.Popen

    def popen(command, **options):
        started.append(plain([sys.executable, "-S", "-c", code], **options))
        return started[-1]

    monkeypatch.setattr(process.subprocess, "Popen", popen)
    own = OwnProcess(Canned(), "tracker mine")
    for number in (1, 2):
        with pytest.raises(TrackerFailed, match="tracker mine: its process died in 'tell'"):
            own.call("tell", News(CONFIG))
        assert len(started) == number
    own.close()
    with pytest.raises(TrackerFailed):
        own.call("tell", News(CONFIG))
    assert len(started) == 2
    assert all(each.returncode is not None for each in started)


def test_process_whose_driver_has_ended_before_it_began_ends(monkeypatch):
    ended = []
    monkeypatch.setattr(process.os, "getppid", lambda: 1)
    monkeypatch.setattr(process.os, "_exit", ended.append)
    monkeypatch.setattr(
        "ctypes.CDLL", lambda name: type("C", (), {"prctl": lambda *given: ended.append(given)})
    )
    process._end_with(os.getpid())
    assert ended[-1] == 0
    assert sys.platform != "linux" or ended[0][-1] == signal.SIGKILL


def test_process_that_has_imported_mlflow_writes_itself(tmp_path):
    import mlflow  # noqa: F401

    trackers = Trackers("mine", Storage(tmp_path), print)
    with trackers.own_processes():
        assert trackers._followers[0]._process is None


def test_thread_that_the_store_keeps_waiting_never_writes_in_this_process(monkeypatch, tmp_path):
    """It would import MLflow while the rest of the process goes on, perhaps with an import of its own."""
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    connected, warnings = [], []
    monkeypatch.setattr(Teller, "make", connected.append)

    class Silent:
        """A process that answers nothing until it is killed."""

        def __init__(self, pipe):
            self.kill = pipe.close

        def wait(self):
            """It has ended."""

    def start(self):
        self._pipe, theirs = Pipe()
        return Silent(theirs)

    monkeypatch.setattr(OwnProcess, "_start", start)
    pauses = Pauses(gather=0, retry=0, flush=0, start=0)
    trackers = Trackers("mine", Storage(tmp_path), warnings.append, pauses=pauses)
    with trackers.own_processes(), trackers:
        trackers.tell(CONFIG)
    trackers._followers[0]._thread.join()
    assert connected == []
    assert any("fedgrid sync mine" in warning for warning in warnings)


def test_slow_start_is_waited_for_and_named(tmp_path):
    starting, warnings = SimpleNamespace(ready=Event()), []

    def warn(line):
        warnings.append(line)
        starting.ready.set()

    [follower] = Trackers("mine", Storage(tmp_path), warn, pauses=Pauses(flush=0))._followers
    follower._process = starting
    follower._wait_for_start()
    follower._wait_for_start()
    [line] = warnings
    assert line.startswith("MLflow is still starting")
    assert "300 s" in line


def test_call_and_stop_may_end_the_same_process(monkeypatch):
    """The thread that calls sees the pipe's end while `close` waits for the process that it killed."""

    class Killed:
        """A process whose end the calling thread notices first."""

        def kill(self):
            """It ends, and the call that waits for its answer ends it too."""
            with pytest.raises(TrackerFailed, match="died"):
                own.call("make")

        def wait(self):
            """It has ended."""

    def start(self):
        self._pipe, theirs = Pipe()
        theirs.close()
        return Killed()

    monkeypatch.setattr(OwnProcess, "_start", start)
    own = OwnProcess(Canned(), "MLflow")
    own.close()

"""The process that writes to MLflow, as its driver sees it. That runs are logged so is seen in tests/e2e."""

import os
import signal
import sys
from multiprocessing import Pipe
from threading import Thread

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.mlflow_log import own_process
from fedgrid.grids.mlflow_log.own_process import ProcessWriter, serve
from fedgrid.grids.mlflow_log.run_log import Pauses, RunLog
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.tracking.mlflow.store import TrackingError
from tests.helpers.logged_runs import config_of

CONFIG = config_of(0)


class Canned:
    """A writer that has answers prepared."""

    def write(self, config, status, started, records):
        return started

    def connect(self, text):
        raise TrackingError("no server answers at http://user:secret@host")

    def close(self, status):
        raise KeyError(status)


@pytest.fixture
def served(monkeypatch):
    """Return a `ProcessWriter` of a `Canned` one, whose other side is a thread."""
    threads = []

    class Process:
        def kill(self):
            """A thread ends with its pipe."""

        def wait(self):
            """As above."""

    def start(self):
        self._pipe, theirs = Pipe()
        self._has_writer = False
        threads.append(Thread(target=serve, args=(theirs,)))
        threads[-1].start()
        return Process()

    monkeypatch.setattr(ProcessWriter, "_start", start)
    writer = ProcessWriter(Canned())
    yield writer
    writer._pipe.close()
    for thread in threads:
        thread.join()


def test_call_is_answered_and_errors_are_tracking_errors_in_the_same_words(served):
    assert served.write(CONFIG, None, 3) == 3
    with pytest.raises(TrackingError, match=r"^no server answers at http://\S*@host$"):
        served.connect()
    with pytest.raises(TrackingError, match="MLflow: KeyError"):
        served.close("FINISHED")
    assert served.write(CONFIG, "FINISHED", 0) == 0


@pytest.mark.parametrize("code", ["", "import os; os.kill(os.getpid(), 9)"])
def test_death_of_the_process_is_an_error_of_the_store_and_the_next_call_starts_another(monkeypatch, code):
    started = []
    plain = own_process.subprocess.Popen

    def popen(command, **options):
        started.append(plain([sys.executable, "-S", "-c", code], **options))
        return started[-1]

    monkeypatch.setattr(own_process.subprocess, "Popen", popen)
    writer = ProcessWriter(Canned())
    for number in (1, 2):
        with pytest.raises(TrackingError, match="process that writes to MLflow died in 'write'"):
            writer.write(CONFIG, None)
        assert len(started) == number
    writer.stop()
    with pytest.raises(TrackingError):
        writer.write(CONFIG, None)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_process_whose_driver_has_ended_before_it_began_ends(monkeypatch):
    ended = []
    monkeypatch.setattr(own_process.os, "getppid", lambda: 1)
    monkeypatch.setattr(own_process.os, "_exit", ended.append)
    monkeypatch.setattr(
        "ctypes.CDLL", lambda name: type("C", (), {"prctl": lambda *given: ended.append(given)})
    )
    own_process._end_with(os.getpid())
    assert ended[-1] == 0
    assert sys.platform != "linux" or ended[0][-1] == signal.SIGKILL


def test_process_that_has_imported_mlflow_writes_itself(tmp_path):
    import mlflow  # noqa: F401

    log = RunLog("mine", Storage(tmp_path), print)
    with log.own_process():
        assert log._at_work is log.writer


def test_thread_that_the_store_keeps_waiting_never_writes_in_this_process(monkeypatch, tmp_path):
    """It would import MLflow while the rest of the process goes on, perhaps with an import of its own."""
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    connected, warnings = [], []
    monkeypatch.setattr(Writer, "connect", lambda self, text: connected.append(text))

    class Silent:
        """A process that answers nothing until it is killed."""

        def __init__(self, pipe):
            self.kill = pipe.close

        def wait(self):
            """It has ended."""

    def start(self):
        self._pipe, theirs = Pipe()
        self._has_writer = False
        return Silent(theirs)

    monkeypatch.setattr(ProcessWriter, "_start", start)
    log = RunLog("mine", Storage(tmp_path), warnings.append, pauses=Pauses(gather=0, retry=0, flush=0))
    with log.own_process(), log:
        log.round(CONFIG)
    log._thread.join()
    assert connected == []
    assert any("fedgrid sync mine" in warning for warning in warnings)


def test_call_and_stop_may_end_the_same_process(monkeypatch):
    """The thread that calls sees the pipe's end while `stop` waits for the process that it killed."""

    class Killed:
        """A process whose end the calling thread notices first."""

        def kill(self):
            """It ends, and the call that waits for its answer ends it too."""
            with pytest.raises(TrackingError, match="died"):
                process.connect()

        def wait(self):
            """It has ended."""

    def start(self):
        self._pipe, theirs = Pipe()
        self._has_writer = False
        theirs.close()
        return Killed()

    monkeypatch.setattr(ProcessWriter, "_start", start)
    process = ProcessWriter(Canned())
    process.stop()

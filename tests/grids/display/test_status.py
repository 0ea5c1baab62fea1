"""`fedgrid status`, `stop` and `retry` for a grid that another process may be running."""

import json
from contextlib import ExitStack
from io import StringIO

import pytest

from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display import status as status_module
from fedgrid.grids.display.plain_console import PlainConsole
from fedgrid.grids.display.status import read_status, watch_status
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.small_grid import config, run_seed

RUNS = [config(seed=seed) for seed in (1, 2, 3, 4)]


@pytest.fixture
def storage(tmp_path):
    """Of four runs one is done, one was given up, one is under way and one waits."""
    storage = Storage.from_text(new_storage(tmp_path / "runs"))
    run_seed(storage, seed=1)
    RunFolder(storage, RUNS[1]).mark_failed("client 2, round 1: out of memory", 3)
    folder = GridFolder(storage, "mine")
    folder.keep(RUNS, "clients: 3\n")
    tally = Tally(RUNS[1:], {}, finished_before=1)
    tally.count_start(RUNS[2], 0)
    tally.count_round(RUNS[2], 1, {"seconds": 1.0, "train_seconds": 0.5, "evaluate_seconds": 0.5})
    folder.write_progress(tally.as_dict())
    return storage


def test_status_of_a_running_grid(storage):
    with Lease(storage, "mine"):
        found = read_status("mine", storage)
    counts = {name: found[name] for name in ("total", "done", "running", "waiting", "failed")}
    assert counts == {"total": 4, "done": 1, "running": 1, "waiting": 1, "failed": 1}
    assert found["driver"]
    assert [(run["run"], run["round"], run["rounds"]) for run in found["runs"]] == [(RUNS[2].name, 1, 3)]
    [failure] = found["failures"]
    assert (failure["run_id"], failure["attempts"]) == (RUNS[1].run_id, 3)
    assert failure["cause"] == "client 2, round 1: out of memory"
    without_driver = read_status("mine", storage)
    assert (without_driver["driver"], without_driver["runs"], without_driver["seconds_left"]) == (
        None,
        [],
        None,
    )
    assert (without_driver["running"], without_driver["waiting"]) == (0, 2)


def test_damaged_progress_is_named_and_left_out(storage, capsys):
    (GridFolder(storage, "mine").path / "progress.json").write_text("{")
    with Lease(storage, "mine"):
        found = read_status("mine", storage)
    assert (found["runs"], found["seconds_left"]) == ([], None)
    assert "grids/mine/progress.json is damaged" in capsys.readouterr().err.replace("\n", "")


def test_watch_shows_a_grid_until_its_driver_has_ended(storage, monkeypatch):
    """The driver ends between two looks; the last page stays on the terminal."""
    console = PlainConsole(file=StringIO(), force_terminal=True, force_interactive=True, width=120)
    with ExitStack() as driver:
        driver.enter_context(Lease(storage, "mine"))
        monkeypatch.setattr(status_module.time, "sleep", lambda seconds: driver.close())
        watch_status("mine", storage, False, console)
    before, _, after = console.file.getvalue().rpartition("\x1b[2K")
    assert "1 done, 1 running, 1 waiting, 1 failed" in before
    assert "mine: not running\n4 runs: 1 done, 0 running, 2 waiting, 1 failed\n" in after


@pytest.mark.parametrize("options", [("mine",), ()], ids=["a file", "all grids"])
def test_watch_without_a_terminal_or_a_grid_is_refused(storage, options):
    result = fedgrid("status", *options, "--watch", "--storage", storage.root)
    assert (result.code, result.out) == (2, "")
    assert "--watch shows one grid on a terminal" in result.err


def test_status_is_printed_as_text_and_json(storage):
    result = fedgrid("status", "mine", "--storage", storage.root)
    assert result.code == 0
    assert "mine: not running\n4 runs: 1 done, 0 running, 2 waiting, 1 failed\n" in result.out
    assert "out of memory" in result.out
    assert (
        f"`fedgrid run mine --failed --storage {storage.root}` runs them again from their last rounds."
        in result.out
    )
    assert json.loads(fedgrid("status", "mine", "--storage", storage.root, "--json").out)["failed"] == 1


def test_stop_asks_the_driver_of_a_running_grid(storage):
    with Lease(storage, "mine"):
        result = fedgrid("stop", "mine", "--storage", storage.root)
        assert read_status("mine", storage)["stopping"]
    assert result.code == 0
    assert "stops after the rounds under way" in result.out


def test_retry_without_failures_is_refused(storage):
    RunFolder(storage, RUNS[1]).open()
    result = fedgrid("run", "mine", "--failed", "--storage", storage.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("fedgrid: no run of mine failed; ")

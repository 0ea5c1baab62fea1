"""`fedgrid.run_grid` as a script calls it."""

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import fedgrid
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.watch import LaunchResult
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid as typed
from tests.helpers.command_line import new_storage
from tests.helpers.plugin_files import ALGORITHM

GRID = {
    "dataset": "digits",
    "clients": 3,
    "algorithm": ["fedavg", "solo"],
    "seeds": range(2),
    "training": {"rounds": np.int64(2), "local_epochs": 1},
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with a grid of four runs; tests add grids to it."""
    root = new_storage(tmp_path_factory.mktemp("grid") / "runs")
    study = fedgrid.run_grid(GRID, name="mine", storage=root, in_process=True)
    assert (study.name, len(study.finished), study.algorithms) == ("mine", 4, ("fedavg", "solo"))
    return root


def run(grid: Any, storage: Path, name: str | None = None, **options: bool) -> fedgrid.Study:
    return fedgrid.run_grid(grid, name=name, storage=storage, in_process=True, **options)


def test_grid_is_one_of_the_command_line_too(storage):
    assert "4 done" in typed("status", "mine", "--storage", storage).out
    assert "fedavg" in typed("table", "mine", "--storage", storage).out


def test_finished_grid_is_read_and_prints_nothing(storage, capsys, monkeypatch):
    monkeypatch.setattr("fedgrid.grids.execution.launch.Lease", None)
    assert len(run(GRID, storage, "mine").finished) == 4
    assert capsys.readouterr() == ("", "")


def test_start_and_end_of_a_run_are_shown_on_standard_error_and_no_rounds(storage, capsys):
    run({**GRID, "algorithm": "fedavg", "seeds": 5}, storage, "shown")
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if "s5" in line]
    assert (out, len(lines)) == ("", 2)
    assert lines[0].endswith("starts")
    assert " finished " in lines[1]


def test_another_dict_of_the_name_replaces_the_grid_and_the_study_is_what_was_asked_for(storage):
    run({**GRID, "seeds": 0}, storage, "edited")
    with pytest.raises(fedgrid.FedgridError, match=r"2 finished runs of edited.*supersede=True"):
        run({**GRID, "seeds": 1}, storage, "edited")
    study = run({**GRID, "seeds": 1}, storage, "edited", supersede=True)
    assert [each.seed for each in study.runs] == [1, 1]
    assert len(GridFolder(Storage(storage), "edited").read_definition().superseded) == 2


def test_file_is_a_grid_of_its_name_that_a_dict_does_not_join(storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("filed.yaml").write_text(
        "clients: 3\nalgorithm: fedavg\nseeds: 0\ntraining: {rounds: 2, local_epochs: 1}\n"
    )
    for given in ("filed.yaml", Path("filed.yaml")):
        study = run(given, storage)
        assert (study.name, len(study.finished)) == ("filed", 1)
    with pytest.raises(fedgrid.FedgridError, match=r"filed.yaml, not from a dict.* name="):
        run({**GRID, "seeds": 1}, storage, "filed")
    assert len(fedgrid.load("filed", storage).runs) == 1


def test_run_that_fails_is_lacking_with_its_cause(storage, tmp_path):
    file = tmp_path / "slip.py"
    slip = "    def step(self, *_, **__):\n        raise ValueError('a slip')\n"
    file.write_text(ALGORITHM.replace("\nALGORITHMS", f"{slip}\nALGORITHMS"))
    study = fedgrid.run_grid(
        {**GRID, "algorithm": "own", "seeds": 0},
        name="broken",
        storage=storage,
        plugins=[file],
        in_process=True,
    )
    [cause] = [run.lacking for run in study.unfinished]
    assert cause.startswith("failed: ")
    assert "a slip" in cause
    assert not study.finished


def test_grid_can_be_run_from_a_thread(storage):
    found = []
    thread = Thread(target=lambda: found.append(run({**GRID, "seeds": 0}, storage, "threaded")))
    thread.start()
    thread.join()
    assert [len(study.finished) for study in found] == [2]


def test_grid_that_was_stopped_raises_an_interruption(storage, monkeypatch):
    monkeypatch.setattr(
        "fedgrid.grids.execution.run.Launcher.run_unfinished",
        lambda *_, **options: LaunchResult(stopped=True),
    )
    with pytest.raises(KeyboardInterrupt):
        run(GRID, storage, "stopped")


@pytest.mark.parametrize(
    ("grid", "name", "says"),
    [
        (GRID, None, "needs a name"),
        ({"datset": "digits"}, "x", "did you mean 'dataset'"),
        ({"training": {"round": 1}}, "x", r"^training.round: .*did you mean 'rounds'"),
        ({"dataset": object()}, "x", "dict"),
        ("no-such-preset", None, "unknown preset 'no-such-preset'"),
    ],
)
def test_what_is_no_grid_is_refused_before_anything_is_written(tmp_path, grid, name, says):
    with pytest.raises(fedgrid.FedgridError, match=says) as error:
        run(grid, tmp_path / "runs", name)
    assert "line" not in str(error.value)
    assert not (tmp_path / "runs" / "grids").exists()

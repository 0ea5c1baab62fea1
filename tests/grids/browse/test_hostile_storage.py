"""A storage that came by mail: to look at it reads, writes and deletes nothing outside, and never hangs."""

import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from typer.main import get_command

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.main import app
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.finished_runs import mark_finished
from tests.helpers.logged_runs import ROUNDS, config_of, record

pytestmark = pytest.mark.usefixtures("in_mlflow", "drawn_here")
RUN = config_of(0)
NAME = f"{RUN.name}-{RUN.run_id}"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A storage with a finished run in a grid."""
    root = new_storage(tmp_path_factory.mktemp("made") / "runs")
    record(root, RUN, ROUNDS)
    mark_finished(root, RUN)
    GridFolder(Storage(root), "mine").keep([RUN], "dataset: digits\n")
    return root


@pytest.fixture
def place(made, tmp_path):
    """A folder with the storage, and with what is not the storage's."""
    shutil.copytree(made, tmp_path / "runs")
    outside = tmp_path / "outside"
    (outside / "tables").mkdir(parents=True)
    for name in ("id_rsa", "tables/id_rsa", "secret.json"):
        (outside / name).write_text("SECRET-OF-MINE")
    return tmp_path


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def linked(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def test_old_report_names_no_file_of_another_kind(place):
    folder = place / "runs" / "grids" / "mine" / "report"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "id_rsa").write_text("mine")
    (folder / "index.html").write_text('<a href="tables/id_rsa">')
    assert fedgrid("report", "mine", "--storage", place / "runs").code == 0
    assert (folder / "tables" / "id_rsa").exists()


EVERY = {
    "analyse": ("mine", "epsilons"),
    "arena": ("--algorithms", "fedavg,louvain"),
    "cache": ("mine",),
    "cite": ("mine",),
    "table": ("mine",),
    "delete": ("mine", "--yes"),
    "doctor": (),
    "import": (".", "--name", "theirs"),
    "report": ("mine",),
    "run": ("quickstart",),
    "search": ("sattler", "--dataset", "digits"),
    "show": ("mine",),
    "status": (),
    "stop": ("mine",),
    "sync": ("mine",),
    "ui": ("mine",),
}
"""Command with a storage -> arguments."""


@pytest.mark.parametrize(
    "name",
    ["grids", "drivers", "cache/prefix", "grids/mine/preset.yaml", f"{NAME}/attacks", f"{NAME}/log.txt"],
)
def test_every_command_refuses_a_storage_with_a_link(place, name):
    """What is behind the link is whole: a command that followed it would read, write or delete it.

    All commands for the first place, one that reads and one that deletes for the others: where a link may be
    and what opens a storage have nothing to do with one another.
    """
    (place / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
    linked(place / "runs" / name, place / "outside" / "secret.json")
    before = digests(place / "outside")
    for command in EVERY if name == "grids" else ("status", "delete"):
        result = fedgrid(command, *EVERY[command], "--storage", place / "runs")
        said = result.out if command == "doctor" else result.err
        assert f"{name} is a link: what belongs to a storage lies in its folder" in said, command
        assert (result.code, result.err.count("\n")) in ((2, 1), (1, 0)), command
    assert digests(place / "outside") == before


def test_commands_with_a_storage_are_those_above():
    with_storage = {
        name
        for name, command in get_command(app).commands.items()
        if any(option.name == "storage" for option in command.params)
    }
    assert with_storage == set(EVERY)


@pytest.mark.parametrize("command", ["sync", "delete"])
def test_view_in_the_mlflow_store_is_refused(place, command):
    """A view is code of whoever wrote the store."""
    with closing(sqlite3.connect(place / "runs" / "mlflow.db")) as database, database:
        database.execute("ALTER TABLE runs RENAME TO own_runs")
        database.execute("CREATE VIEW runs AS SELECT * FROM own_runs")
    asked = (command, "mine", "--yes") if command == "delete" else (command, "mine")
    result = fedgrid(*asked, "--storage", place / "runs")
    assert result.err.count("has the view runs, which MLflow does not make; move it away") == 1
    assert "Traceback" not in result.err
    assert result.err.count("\n") <= 2

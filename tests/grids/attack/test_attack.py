"""`fedgrid attack` on a small grid: runs are not changed, nothing is attacked twice, bad input."""

import csv
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.attack import mlflow_log, work
from fedgrid.grids.attack.command import attack_grid, settings_of
from fedgrid.grids.attack.report import with_attacks
from fedgrid.grids.attack.results import AttackFiles
from fedgrid.grids.planning.claims import of_further_results
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.report.page import Page, Section
from tests.helpers.finished_runs import mark_finished
from tests.helpers.small_runs import NOWHERE, config, play

RUNS = [
    config("ocfl-kmeans", training={"rounds": 2}),
    config({"name": "embeddings", "encoder": "pixels", "flip": 0.0}, training={"rounds": 2}),
]


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Return a storage with a grid of two finished runs, and one that has not started."""
    storage = Storage.of(tmp_path_factory.mktemp("runs"))
    for run in RUNS:
        play(run, storage.root)
        mark_finished(storage.root, run)
    GridFolder(storage, "small").keep([*RUNS, config("fedavg", seed=1)], "")
    return storage


def attack(storage, capsys, *asked):
    """Return what the command prints as JSON, and the rows of its csv file."""
    settings = settings_of(*asked, *[None] * (3 - len(asked)))
    assert attack_grid("small", storage, NOWHERE, settings, Console(), as_json=True) == 0
    with (storage.root / f"grids/small/attacks/{settings.key}.csv").open() as file:
        return json.loads(capsys.readouterr().out), list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("asked", "rows"), [(("membership",), 6 + 6), (("class",), 12), (("reconstruction", 1, 3), 0)], ids=str
)
def test_finished_runs_are_attacked_once_and_not_changed(storage, capsys, asked, rows):
    folders = [path.parent for path in storage.root.glob("*/config.json")]
    before = [numbers_of(folder) for folder in folders]
    first, table = attack(storage, capsys, *asked)
    again, same = attack(storage, capsys, *asked)
    assert (first["attacked"], again["attacked"]) == (2, 0)
    assert first["rows"] == again["rows"]
    assert table == same
    assert len(table) >= rows
    assert {row["algorithm"] for row in table} == {row["algorithm"] for row in first["rows"]}
    assert [numbers_of(folder) for folder in folders] == before


def numbers_of(folder):
    """Return the bytes of a run's own files."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_class_means_come_from_messages_and_images_from_updates(storage, capsys):
    """With pixels as codes and no flips a message is a picture of ones and zeros."""
    _, table = attack(storage, capsys, "reconstruction", 1, 3)
    messages = [row for row in table if row["of"] == "message"]
    assert {row["algorithm"] for row in messages} == {"Embeddings"}
    assert {int(row["client"]) for row in messages} == set(range(6))
    assert all(float(row["mse"]) < float(row["mse_random"]) for row in messages)
    updates = [row for row in table if row["of"] == "update"]
    assert {int(row["client"]) for row in updates} == {0}
    pictures = list(storage.root.glob("*/attacks/*.png"))
    assert len(pictures) == 2


def test_the_table_names_what_it_shows(storage):
    console = Console(width=200, record=True)
    with console.capture() as shown:
        attack_grid("small", storage, NOWHERE, settings_of("membership", None, None), console)
    text = shown.get()
    assert {"OCFL-KM", "Embeddings"} <= set(text.split())
    assert "0.5 gives nothing away" in text


def test_the_report_has_the_tables_of_the_attacks_that_were_made(storage, capsys):
    grid, page = GridFolder(storage, "small"), Page("Report of small", (), (Section("end", "End"),))
    attack(storage, capsys, "class")
    with_section = with_attacks(page, grid)
    assert [section.name for section in with_section.sections] == ["attacks", "end"]
    assert "attack-class" in {table.name for table in with_section.tables()}
    assert with_attacks(page, GridFolder(storage, "other")) == page


def test_two_processes_find_what_one_does(storage, capsys, monkeypatch):
    """Threads in the place of processes, which take seconds to start; all that is passed can be pickled."""
    monkeypatch.setattr(work, "ProcessPoolExecutor", lambda count, context: ThreadPoolExecutor(count))
    files = AttackFiles(storage, RUNS[0], settings_of("class", None, None))
    assert pickle.loads(pickle.dumps(files)).path == files.path
    _, here = attack(storage, capsys, "class", None, None)
    for path in storage.root.glob(f"*/attacks/{settings_of('class', None, None).key}*"):
        path.unlink()
    settings = settings_of("class", None, None)
    assert attack_grid("small", storage, NOWHERE, settings, Console(), processes=2, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["attacked"] == 2
    assert attack(storage, capsys, "class", None, None)[1] == here


def test_an_earlier_round_has_no_updates_if_the_state_before_it_is_gone(storage, capsys):
    """Of two rounds the last two states are kept: before round 1 there is none, and none is needed."""
    first, at_first = attack(storage, capsys, "class", None, None, 1)
    assert any(row["update"] for row in at_first)
    kept = {path: path.read_bytes() for path in storage.root.glob("*/state-*1.*")}
    for path in kept:
        path.unlink()
    try:
        settings = settings_of("membership", None, None, 1)
        assert attack_grid("small", storage, NOWHERE, settings, Console(), as_json=True) == 2
        assert "after round 1, so there is nothing to attack; it keeps 2; take one" in " ".join(
            capsys.readouterr().err.split()
        )
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
    assert first["rows"][0]["partition ARI"] is not None


def test_the_means_of_a_run_go_to_mlflow_once(storage, capsys, monkeypatch):
    logged = []

    class Known:
        def __init__(self, *given):
            pass

        def write_explanations(self, config, scores, files, folder):
            logged.append((scores, [path.name for path in files], folder))
            return True

    monkeypatch.setattr(mlflow_log, "Writer", Known)
    (storage.root / "mlflow.db").touch()
    for _ in range(2):
        attack(storage, capsys, "reconstruction", 1, 3)
    (storage.root / "mlflow.db").unlink()
    assert len(logged) == 2
    scores, names, folder = logged[-1]
    assert folder == "attacks"
    assert 0 < scores["attack/reconstruction_error_from_messages_mse"] < 1
    assert [name.rpartition(".")[2] for name in names] == ["json", "png"]


def test_other_settings_are_another_attack():
    keys = {settings_of("reconstruction", *asked).key for asked in ((None, None), (5, None), (None, 9))}
    assert len(keys) == 3
    assert settings_of("reconstruction", 3, 300) == settings_of("reconstruction", None, None)
    assert settings_of("class", None, None, 4).key != settings_of("class", None, None).key


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("membership", 3, None), "--clients 3 has no effect with --kind membership"),
        (("class", None, 9), "--steps 9 has no effect with --kind class"),
    ],
    ids=str,
)
def test_an_option_without_effect_is_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        settings_of(*asked)


def test_a_grid_without_a_finished_run_is_refused(tmp_path):
    storage = Storage.of(tmp_path)
    GridFolder(storage, "new").keep([RUNS[0]], "")
    with pytest.raises(ConfigError, match="none of the 1 runs of new is finished"):
        attack_grid("new", storage, NOWHERE, settings_of("class", None, None), Console())


def test_a_run_without_its_states_is_named_and_the_others_are_attacked(storage, capsys):
    settings = settings_of("reconstruction", 1, 1)
    moved = list(storage.root.glob("*ocfl*/state-*1.s*"))
    kept = {path: path.read_bytes() for path in moved}
    for path in moved:
        path.unlink()
    try:
        assert attack_grid("small", storage, NOWHERE, settings, Console(), as_json=True) == 1
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["failed"] == 1
    assert "has no state after round 1" in " ".join(printed.err.split())


def test_attack_is_refused_while_another_driver_attacks_the_same_runs(storage):
    settings = settings_of("membership", None, None)
    claims = of_further_results("attacks", GridFolder(storage, "small").runs())
    with Lease(storage, "other", claims), pytest.raises(ConfigError, match="in use: grid other"):
        attack_grid("small", storage, NOWHERE, settings, Console())

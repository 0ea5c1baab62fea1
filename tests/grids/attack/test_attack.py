"""the analysis `attack` on a small grid: runs are not changed, nothing is attacked twice, bad input."""

import csv
import json
import shutil
from types import SimpleNamespace

import pyarrow as pa
import pytest
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses import mlflow_log
from fedgrid.grids.analyses.analysis import Context
from fedgrid.grids.analyses.command import analyse
from fedgrid.grids.analyses.execute import run_on_ray
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.analyses.report import describe_runs, find_results, sections
from fedgrid.grids.attack.analysis import ATTACK, Attack
from fedgrid.grids.attack.settings import Attacking
from fedgrid.grids.planning.keys import make_result_keys
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.finished_runs import mark_finished
from tests.helpers.manifests import edit_table
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


def attack_grid(name, storage, settings, console, *, as_json=False, dry_run=False):
    """Run the command in this process; return how many attacks failed."""
    how = dict(in_process=True, as_json=as_json, dry_run=dry_run)
    return analyse(ATTACK, name, storage, NOWHERE, settings, console, **how).failed


def settings_of(kind, clients=None, steps=None, round_number=None):
    return Attacking(kind=kind, clients=clients, steps=steps, round=round_number)


def attack(storage, capsys, *asked):
    """Return what the command prints as JSON, and the rows of its csv file."""
    settings = settings_of(*asked, *[None] * (3 - len(asked)))
    assert attack_grid("small", storage, settings, Console(), as_json=True) == 0
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
    assert [(each["jobs"], each["done_before"], each["failed"]) for each in (first, again)] == [
        (2, 0, 0),
        (2, 2, 0),
    ]
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
    assert {row["algorithm"] for row in messages} == {"embeddings"}
    assert {int(row["client"]) for row in messages} == set(range(6))
    assert all(float(row["mse"]) < float(row["mse_random"]) for row in messages)
    updates = [row for row in table if row["of"] == "update"]
    assert {int(row["client"]) for row in updates} == {0}
    pictures = list(storage.root.glob("*/attacks/*.png"))
    assert len(pictures) == 2


def test_the_table_names_what_it_shows(storage):
    console = Console(width=200, record=True)
    with console.capture() as shown:
        attack_grid("small", storage, settings_of("membership", None, None), console)
    text = shown.get()
    assert {"ocfl-kmeans", "embeddings"} <= set(text.split())
    assert "0.5 gives nothing away" in text


def test_the_report_has_the_tables_of_the_attacks_that_were_made(storage, capsys):
    attack(storage, capsys, "class")
    shown = {ATTACK.name: ATTACK}
    [section] = sections(shown, GridFolder(storage, "small"), storage, published=False)
    assert section.name == "attacks"
    assert "attack-class" in {table.name for table in section.items}
    GridFolder(storage, "other").keep(RUNS, "")
    assert list(sections(shown, GridFolder(storage, "other"), storage, published=False)) == []


def test_run_whose_records_do_not_fit_together_is_left_out(storage, capsys, tmp_path):
    """With right checksums: somebody else wrote them twice."""
    attack(storage, capsys, "class")
    shutil.copytree(storage.root, tmp_path / "runs")
    copy = Storage(tmp_path / "runs")
    edit_table(folder_of(copy.root, RUNS[0]), "rounds", lambda table: pa.concat_tables([table, table]))
    settings, context = settings_of("class", None, None), Context(copy, NOWHERE, describe_runs(RUNS, copy))
    found, _ = find_results(ATTACK, ATTACK.jobs(RUNS, settings, context), context.runs, copy)
    [table] = ATTACK.summary(found, [], settings, GridFolder(copy, "small")).tables
    assert [row.name for row in table.rows] == [context.runs[RUNS[1].run_id].algorithm]
    said = " ".join(capsys.readouterr().err.split())
    assert "do not have one row per round and client" in said


def test_dry_run_counts_what_is_left_and_starts_nothing(storage, capsys):
    attack(storage, capsys, "class")
    before = sorted(storage.root.rglob("*"))
    next(storage.root.glob(f"*/attacks/{settings_of('class', None, None).key}.json")).unlink()
    assert attack_grid("small", storage, settings_of("class", None, None), Console(), dry_run=True) == 0
    assert {"2", "1"} <= set(capsys.readouterr().out.split())
    assert len(sorted(storage.root.rglob("*"))) == len(before) - 1
    attack(storage, capsys, "class")


@pytest.mark.ray
def test_ray_finds_what_one_process_does(storage, capsys, ray_session):
    settings = settings_of("class", None, None)
    _, here = attack(storage, capsys, "class", None, None)
    paths = sorted(storage.root.glob(f"*/attacks/{settings.key}.json"))
    expected = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    context = Context(storage, NOWHERE, describe_runs(RUNS, storage))
    ended = []
    with Lease(storage, "small") as lease:
        jobs = ATTACK.jobs(RUNS, settings, context)
        run_on_ray(ATTACK, jobs, context, lease.token, lambda: None, ended.append)
    assert [each.cause for each in ended] == [None] * 2
    assert [path.read_bytes() for path in paths] == expected
    assert all(JobFiles(storage, ATTACK.folder, job).read() for job in jobs)


def test_an_earlier_round_has_no_updates_if_the_state_before_it_is_gone(storage, capsys):
    """Of two rounds the last two states are kept: before round 1 there is none, and none is needed."""
    first, at_first = attack(storage, capsys, "class", None, None, 1)
    assert any(row["update"] for row in at_first)
    kept = {path: path.read_bytes() for path in storage.root.glob("*/state-*1.*")}
    for path in kept:
        path.unlink()
    try:
        settings = settings_of("membership", None, None, 1)
        assert attack_grid("small", storage, settings, Console(), as_json=True) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "no state after round 1, but after 2: give one as round=" in said
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
    assert first["rows"][0]["attack/class_guessed_right_from_partition_round_1"] >= 0


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_round_that_no_run_has_is_refused_with_the_greatest(storage, dry_run):
    settings = settings_of("membership", None, None, 3)
    with pytest.raises(ConfigError, match=r"^round=3: no run has more than 2 rounds$"):
        attack_grid("small", storage, settings, Console(), dry_run=dry_run)


def test_the_means_of_a_run_go_to_mlflow_once(storage, capsys, monkeypatch):
    logged = []

    class Known:
        runs = {run.run_id: None for run in GridFolder(storage, "small").runs()}

        def __init__(self, *given):
            pass

        def log(self, run_id, scores):
            logged.append((scores, []))

        def artifact(self, run, path, folder):
            logged[-1][1].append((folder, path.suffix))

    monkeypatch.setattr(mlflow_log, "MlflowTracker", Known)
    (storage.root / "mlflow.db").touch()
    for _ in range(2):
        attack(storage, capsys, "reconstruction", 1, 3)
    (storage.root / "mlflow.db").unlink()
    assert len(logged) == 2
    scores, files = logged[-1]
    assert 0 < scores["attack/reconstruction_error_from_messages_mse"] < 1
    assert files == [("attacks", ".json"), ("attacks", ".png")]


def test_other_settings_are_another_attack():
    keys = {settings_of("reconstruction", *asked).key for asked in ((None, None), (5, None), (None, 9))}
    assert len(keys) == 3
    assert settings_of("reconstruction", 3, 300) == settings_of("reconstruction", None, None)
    assert settings_of("class", None, None, 4).key != settings_of("class", None, None).key


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("membership", 3, None), "clients=3 has no effect with kind=membership"),
        (("class", None, 9), "steps=9 has no effect with kind=class"),
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
        attack_grid("new", storage, settings_of("class", None, None), Console())


def test_a_run_without_its_states_is_named_and_the_others_are_attacked(storage, capsys):
    settings = settings_of("reconstruction", 1, 1)
    moved = list(storage.root.glob("*ocfl*/state-*1.s*"))
    kept = {path: path.read_bytes() for path in moved}
    for path in moved:
        path.unlink()
    try:
        assert attack_grid("small", storage, settings, Console(), as_json=True) == 1
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["failed"] == 1
    assert "no state after round 1" in " ".join(printed.err.split())


def test_attack_is_refused_while_another_driver_attacks_the_same_runs(storage):
    settings = settings_of("membership", None, None)
    keys = make_result_keys("attacks", GridFolder(storage, "small").runs())
    with Lease(storage, "other", keys), pytest.raises(ConfigError, match="in use: grid other"):
        attack_grid("small", storage, settings, Console())


def test_what_is_no_image_is_not_reconstructed(tmp_path):
    run = complete({"dataset": "mnist1d", "split": "iid", "clients": 3, "algorithm": "fedavg"}, tmp_path)
    context = SimpleNamespace(dataset=lambda run: find(run.dataset, tmp_path), last_round=lambda run: 1)
    with pytest.raises(ConfigError, match="reconstruction takes images; mnist1d has series of 1x40 numbers"):
        Attack().jobs([run], settings_of("reconstruction", 1, 1), context)
    assert len(Attack().jobs([run], settings_of("membership", None, None), context)) == 1

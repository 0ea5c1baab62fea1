"""the analysis `attack` on a small grid: runs are not changed, nothing is attacked twice, bad input."""

import csv
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.command import analyse_runs
from fedgrid.grids.analyses.report import build_sections
from fedgrid.grids.attack.analysis import ATTACK, Attack
from fedgrid.grids.attack.settings import AttackSettings
from fedgrid.grids.planning.keys import make_result_keys
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.finished_runs import mark_finished
from tests.helpers.small_runs import NOWHERE, config, play

RUNS = [
    config("ocfl-kmeans", training={"rounds": 2}),
    config({"name": "embeddings", "encoder": "pixels", "flip": 0.0}, training={"rounds": 2}),
]


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Return a storage with a grid of two finished runs, and one that has not started."""
    storage = Storage.from_text(tmp_path_factory.mktemp("runs"))
    for run in RUNS:
        play(run, storage.root)
        mark_finished(storage.root, run)
    GridFolder(storage, "small").keep([*RUNS, config("fedavg", seed=1)], "")
    return storage


def attack_grid(name, storage, settings, console, *, as_json=False, dry_run=False):
    """Run the command in this process; return how many attacks failed."""
    how = dict(in_process=True, as_json=as_json, dry_run=dry_run)
    return analyse_runs(ATTACK, name, storage, NOWHERE, settings, console, **how).failed


def settings_of(kind, clients=None, steps=None, round_number=None):
    return AttackSettings(kind=kind, clients=clients, steps=steps, round=round_number)


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


def test_the_report_has_the_tables_of_the_attacks_that_were_made(storage, capsys):
    attack(storage, capsys, "class")
    shown = {ATTACK.name: ATTACK}
    [section] = build_sections(shown, GridFolder(storage, "small"), storage, published=False)
    assert section.name == "attacks"
    assert "attack-class" in {table.name for table in section.items}
    GridFolder(storage, "other").keep(RUNS, "")
    assert list(build_sections(shown, GridFolder(storage, "other"), storage, published=False)) == []


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


def test_attack_is_refused_while_another_driver_attacks_the_same_runs(storage):
    settings = settings_of("membership", None, None)
    keys = make_result_keys("attacks", GridFolder(storage, "small").read_runs())
    with Lease(storage, "other", keys), pytest.raises(ConfigError, match="in use: grid other"):
        attack_grid("small", storage, settings, Console())


def test_what_is_no_image_is_not_reconstructed(tmp_path):
    run = complete_config(
        {"dataset": "mnist1d", "split": "iid", "clients": 3, "algorithm": "fedavg"}, tmp_path
    )
    context = SimpleNamespace(
        dataset=lambda run: find_dataset(run.dataset, tmp_path), last_round=lambda run: 1
    )
    with pytest.raises(ConfigError, match="reconstruction takes images; mnist1d has series of 1x40 numbers"):
        Attack().jobs([run], settings_of("reconstruction", 1, 1), context)
    assert len(Attack().jobs([run], settings_of("membership", None, None), context)) == 1

"""Grids with plugins, as a user runs them: on Ray's actors, after a change, and when the file is gone."""

import json
import re
import sys
from pathlib import Path

import pytest

from fedgrid.algorithms import registry
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.study import load
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.plugin_files import ALGORITHM, DATASET, MODEL, SPLIT, change_digest

FRAGILE = """
from pathlib import Path
from fedgrid import AlgorithmEntry, Diagnostics, FedOpt, FedOptSettings, LocalRule, LocalSteps, Order

class Shorter(LocalSteps):
    def correct(self, weights, gradient):
        gradient.mul_(0.5)

class ShorterRule(LocalRule):
    def start(self, local):
        return Shorter()

class Fragile(FedOpt):
    '''Fails in round 2 while a file is there, as on a broken machine. Clients train by a rule of its own.'''

    def orders(self, state, round_index, present, layout, rng):
        return [Order(c, (int(state.labels_K[c]),), rule=ShorterRule()) for c in present.sampled]

    def recluster(self, state, round_index, updates, rng):
        if round_index == 1 and Path("FLAG").exists():
            raise OSError("broken on purpose")
        return state, Diagnostics()

ALGORITHMS = [AlgorithmEntry("fragile", "FRG", "fails", "ours", Fragile, FedOptSettings())]
"""
GRID = """
plugins: [mine.py, model.py]
algorithm: [fedavg, own]
dataset: own-data
model: own-model
split: {kind: own-split, first: 2}
clients: 3
training: {rounds: 2}
"""


@pytest.fixture(autouse=True)
def no_plugins_after():
    yield
    active.use_plugins()


def forget_plugins():
    """Let this process know no plugin, as a new one."""
    active.use_plugins()
    active._sources.clear()
    active._loaded.clear()
    for module in [name for name in sys.modules if name.startswith("fedgrid_plugin_")]:
        del sys.modules[module]


@pytest.fixture
def grid(tmp_path):
    """Return the file of a grid with plugins beside it."""
    for name, text in (("mine.py", ALGORITHM), ("model.py", MODEL + SPLIT + DATASET), ("grid.yaml", GRID)):
        (tmp_path / name).write_text(text)
    return tmp_path / "grid.yaml"


def run(grid, storage, *arguments):
    return fedgrid("run", grid, "--storage", storage, "--in-process", "--json", *arguments)


def ids(storage):
    return [config.run_id for config in GridFolder(Storage(storage), "grid").read_runs()]


def test_plugins_of_the_yaml_file_are_relative_to_it_and_make_runs(grid, storage):
    result = run(grid, storage)
    assert (result.code, result.err) == (0, "")
    assert [run.algorithm for run in load("grid", str(storage)).runs] == ["fedavg", "own"]
    config = json.loads(next(storage.glob("*-own-*/config.json")).read_text())
    assert len(config["plugin_digests"]) == 2


def test_changed_plugin_makes_other_runs_that_supersede_the_old_ones(grid, storage):
    run(grid, storage)
    fedavg, old = ids(storage)
    assert run(grid, storage).out.count('"event": "start"') == 0
    (grid.parent / "mine.py").write_text(change_digest(ALGORITHM))
    result = run(grid, storage)
    started = [event["run"] for event in result.events if event["event"] == "start"]
    assert len(started) == 1
    assert "own" in started[0]
    assert ids(storage)[0] == fedavg
    assert ids(storage)[1] != old
    assert [run.algorithm for run in load("grid", str(storage)).runs] == ["fedavg", "own"]
    *_, new_title, old_title = [run.algorithm for run in load("grid", str(storage), superseded=True).runs]
    assert new_title.startswith("own (plugin ")
    assert old_title.startswith("own (plugin ")
    assert old_title.endswith(" (superseded)")


def test_status_and_report_need_no_plugin(grid, storage, tmp_path):
    run(grid, storage)
    for path in tmp_path.glob("*.py"):
        path.unlink()
    active.use_plugins()
    # Should the kept copy be executed, it fails.
    for path in (storage / "grids" / "grid" / "plugins").iterdir():
        path.write_text("raise SystemExit('executed')\n")
    status = fedgrid("status", "grid", "--storage", storage, "--json")
    assert json.loads(status.out)["done"] == 2
    registry._titles.clear()
    study = load("grid", str(storage))
    assert [result.algorithm for result in study.finished] == ["fedavg", "own"]


def test_plugin_of_the_command_line_is_listed_and_a_missing_one_is_named(grid):
    command = ("list", "algorithms", "--json")
    listed = json.loads(fedgrid(*command, "--plugin", grid.parent / "mine.py").out)
    assert listed[-1]["name"] == "own"
    assert "own" not in {entry["name"] for entry in json.loads(fedgrid(*command).out)}
    missing = fedgrid(*command, "--plugin", grid.parent / "nowhere.py")
    assert (missing.code, "nowhere.py" in missing.err) == (2, True)


def test_command_line_and_yaml_file_with_one_name_are_refused_with_the_line(grid, storage):
    (grid.parent / "other.py").write_text(change_digest(ALGORITHM))
    result = run(grid, storage, "--plugin", grid.parent / "other.py")
    assert result.code == 2
    for part in ("grid.yaml, line 2", "'own'", "mine.py", "other.py"):
        assert part in result.err


def test_base_brings_its_plugins(grid, storage, tmp_path):
    (tmp_path / "above").mkdir()
    above = tmp_path / "above" / "above.yaml"
    above.write_text("base: ../grid.yaml\nalgorithm: own\n")
    assert run(above, storage).code == 0


def test_search_of_an_algorithm_of_a_plugin(grid, storage):
    space = "search: {server_learning_rate: [0.5, 1.0]}\ntrials: 2\nsearcher: grid\n"
    grid.write_text(GRID.replace("[fedavg, own]", "own") + space)
    result = fedgrid("search", grid, "--storage", storage, "--in-process", "--json")
    assert (result.code, result.err) == (0, "")
    assert len(ids(storage)) == 2


@pytest.mark.ray
@pytest.mark.slow
def test_algorithm_and_model_of_plugins_on_actors_and_retry_without_the_files(
    ray_session, tmp_path, monkeypatch
):
    """The first launch fails in round 2; retry has the plugins of the grid's folder only.

    Paths are relative to a folder in which actors are not.
    """
    monkeypatch.chdir(tmp_path)
    flag = tmp_path / "flag"
    flag.touch()
    (tmp_path / "fragile.py").write_text(FRAGILE.replace("FLAG", str(flag)))
    (tmp_path / "model.py").write_text(MODEL + SPLIT + DATASET)
    (tmp_path / "grid.yaml").write_text(
        GRID.replace("mine.py", "fragile.py")
        .replace("[fedavg, own]", "fragile")
        .replace("rounds: 2", "rounds: 3")
    )
    alone, on_ray = new_storage(tmp_path / "alone"), new_storage(tmp_path / "on_ray")
    options = ("--storage", on_ray, "--no-cache", "--clients-per-actor", 3, "--json")
    failed = fedgrid("run", "grid.yaml", *options, "--retries", 0)
    assert failed.code == 1
    assert "broken on purpose" in failed.out
    flag.unlink()
    assert run(tmp_path / "grid.yaml", alone).code == 0

    for path in tmp_path.glob("*.py"):
        path.unlink()
    [kept] = [path for path in plugins_of(on_ray) if "Fragile" in path.read_text()]
    text = kept.read_text()
    forget_plugins()
    kept.write_text(f"{text}raise SystemExit('executed')\n")
    refused = fedgrid("run", "grid", "--failed", *options, "--trust")
    assert refused.code == 2
    assert kept.name in refused.err
    kept.write_text(text)
    untrusted = fedgrid("run", "grid", "--failed", *options)
    assert untrusted.code == 2
    assert "--trust" in untrusted.err
    again = fedgrid("run", "grid", "--failed", *options, "--trust")
    assert again.code == 0, again.err
    for name in ("rounds.parquet", "clients.parquet"):
        [here], [there] = (root.glob(f"*fragile*/{name}") for root in (alone, on_ray))
        assert here.read_bytes() == there.read_bytes()


def test_no_command_executes_code_of_a_storage_unless_it_is_trusted(tmp_path, storage, grid):
    """A storage that came by mail: the sender has written the plugin and its digest."""
    trace = tmp_path / "executed"
    plugin = tmp_path / "mine.py"
    plugin.write_text(f"{plugin.read_text()}\nopen({str(trace)!r}, 'a').close()\n")
    assert run(grid, storage).code == 0
    forget_plugins()
    trace.unlink()
    [kept] = (path for path in plugins_of(storage) if str(trace) in path.read_text())
    at = ("--storage", storage)
    for command in (
        ("analyse", "grid", "explain", "--dry-run"),
        ("analyse", "grid", "explain", "--in-process"),
        ("analyse", "grid", "attack", "kind=membership", "--in-process"),
        ("analyse", "grid", "epsilons"),
    ):
        refused = fedgrid(*command, *at)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert str(storage / "grids" / "grid" / "plugins") in refused.err
        assert re.search(
            r"need plugin (mine.py \(algorithm own\)|model.py), digest [0-9a-f]{12}\. ", refused.err
        )
        assert "add --trust" in refused.err
    for command in ("status", "show", "report"):
        assert fedgrid(command, "grid", *at).code == 0
    assert not trace.exists()
    assert fedgrid("analyse", "grid", "attack", "kind=membership", "--dry-run", "--trust", *at).code == 0
    assert trace.exists()


def test_retry_takes_named_files_if_they_are_what_failed(tmp_path, storage):
    flag = tmp_path / "flag"
    flag.touch()
    plugin = tmp_path / "fragile.py"
    plugin.write_text(FRAGILE.replace("FLAG", str(flag)))
    options = ("--plugin", plugin, "--storage", storage, "--retries", 0)
    small = ("--algorithm", "fragile", "--clients", 3, "training.rounds=2", "--in-process")
    assert fedgrid("run", *small, *options).code == 1
    plugin.write_text(change_digest(plugin.read_text()))
    active._sources.clear()
    refused = fedgrid("run", "runs", "--failed", *options)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert re.search("plugin fragile.py .algorithm fragile., digest [0-9a-f]{12}. --plugin", refused.err)
    assert f"--plugin {plugin} is another edit of it, digest" in refused.err
    folder = GridFolder(Storage(storage), "runs")
    stored_plugins.restore_plugins(folder.path, Storage(storage), folder.read_runs(), trust=True)
    assert [source.digest for source in active.list_plugin_files()] == list(
        folder.read_runs()[0].plugin_digests
    )


def plugins_of(storage: Path) -> list[Path]:
    return sorted((storage / "grids" / "grid" / "plugins").iterdir())

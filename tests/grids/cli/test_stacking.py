"""`fedgrid run GRID --gpus-per-actor auto`: decided once a grid, kept in its folder, on whatever machine."""

import json
from contextlib import nullcontext

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import Node
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.actions import stacking
from fedgrid.grids.execution import executors
from fedgrid.grids.execution.executors import InProcess
from fedgrid.grids.planning import stacking as decisions
from fedgrid.grids.planning.gpu_probe import Probed, Work
from fedgrid.grids.planning.stacking import OnGpu
from fedgrid.grids.presets.grid import Stacking
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage, strict_json

AUTO = ("--gpus-per-actor", "auto")
TEXT = "clients: 3\nalgorithm: [fedavg, ocfl-kmeans]\ntraining: {rounds: 1, local_epochs: 1}\n"
GB = 10**9


class Machine:
    """A machine with GPUs, on which stacks train this many times as fast; its runs train in this process."""

    def __init__(self, monkeypatch):
        self.gpus, self.times, self.measured = 1, 3.0, 0
        monkeypatch.setattr(stacking, "known_nodes", lambda request: self.nodes)
        monkeypatch.setattr(stacking, "nodes_to_run_on", lambda **_: self.nodes)
        monkeypatch.setattr(stacking, "local_nodes", lambda: self.nodes)
        monkeypatch.setattr(stacking, "cluster_nodes", lambda: self.nodes)
        monkeypatch.setattr(stacking, "connected", nullcontext)
        for name in ("HERE", "ON_CLUSTER"):
            monkeypatch.setattr(decisions, name, OnGpu(lambda request: (), self.probe))
        monkeypatch.setattr(executors, "OnRay", lambda todo, options: InProcess(options))

    @property
    def nodes(self):
        return (Node(8, self.gpus),)

    def probe(self, crowds):
        self.measured += any(crowd.seconds for crowd in crowds)
        speeds = [1000.0 * (self.times if crowd.workload.training.stacked > 1 else 1) for crowd in crowds]
        return Probed(8 * GB, GB // 2, tuple(Work(GB // 10, speed) for speed in speeds))


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a grid's file in a storage."""
    storage = new_storage(tmp_path / "runs")

    def run(*options, text=TEXT, what=None):
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        return fedgrid("run", *([file] if what is None else what), *options, "--storage", storage)

    run.storage = Storage(storage)
    return run


def stacks(run, grid="mine"):
    """Return `training.stacked` of the runs that a grid asks for now."""
    return [each.training.stacked for each in GridFolder(run.storage, grid).runs()]


def folders(run):
    return sorted(path.name for path in run.storage.root.glob("digits-*"))


@pytest.mark.parametrize("again", [AUTO, ()], ids=["with auto", "without it"])
def test_resume_on_another_machine_keeps_the_ids(machine, run, again):
    first = run(*AUTO)
    assert (first.code, stacks(run)) == (0, [3, 3])
    assert "training.stacked=3: stacks of 3 clients are 3.00 times" in first.err
    before = folders(run)
    machine.gpus, machine.times = 0, 0.1
    second = run(*again)
    assert (second.code, stacks(run), folders(run)) == (0, [3, 3], before)
    assert "decided at this grid's first launch" in second.err
    assert "superseded" not in second.out + second.err
    assert machine.measured == 1


def test_decision_against_stacks_is_kept_too(machine, run):
    machine.gpus = 0
    first = run(*AUTO)
    assert "nothing is stacked: there is no GPU" in first.err
    machine.gpus = 1
    assert "decided at this grid's first launch" in run(*AUTO).err
    assert (stacks(run), machine.measured) == ([1, 1], 0)
    assert "stacked" not in run().err


def test_a_grid_that_grows_has_the_same_stacks(machine, run):
    run(*AUTO)
    machine.times = 0.1
    run(*AUTO, "--seeds", "0,1")
    assert stacks(run) == [3] * 4


def test_stacked_of_the_file_or_an_option_comes_first(machine, run):
    text = TEXT.replace("rounds: 1", "rounds: 1, stacked: 2")
    result = run(*AUTO, text=text)
    assert (stacks(run), machine.measured) == ([2, 2], 0)
    assert "gives training.stacked itself" in result.err
    assert GridFolder(run.storage, "mine").read().stacking is None


def test_stacked_of_an_option_comes_before_what_is_kept(machine, run):
    run(*AUTO)
    run("training.stacked=1", "--yes")
    assert stacks(run) == [1, 1]
    run("--yes")
    assert stacks(run) == [3, 3]


def test_clients_with_a_rule_of_their_own_stay_as_they_are(machine, run):
    result = run(*AUTO, text=TEXT.replace("ocfl-kmeans", "fedprox"))
    assert (result.code, stacks(run), machine.measured) == (0, [1, 1], 0)
    assert "cannot be stacked" in result.err
    assert "fedprox" in result.err


def test_edited_file_that_cannot_be_stacked_is_refused_and_nothing_is_computed_again(machine, run):
    run(*AUTO)
    before = folders(run)
    result = run(*AUTO, text=TEXT.replace("ocfl-kmeans", "fedprox"))
    assert result.code == 2
    for part in ("fedprox", "training.stacked=3", "--name OTHER"):
        assert part in result.err
    assert folders(run) == before


def test_grid_that_was_launched_without_auto_keeps_its_ids(machine, run):
    run()
    result = run(*AUTO)
    assert (stacks(run), machine.measured) == ([1, 1], 0)
    assert "--name OTHER" in result.err


def test_runs_by_options_are_stacked_only_on_request(machine, run):
    """They share a grid with whatever else was run by options."""
    options = ("--clients", 3, "training.rounds=1")
    run(*AUTO, *options, what=())
    assert stacks(run, "runs") == [3]
    assert run(*options, "--algorithm", "fedprox", what=()).code == 0
    assert sorted(stacks(run, "runs")) == [1, 3]


def test_dry_run_says_what_would_be_decided_and_keeps_nothing(machine, run, monkeypatch):
    monkeypatch.setattr("fedgrid.grids.ray_cluster.cluster.nodes_to_run_on", lambda **_: machine.nodes)
    plan = strict_json(run(*AUTO, "--dry-run", "--json").out)
    assert "training.stacked=3" in plan["stacking"]
    assert "training.stacked=3" in run(*AUTO, "--dry-run").out
    assert not GridFolder(run.storage, "mine").is_there
    run(*AUTO)
    ids = [each["run_id"] for each in plan["runs"]]
    assert [each.run_id for each in GridFolder(run.storage, "mine").runs()] == ids


def test_dry_run_without_a_gpu_of_its_own_leaves_it_to_the_launch(machine, run, monkeypatch):
    cluster = (Node(8, 4),)
    monkeypatch.setattr(stacking, "known_nodes", lambda request: None)
    monkeypatch.setattr(stacking, "nodes_to_run_on", lambda **_: cluster)
    monkeypatch.setattr("fedgrid.grids.ray_cluster.cluster.nodes_to_run_on", lambda **_: cluster)
    machine.gpus = 0
    result = run(*AUTO, "--dry-run")
    assert "decided at the first launch" in result.out
    assert machine.measured == 0


def test_gpu_of_this_machine_that_cannot_be_used_is_refused_before_ray_starts(machine, run, monkeypatch):
    def refuse(request):
        raise ConfigError("GPU 0 cannot be used: busy; --gpus-per-actor 0 trains on the CPU")

    def never():
        raise AssertionError("Ray is started")

    monkeypatch.setattr(decisions, "HERE", OnGpu(refuse, machine.probe))
    monkeypatch.setattr(stacking, "connected", never)
    result = run(*AUTO)
    assert (result.code, machine.measured) == (2, 0)
    assert "GPU 0 cannot be used: busy" in result.err
    assert not GridFolder(run.storage, "mine").is_there


def test_without_the_option_nothing_is_measured_or_said(machine, run):
    result = run()
    assert (stacks(run), machine.measured) == ([1, 1], 0)
    assert "gpus-per-actor" not in result.out + result.err
    head = (run.storage.root / "grids" / "mine" / "runs.jsonl").read_text().splitlines()[0]
    assert "stacking" not in json.loads(head)


@pytest.mark.parametrize("command", [("search", "sattler", "--dataset", "digits")])
def test_other_commands_do_not_decide(command, tmp_path):
    result = fedgrid(*command, *AUTO, "--storage", tmp_path)
    assert result.code == 2
    assert "--gpus-per-actor auto" in result.err
    assert "fedgrid run" in result.err


def test_what_is_kept_survives_launches_and_damage_of_it_is_told(machine, run):
    run(*AUTO)
    folder = GridFolder(run.storage, "mine")
    assert folder.read().stacking == Stacking(3, folder.read().stacking.why)
    path = folder.path / "runs.jsonl"
    path.write_text(path.read_text().replace('"clients":3', '"clients":2', 1))
    result = run()
    assert result.code == 2
    assert "runs.jsonl" in result.err

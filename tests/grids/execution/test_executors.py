"""Where GPUs are opened: before anything starts, once, and those that the runs will use."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import Node, Placement, Request
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.grids.execution import executors
from fedgrid.grids.execution.executors import OnRay
from fedgrid.grids.planning import gpu_probe
from fedgrid.grids.planning.gpu_probe import Probed, Work
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.ray_cluster.gpus import Gpu

NOWHERE = Path("nowhere")
RUNS = [complete({"algorithm": "fedavg"}, NOWHERE)]
GB = 10**9
HERE, THERE = Gpu("GPU 0", 4 * GB, 8 * GB), Gpu("GPU 0 of node n1", 2 * GB, 8 * GB)
OPTIONS = LaunchOptions(NOWHERE, Request(), cache=None)


@pytest.fixture
def machine(monkeypatch):
    """Return a function that says where runs will go; the list has what was opened."""
    opened = []

    def opens(name, gpu):
        return lambda request: opened.append(name) or (gpu,)

    def give(nodes, *, known=True, initialised=False):
        monkeypatch.setattr("ray.is_initialized", lambda: initialised)
        monkeypatch.setattr(executors, "known_nodes", lambda request: nodes if known else None)
        monkeypatch.setattr(executors, "cluster_nodes", lambda: nodes)
        monkeypatch.setattr(executors, "open_here", opens("here", HERE))
        monkeypatch.setattr(executors, "open_on_cluster", opens("cluster", THERE))
        # 0.6 GB, and a quarter more.
        monkeypatch.setattr(
            gpu_probe, "probe_on_cluster", lambda crowds: Probed(8 * GB, 0, (Work(6 * GB // 10, 0.0),))
        )
        return opened

    return give


def test_gpu_that_cannot_be_used_is_refused_before_ray_starts(machine, monkeypatch):
    def refuse(request):
        raise ConfigError("GPU 0 cannot be used")

    machine([Node(16, 1)])
    monkeypatch.setattr(executors, "open_here", refuse)
    with pytest.raises(ConfigError, match="GPU 0 cannot be used"):
        OnRay(RUNS, OPTIONS)


def test_gpus_of_this_machine_are_opened_once_and_their_free_memory_counts(machine):
    """0.75 of 4 GB are 0.19: five actors."""
    opened = machine([Node(16, 1)])
    executor = OnRay(RUNS, OPTIONS)
    for _ in range(2):
        executor.place(RUNS)
    assert opened == ["here"]
    assert executor._places == {15: Placement(5, 1.0, 0.2, gpu_room_per_actor=0.8 * GB)}


@pytest.mark.parametrize("how", [{"known": False}, {"initialised": True}])
def test_gpus_of_a_cluster_are_opened_there(machine, how):
    """0.75 of 2 GB are 0.38: two actors."""
    opened = machine([Node(16, 1)], **how)
    executor = OnRay(RUNS, OPTIONS)
    assert opened == []
    for _ in range(2):
        executor.place(RUNS)
    assert opened == ["cluster"]
    assert executor._places == {15: Placement(2, 1.0, 0.5, gpu_room_per_actor=GB)}


def test_nothing_is_opened_where_no_gpu_is(machine):
    opened = machine([Node(2, 0)], known=False)
    OnRay(RUNS, OPTIONS).place(RUNS)
    assert opened == []

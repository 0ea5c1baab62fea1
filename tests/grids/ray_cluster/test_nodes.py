"""What a machine has: only GPUs that torch can use count, and the reason is given if it can use none."""

import sys
from types import SimpleNamespace

import pytest
import ray
import torch
from ray._private.accelerators import NvidiaGPUAcceleratorManager

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import Node, PlacementRequest
from fedgrid.grids.doctor.machine import read_available_memory
from fedgrid.grids.ray_cluster import cluster, nodes
from fedgrid.grids.ray_cluster.cluster import find_nodes
from fedgrid.grids.ray_cluster.nodes import check_gpus, read_cluster_nodes, read_local_nodes

OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
    "downloading and installing a new version."
)

SIZES = [40e9, 16e9, 8e9]
"""Bytes of the first GPUs."""


@pytest.fixture
def machine(monkeypatch):
    """Return a function that says how many GPUs the driver lists here, and how many of them torch can use."""

    def give(listed, usable=0, cause=OLD_DRIVER, cuda="13.0", shown=None):
        def init():
            raise RuntimeError(cause)

        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if shown is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        monkeypatch.setattr(NvidiaGPUAcceleratorManager, "get_current_node_num_accelerators", lambda: listed)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: usable > 0)
        # NVML lists GPUs also for a driver that is too old for this CUDA.
        monkeypatch.setattr(torch.cuda, "device_count", lambda: usable or listed)
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda at: SimpleNamespace(total_memory=SIZES[at])
        )
        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        monkeypatch.setattr(cluster, "find_address", lambda: cluster.LOCAL)

    return give


def test_torch_is_imported_only_where_there_are_gpus(machine, monkeypatch):
    machine(0)
    monkeypatch.setitem(sys.modules, "torch", None)
    [node] = read_local_nodes()
    assert (node.cpus >= 1, node.gpus, node.memory) == (True, 0, None)
    machine(2)
    with pytest.raises(ImportError, match="torch"):
        read_local_nodes()


def test_gpu_whose_driver_is_too_old_is_refused_with_the_cause_and_the_next_step(machine):
    machine(listed=1)
    assert read_local_nodes()[0].gpus == 0
    assert find_nodes(PlacementRequest(gpus_per_client=0))[0].gpus == 0, "the CPU is enough"
    with pytest.raises(ConfigError, match="1 GPU is here") as refused:
        find_nodes()
    message = str(refused.value)
    for part in ("too old (found version 11040)", "CUDA 13.0", "--gpus-per-actor 0"):
        assert part in message
    assert "\n" not in message
    assert "downloading" not in message


def test_torch_built_for_cpus_trains_there_and_says_so(machine, capsys):
    machine(listed=2, cuda=None)
    [node] = find_nodes()
    assert node.gpus == 0
    assert "2 GPUs are here" in (said := capsys.readouterr().err)
    assert "built for CPUs" in said


def test_gpus_that_can_be_used_are_counted_without_a_word(machine, capsys):
    machine(listed=2, usable=2)
    check_gpus(PlacementRequest())
    [node] = read_local_nodes()
    assert (node.gpus, node.gpu_memory) == (2, 16e9)
    assert 0 < node.memory <= read_available_memory()
    assert capsys.readouterr().err == ""


def test_gpus_that_the_environment_hides_are_not_missed(machine):
    machine(listed=4, shown="")
    check_gpus(PlacementRequest())
    assert read_local_nodes()[0].gpus == 0


def test_parts_of_a_gpu_count_each(machine):
    """CUDA shows a process one part at most, and the driver lists the whole GPU."""
    machine(listed=1, usable=1, shown="MIG-aa,MIG-bb,MIG-cc")
    [node] = read_local_nodes()
    assert (node.gpus, node.gpu_memory) == (3, 40e9)


def test_ray_counts_the_gpus_that_torch_can_use(machine, monkeypatch):
    """By itself it counts what the driver lists."""
    machine(listed=1)
    seen = {}
    monkeypatch.setattr("ray.init", lambda **settings: seen.update(settings))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    with cluster.connect_to_ray():
        assert seen["num_gpus"] == 0


@pytest.mark.ray
def test_cluster_nodes_are_the_live_ones(ray_session):
    assert read_cluster_nodes() == (Node(4, 0),)


@pytest.mark.ray
def test_memory_of_gpus_is_what_each_node_says_and_unknown_of_one_that_does_not(ray_session, monkeypatch):
    """The one node here says it without a GPU reserved; the other one is not there."""
    [here] = [node["NodeID"] for node in ray.nodes()]
    monkeypatch.setattr(nodes, "find_smallest_gpu", lambda number: 8e9 * number)
    assert nodes._read_gpu_memory(((here, 2), ("1".zfill(len(here)), 1))) == {here: 16e9}

"""What `fedgrid doctor` says of a machine, its GPUs, and a job of Slurm with an environment by hand."""

import os
from types import SimpleNamespace

import pytest
import torch

from fedgrid.grids.doctor import machine

GIB = 2**30
A100 = SimpleNamespace(name="NVIDIA A100", total_memory=40 * GIB)
T4 = SimpleNamespace(name="NVIDIA T4", total_memory=16 * GIB)
JOB = {
    "SLURM_JOB_ID": "42",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURMD_NODENAME": "n1",
    "SLURM_CPUS_PER_TASK": "4",
    "SLURM_CPUS_ON_NODE": "8",
    "SLURM_MEM_PER_NODE": "16384",
}


def test_little_memory_and_few_files_are_named_with_what_is_needed(monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       4096000 kB\nMemAvailable:   1048576 kB\n")
    monkeypatch.setattr(machine, "MEMORY", meminfo)
    monkeypatch.setattr(machine, "LEAST_FILES", 10**9)
    assert machine.read_available_memory() == 2**30
    memory, files = machine.describe_machine().missing
    assert memory == "memory: 1.0 GiB free, of 4"
    assert str(10**9) in files


@pytest.fixture
def gpus(monkeypatch):
    """Return a function that describes a machine of which the driver lists some GPUs, and torch uses some."""
    monkeypatch.delenv("SLURM_GPUS_ON_NODE", raising=False)

    def describe(*, listed, usable=0):
        monkeypatch.setattr(machine, "count_listed_gpus", lambda: listed)
        monkeypatch.setattr(machine, "count_usable_gpus", lambda listed: usable)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: usable)
        monkeypatch.setattr(torch.cuda, "get_device_properties", [A100, T4].__getitem__)
        monkeypatch.setattr(
            machine, "explain_unusable_gpus", lambda: "The NVIDIA driver is too old (found version 11040)"
        )
        monkeypatch.setattr(machine, "find_driver_version", lambda: "580.65.06")
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        return machine.describe_gpus()

    return describe


def test_machine_without_a_gpu_lacks_none(gpus):
    section = gpus(listed=0)
    assert (section.facts["GPUs"], section.missing) == ("none", [])


def test_gpu_that_slurm_has_granted_and_no_driver_lists_is_missing(gpus, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    [missing] = gpus(listed=0).missing
    assert "2 GPUs that Slurm has granted" in missing


def test_gpus_that_can_be_used_are_described(gpus):
    section = gpus(listed=2, usable=2)
    assert section.missing == []
    assert section.facts["torch"].endswith("built for CUDA 13.0")
    assert section.facts["driver"] == "580.65.06"
    assert section.facts["GPUs"] == "NVIDIA A100 with 40.0 GiB, NVIDIA T4 with 16.0 GiB"


def test_driver_that_is_too_old_is_named_with_the_cause(gpus):
    [missing] = gpus(listed=2).missing
    for part in ("2 here", "found version 11040"):
        assert part in missing


@pytest.fixture
def job(monkeypatch):
    """Return a function that describes a job with other variables, of this user's four CPUs."""
    for name in os.environ:
        if name.startswith("SLURM") or name == machine.GPU_VARIABLE:
            monkeypatch.delenv(name)

    def describe(cpus=4, variables=JOB, **changes):
        for name, value in {**variables, **changes}.items():
            monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cpus)))
        return machine.describe_job()

    return describe


def test_what_was_granted_is_described(job):
    section = job()
    assert section.missing == []
    assert section.facts == {
        "job": "42, on 2 nodes",
        "node": "n1",
        "CPUs": "4 a task; this process may use 4",
        "GPUs": "0 on this node; CUDA_VISIBLE_DEVICES is not set",
        "memory": "16.0 GiB on this node",
    }


def test_fewer_cpus_than_granted_are_named(job):
    [missing] = job(cpus=1).missing
    assert missing.startswith("CPUs: this process may use 1 of the 4")


@pytest.mark.parametrize(("shown", "count"), [("0,1", 0), ("0", 1), ("", 1), (None, 1)])
def test_gpus_that_are_granted_and_not_shown_are_missing(job, shown, count):
    missing = job(SLURM_GPUS_ON_NODE="2", CUDA_VISIBLE_DEVICES=shown).missing
    assert len(missing) == count
    assert all("CUDA_VISIBLE_DEVICES" in text and "2 granted" in text for text in missing)


def test_little_memory_is_named_also_if_it_is_granted_by_cpu(job):
    [missing] = job(SLURM_MEM_PER_NODE=None, SLURM_MEM_PER_CPU="256").missing
    assert missing == "memory: 2.0 GiB granted, of 4"


def test_machine_that_is_no_node_of_the_job_has_none_of_it(job):
    """As in a shell of salloc."""
    section = job(SLURMD_NODENAME=None, cpus=1)
    assert (section.facts.keys(), section.missing) == ({"job", "node"}, [])


def test_outside_a_job_there_is_one_line(job):
    assert job(variables={}).facts == {"job": "none"}
    assert machine.count_nodes() == 1

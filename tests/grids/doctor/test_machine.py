"""`fedgrid doctor` in a job of Slurm: its environment by hand."""

import os

import pytest

from fedgrid.grids.doctor import machine

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


@pytest.fixture
def look(monkeypatch):
    """Return a function that looks at a job with other variables, of this user's four CPUs."""
    for name in os.environ:
        if name.startswith("SLURM") or name == machine.SHOWN:
            monkeypatch.delenv(name)

    def look(cpus=4, job=JOB, **changes):
        for name, value in {**job, **changes}.items():
            monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cpus)))
        return machine.look_at_job()

    return look


def test_what_was_granted_is_told(look):
    section = look()
    assert section.problems == []
    assert section.facts == {
        "job": "42, on 2 nodes",
        "nodes": "this is n1",
        "CPUs": "4 a task; this process may use 4",
        "GPUs": "0 on this node; CUDA_VISIBLE_DEVICES is not set",
        "memory": "16.0 GiB on this node",
    }


def test_fewer_cpus_than_granted_are_a_problem(look):
    [problem] = look(cpus=1).problems
    for part in ("may use 1 of its 4 CPUs", "--cpus-per-task=4"):
        assert part in problem


@pytest.mark.parametrize(("shown", "count"), [("0,1", 0), ("0", 1), ("", 1), (None, 1)])
def test_gpus_that_are_granted_and_not_shown_are_a_problem(look, shown, count):
    problems = look(SLURM_GPUS_ON_NODE="2", CUDA_VISIBLE_DEVICES=shown).problems
    assert len(problems) == count
    assert all("granted 2 GPUs" in problem and "--gpus-per-task=2" in problem for problem in problems)


def test_little_memory_is_a_problem_also_if_it_is_granted_by_cpu(look):
    [problem] = look(SLURM_MEM_PER_NODE=None, SLURM_MEM_PER_CPU="256").problems
    assert "2.0 GiB" in problem
    assert "--mem=8G" in problem


def test_machine_that_is_no_node_of_the_job_is_told(look):
    """As in a shell of salloc."""
    section = look(SLURMD_NODENAME=None, cpus=1)
    assert section.problems == []
    assert "srun --overlap fedgrid doctor" in section.facts["nodes"]


def test_outside_a_job_there_is_one_line(look):
    assert look(job={}).facts == {"job": "not here"} or "outside a job" in look(job={}).facts["job"]
    assert machine.num_nodes() == 1

"""`fedgrid doctor` in a job of Slurm: its environment by hand, a `scontrol` that prints what Slurm prints."""

import os

import pytest

from fedgrid.grids.upkeep import slurm

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
SHOWN = (
    "JobId=42 JobName=fedgrid UserId=ann(1000) Requeue=1 Restarts=0 BatchFlag=1 RunTime=00:00:05 "
    "TimeLimit=1-00:00:00 EndTime=2026-11-26T09:00:00 NumNodes=2 TRES=cpu=8,mem=32G Command=/home/ann/a b.sh"
)


@pytest.fixture
def look(monkeypatch, tmp_path):
    """Return a function that looks at a job with other variables, of this user's four CPUs."""
    for name in os.environ:
        if name.startswith("SLURM") or name == slurm.SHOWN:
            monkeypatch.delenv(name)

    def look(shown=SHOWN, cpus=4, job=JOB, **changes):
        program = tmp_path / "scontrol"
        program.write_text(
            f"#!/bin/sh\n[ \"$*\" = '--oneliner show job 42' ] && echo '{shown}'\n"
            if shown
            else "#!/bin/sh\nexit 1\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        for name, value in {**job, **changes}.items():
            monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cpus)))
        return slurm.look()

    return look


def test_what_was_granted_is_told(look):
    found = look(SLURM_RESTART_COUNT="1")
    assert found.problems == []
    assert found.facts == {
        "job": "42, partition gpu, requeued 1 time",
        "nodes": "2: n[1-2]; this is n1",
        "CPUs": "4 a task, 8 on this node; this process may use 4",
        "GPUs": "0 on this node; CUDA_VISIBLE_DEVICES is not set",
        "memory": "16.0 GiB on this node",
        "time limit": "1-00:00:00, until 2026-11-26T09:00:00",
        "requeue": "on: after a node fails the job starts again",
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


def test_job_that_is_not_requeued_is_told(look):
    assert "submit again" in look(SHOWN.replace("Requeue=1", "Requeue=0")).facts["requeue"]


def test_controller_that_does_not_answer_is_no_problem(look):
    found = look(shown="")
    assert found.problems == []
    assert "does not answer" in found.facts["time limit"]


def test_machine_that_is_no_node_of_the_job_is_told(look):
    """As in a shell of salloc."""
    found = look(SLURMD_NODENAME=None, cpus=1)
    assert found.problems == []
    assert "srun --overlap fedgrid doctor" in found.facts["nodes"]


def test_outside_a_job_there_is_one_line(look, tmp_path):
    assert look(job={}).facts == {"job": "not here"} or "outside a job" in look(job={}).facts["job"]
    assert slurm.num_nodes() == 1

"""`fedgrid doctor`: what it finds, and what it keeps to itself."""

from types import SimpleNamespace

import pytest
import torch

from fedgrid.engine.federation.format import FORMAT
from fedgrid.grids.doctor import cluster, doctor, gpus, machine
from fedgrid.grids.doctor.machine import Findings
from tests.helpers.command_line import fedgrid, strict_json

GIB = 2**30
A100 = SimpleNamespace(name="NVIDIA A100", total_memory=40 * GIB)
T4 = SimpleNamespace(name="NVIDIA T4", total_memory=16 * GIB)


def test_a_new_storage_is_well_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_DATA", str(tmp_path / "data"))
    result = fedgrid("doctor", "--storage", tmp_path / "runs", "--json", FEDGRID_DATA=str(tmp_path / "data"))
    found = strict_json(result.out)
    assert (result.code, found["problems"]) == (0, [])
    assert f"format {FORMAT} of runs" in found["fedgrid"]["fedgrid"]
    assert "not there yet" in found["storage"]["place"]
    assert list(tmp_path.iterdir()) == []


def test_secrets_stay_out_and_problems_come_last(tmp_path):
    settings = {
        "MLFLOW_TRACKING_URI": "http://me:hunter2@127.0.0.1:9",
        "RAY_AUTH_TOKEN": "0123456789abcdef",
        "RAY_ADDRESS": "127.0.0.1:9",
    }
    result = fedgrid("doctor", "--storage", tmp_path / "runs", **settings)
    assert result.code == 1
    assert "hunter2" not in result.out
    assert "0123456789abcdef" not in result.out
    last = result.out.splitlines()[-3:]
    assert last[0].startswith("problem: Ray: the Ray cluster at 127.0.0.1:9 does not answer")
    assert last[1].startswith("problem: MLflow: no MLflow server answers at http://***@127.0.0.1:9")
    assert last[2] == "2 to fix."


def test_little_memory_and_few_files_are_named_with_what_to_do(monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       4096000 kB\nMemAvailable:   1048576 kB\n")
    monkeypatch.setattr(machine, "MEMORY", meminfo)
    monkeypatch.setattr(machine, "LEAST_FILES", 10**9)
    assert machine.available_memory() == 2**30
    memory, files = machine.look_at_machine().problems
    assert memory.startswith("1.0 GiB of memory is free")
    assert files.endswith("ulimit -n 65536")


@pytest.mark.parametrize("command", [["--version"], ["doctor", "--storage", "/nowhere"]])
def test_version_names_the_commit(command):
    assert "commit" in fedgrid(*command, FEDGRID_COMMIT="abc123").out


def test_each_problem_is_one_line_with_its_section_and_the_code_says_so(tmp_path, monkeypatch):
    """On a machine whose GPU is in exclusive mode, in a job of Slurm on two nodes without a shared folder."""
    found = Findings({"GPU 0": "NVIDIA A100"}, ["GPU 0 is in exclusive mode:\n one process"])
    monkeypatch.setattr(doctor, "look_at_gpus", lambda: found)
    result = fedgrid("doctor", "--storage", tmp_path / "runs", SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="2")
    assert result.code == 1
    problems = [line for line in result.out.splitlines() if line.startswith("problem: ")]
    assert problems[0] == "problem: GPUs: GPU 0 is in exclusive mode: one process"
    assert problems[1].startswith(f"problem: storage: {tmp_path} is on this machine alone")
    assert result.out.splitlines()[-1] == "2 to fix."


def test_json_has_the_sections_and_the_problems(tmp_path):
    found = strict_json(fedgrid("doctor", "--storage", tmp_path, "--json").out)
    assert {"machine", "GPUs", "Slurm", "Ray", "storage", "MLflow", "problems"} <= found.keys()
    assert found["storage"]["locks"] == "work"
    assert found["Ray"]["version"]


def test_token_that_clusters_need_is_named_and_not_shown(tmp_path, monkeypatch):
    file = tmp_path / "token"
    monkeypatch.setattr(cluster.cluster, "address", lambda: cluster.cluster.LOCAL)
    monkeypatch.setattr(cluster, "ray_servers", dict)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    assert f"needs {file}: `ray get-auth-token --generate`" in cluster.look_at_ray().facts["token"]
    file.write_text("0123456789abcdef")
    assert cluster.look_at_ray().facts["token"] == str(file)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")
    assert cluster.look_at_ray().facts["token"] == "that of RAY_AUTH_TOKEN"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert cluster.look_at_ray().facts["token"] == "not used (RAY_AUTH_MODE=disabled)"


@pytest.fixture
def look(monkeypatch):
    """Return a function that looks at GPUs."""
    monkeypatch.delenv("SLURM_GPUS_ON_NODE", raising=False)

    def look(*, listed=1, usable=1, cuda="13.0"):
        monkeypatch.setattr(gpus, "listed_gpus", lambda: listed)
        monkeypatch.setattr(gpus, "usable_gpus", lambda listed: usable)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: usable)
        monkeypatch.setattr(torch.cuda, "get_device_properties", [A100, T4].__getitem__)
        monkeypatch.setattr(gpus, "why", lambda: "The NVIDIA driver is too old (found version 11040)")
        monkeypatch.setattr(gpus, "driver", lambda: "580.65.06")
        monkeypatch.setattr(torch.version, "cuda", cuda)
        return gpus.look_at_gpus()

    return look


def test_machine_without_a_gpu_is_well(look):
    section = look(listed=0)
    assert section.problems == []
    assert "grids train on the CPU" in section.facts["GPUs"]


def test_gpu_that_slurm_has_granted_and_no_driver_lists_is_a_problem(look, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    [problem] = look(listed=0).problems
    assert "granted 2" in problem


def test_gpus_that_can_be_used_are_described(look):
    section = look(listed=2, usable=2)
    assert section.problems == []
    assert section.facts["torch"].endswith("built for CUDA 13.0, which needs driver 580 or later")
    assert section.facts["driver"] == "580.65.06"
    assert section.facts["GPUs"] == "NVIDIA A100 with 40.0 GiB, NVIDIA T4 with 16.0 GiB"


def test_driver_that_is_too_old_is_a_problem_with_the_cause(look):
    [problem] = look(listed=2, usable=0).problems
    for part in ("2 GPUs are here", "found version 11040", "update the driver", "--gpus-per-actor 0"):
        assert part in problem

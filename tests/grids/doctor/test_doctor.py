"""`fedgrid doctor`: what it finds, and what it keeps to itself."""

import pytest

from fedgrid.engine.federation.format import FORMAT
from fedgrid.grids.doctor import doctor
from fedgrid.grids.doctor.machine import DoctorSection
from tests.helpers.command_line import fedgrid, strict_json


def test_a_new_storage_is_well_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_DATA", str(tmp_path / "data"))
    result = fedgrid("doctor", "--storage", tmp_path / "runs", "--json", FEDGRID_DATA=str(tmp_path / "data"))
    found = strict_json(result.out)
    assert (result.code, found["missing"]) == (0, [])
    assert f"format {FORMAT} of runs" in found["fedgrid"]["fedgrid"]
    assert {"machine", "GPUs", "Slurm", "Ray", "storage", "MLflow"} <= found.keys()
    assert "not there yet" in found["storage"]["place"]
    assert (found["storage"]["locks"], bool(found["Ray"]["version"])) == ("work", True)
    assert list(tmp_path.iterdir()) == []


def test_secrets_stay_out_and_what_is_missing_comes_last(tmp_path):
    settings = {
        "MLFLOW_TRACKING_URI": "http://me:hunter2@127.0.0.1:9",
        "RAY_AUTH_TOKEN": "0123456789abcdef",
        "RAY_ADDRESS": "127.0.0.1:9",
    }
    result = fedgrid("doctor", "--storage", tmp_path / "runs", **settings)
    assert result.code == 1
    assert "hunter2" not in result.out
    assert "0123456789abcdef" not in result.out
    last = result.out.splitlines()[-2:]
    assert last[0].startswith("missing: Ray: the Ray cluster at 127.0.0.1:9 does not answer")
    assert last[1].startswith("missing: MLflow: no MLflow server answers at http://***@127.0.0.1:9")


@pytest.mark.parametrize("command", [["--version"], ["doctor", "--storage", "/nowhere"]])
def test_version_names_the_commit(command):
    assert "commit" in fedgrid(*command, FEDGRID_COMMIT="abc123").out


def test_each_missing_thing_is_one_line_with_its_section_and_the_code_says_so(tmp_path, monkeypatch):
    """On a machine whose GPU is in exclusive mode, in a job of Slurm on two nodes without a shared folder."""
    found = DoctorSection({"GPU 0": "NVIDIA A100"}, ["GPU 0 is in exclusive mode:\n one process"])
    monkeypatch.setattr(doctor, "describe_gpus", lambda: found)
    result = fedgrid("doctor", "--storage", tmp_path / "runs", SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="2")
    assert result.code == 1
    missing = [line for line in result.out.splitlines() if line.startswith("missing: ")]
    assert missing[0] == "missing: GPUs: GPU 0 is in exclusive mode: one process"
    assert missing[1].startswith("missing: storage: a folder")
    assert str(tmp_path) in missing[1]

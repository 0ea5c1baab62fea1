"""What a storage lies on; and Ray's processes of this user, in a /proc that the test writes."""

import fcntl
import os

import pytest

from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.upkeep import reach


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Return a function that starts a process."""
    monkeypatch.setattr(reach, "PROC", tmp_path)

    def start(number, name, parent):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\t{name}\nPPid:\t{parent}\nUid:\t{os.getuid()}\t0\t0\t0\n")

    return start


def test_servers_of_ray_are_found(start):
    start(9, "gcs_server", 8)
    start(7, "raylet", 1)
    start(8, "python", 1)
    assert reach.ray_servers() == {7: ("raylet", True), 9: ("gcs_server", False)}


def test_process_that_systemd_has_adopted_is_an_orphan(start):
    start(2, "systemd", 1)
    start(7, "raylet", 2)
    assert reach.ray_servers() == {7: ("raylet", True)}


def test_processes_of_other_users_are_left_alone(start, monkeypatch):
    start(7, "raylet", 1)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert reach.ray_servers() == {}


def test_orphans_are_a_problem_unless_a_cluster_is_in_use(start, monkeypatch):
    start(7, "raylet", 1)
    monkeypatch.setattr(cluster, "address", lambda: cluster.LOCAL)
    [problem] = reach.ray().problems
    assert "kill 7" in problem
    monkeypatch.setattr(cluster, "address", lambda: "ray://elsewhere:10001")
    assert reach.ray().problems == []


def test_servers_of_a_running_grid_are_no_problem(start, monkeypatch):
    start(6, "python", 1)
    start(7, "raylet", 6)
    monkeypatch.setattr(cluster, "address", lambda: cluster.LOCAL)
    section = reach.ray()
    assert section.problems == []
    assert section.facts["processes of yours"] == "raylet 7"


def test_disk_of_this_machine_is_told_and_nothing_is_left(tmp_path):
    section = reach.look_at_disk(tmp_path / "runs", on_several_machines=False)
    assert section.facts["file system"] == reach.file_system(tmp_path) != "unknown"
    assert (section.facts["locks"], section.problems) == ("work", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "count"), [("nfs4", 0), ("lustre", 0), ("xfs", 1), ("tmpfs", 1)])
def test_local_disk_is_a_problem_of_a_job_on_several_machines(monkeypatch, tmp_path, kind, count):
    monkeypatch.setattr(reach, "file_system", lambda folder: kind)
    problems = reach.look_at_disk(tmp_path, on_several_machines=True).problems
    assert len(problems) == count
    assert all(str(tmp_path) in problem and "all of them mount" in problem for problem in problems)


def test_locks_that_fail_are_a_problem_with_another_place_for_the_database(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    [problem] = reach.look_at_disk(tmp_path, on_several_machines=False).problems
    assert "No locks available" in problem
    assert "MLFLOW_TRACKING_URI" in problem
    assert list(tmp_path.iterdir()) == []


def test_little_room_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(reach, "LEAST_FREE", 10**18)
    [problem] = reach.look_at_disk(tmp_path, on_several_machines=False).problems
    assert "free in" in problem
    assert "fedgrid cache" in problem


def test_machine_without_df_is_no_problem(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    section = reach.look_at_disk(tmp_path, on_several_machines=True)
    assert (section.facts["file system"], section.problems) == ("unknown", [])

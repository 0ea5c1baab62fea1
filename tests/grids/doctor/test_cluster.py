"""Ray's processes of this user, in a /proc that the test writes."""

import os

import pytest

from fedgrid.grids.doctor import cluster as doctor
from fedgrid.grids.ray_cluster import cluster


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Return a function that starts a process."""
    monkeypatch.setattr(doctor, "PROC", tmp_path)

    def start(number, name, parent):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\t{name}\nPPid:\t{parent}\nUid:\t{os.getuid()}\t0\t0\t0\n")

    return start


def test_servers_of_ray_are_found(start):
    start(9, "gcs_server", 8)
    start(7, "raylet", 1)
    start(8, "python", 1)
    assert doctor.ray_servers() == {7: ("raylet", True), 9: ("gcs_server", False)}


def test_process_that_systemd_has_adopted_is_an_orphan(start):
    start(2, "systemd", 1)
    start(7, "raylet", 2)
    assert doctor.ray_servers() == {7: ("raylet", True)}


def test_processes_of_other_users_are_left_alone(start, monkeypatch):
    start(7, "raylet", 1)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert doctor.ray_servers() == {}


def test_orphans_are_a_problem_unless_a_cluster_is_in_use(start, monkeypatch):
    start(7, "raylet", 1)
    monkeypatch.setattr(cluster, "address", lambda: cluster.LOCAL)
    [problem] = doctor.look_at_ray().problems
    assert "kill 7" in problem
    monkeypatch.setattr(cluster, "address", lambda: "elsewhere:6379")
    monkeypatch.setattr(cluster, "check_answers", lambda address: None)
    assert doctor.look_at_ray().problems == []


def test_servers_of_a_running_grid_are_no_problem(start, monkeypatch):
    start(6, "python", 1)
    start(7, "raylet", 6)
    monkeypatch.setattr(cluster, "address", lambda: cluster.LOCAL)
    section = doctor.look_at_ray()
    assert section.problems == []
    assert section.facts["processes of yours"] == "raylet 7"

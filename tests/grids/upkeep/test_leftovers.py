"""Ray's processes of this user, in a /proc that the test writes."""

import os

import pytest

from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.upkeep import leftovers, reach

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Return a function that starts a process an hour after the machine; it runs for three."""
    (tmp_path / "uptime").write_text("14400.00 20000.00\n")
    monkeypatch.setattr(leftovers, "PROC", tmp_path)

    def start(pid, name, parent):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "comm").write_text(f"{name}\n")
        rest = " ".join(["S", str(parent), *["0"] * 17, str(3600 * TICKS), "0"])
        (folder / "stat").write_text(f"{pid} ({name}) {rest}\n")

    return start


def test_servers_of_ray_are_found_with_their_age(start):
    start(7, "raylet", 1)
    start(8, "python", 1)
    start(9, "gcs_server", 8)
    found = leftovers.ray_servers()
    assert [str(process) for process in found] == ["raylet 7, 3 h old", "gcs_server 9, 3 h old"]
    assert [process.is_orphan for process in found] == [True, False]


def test_process_that_systemd_has_adopted_is_an_orphan(start):
    start(2, "systemd", 1)
    start(7, "raylet", 2)
    assert [process.is_orphan for process in leftovers.ray_servers()] == [True]


def test_processes_of_other_users_are_left_alone(start, monkeypatch):
    start(7, "raylet", 1)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert leftovers.ray_servers() == []


def test_orphans_are_a_problem_unless_a_cluster_is_in_use(start, monkeypatch):
    start(7, "raylet", 1)
    monkeypatch.setattr(cluster, "address", lambda: cluster.LOCAL)
    [problem] = reach.ray().problems
    assert "raylet 7" in problem
    assert "kill 7" in problem
    monkeypatch.setattr(cluster, "address", lambda: "ray://elsewhere:10001")
    assert reach.ray().problems == []


def test_servers_of_a_running_grid_are_no_problem(start, monkeypatch):
    start(6, "python", 1)
    start(7, "raylet", 6)
    monkeypatch.setattr(cluster, "address", lambda: cluster.LOCAL)
    found = reach.ray()
    assert found.problems == []
    assert found.facts["processes of yours"] == "raylet 7, 3 h old"

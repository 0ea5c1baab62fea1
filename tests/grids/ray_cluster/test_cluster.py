"""The cluster that a grid runs on: a running one, not one whose address is stale."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import Node, Placement, PlacementRequest
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.integrity.code import SOURCES
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.cluster import (
    check_address,
    compute_placements,
    count_concurrent_runs,
    find_nodes,
)
from fedgrid.grids.ray_cluster.nodes import read_local_nodes


@pytest.fixture
def address_file(tmp_path, monkeypatch):
    """Return the file in which `ray start` leaves the address of its cluster."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray" / "ray_current_cluster"


@pytest.mark.parametrize("stale", ["", "127.0.0.1:9", "no address"])
def test_nodes_without_a_cluster_are_this_machine(address_file, stale):
    address_file.write_text(stale)
    assert find_nodes() == read_local_nodes()


def test_nodes_of_a_running_cluster_are_unknown_before_connecting(address_file, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address_file.write_text(f"127.0.0.1:{server.getsockname()[1]}")
        assert find_nodes() is None
        monkeypatch.setenv("RAY_ADDRESS", "local")
        assert find_nodes() == read_local_nodes()
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert find_nodes() is None


def test_cluster_of_another_user_is_not_used(address_file, monkeypatch):
    """It would get our token and run our code."""
    monkeypatch.setattr(cluster, "ROOT_ID", -1)
    monkeypatch.setattr(cluster.os, "getuid", lambda: os.stat(address_file).st_uid + 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address_file.write_text(f"127.0.0.1:{server.getsockname()[1]}")
        assert find_nodes() == read_local_nodes()


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (Exception("Failed to start GCS.\nTraceback ...\nInvalidAuthToken: no"), "GCS. InvalidAuthToken: no"),
        (ConnectionError("refused"), "refused"),
    ],
)
def test_cluster_that_cannot_be_used_is_one_line(monkeypatch, error, cause):
    def init(**settings):
        raise error

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    monkeypatch.setattr(cluster, "_is_reachable", lambda address: True)
    with (
        pytest.raises(RunError, match=f"cluster at head:6379 cannot be used .*{cause}.; ") as refused,
        cluster.connect_to_ray(),
    ):
        pass
    assert "ray stop" not in str(refused.value)
    for part in ("--in-process", "auth_token", "RAY_AUTH_MODE=token"):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("error", "is_busy"),
    [
        (Exception("The current node timed out during startup."), True),
        (RuntimeError("Failed to start GCS."), False),
    ],
)
def test_ray_that_does_not_start_is_one_line_that_blames_a_busy_machine_only_for_a_timeout(
    monkeypatch, error, is_busy
):
    """Ray raises a bare exception where its processes take too long."""
    refusal = cluster._describe_refusal(cluster.LOCAL, error)
    assert (str(error) in refusal, "--in-process" in refusal, "less busy" in refusal) == (True, True, is_busy)


def test_silent_cluster_is_one_line_that_ends_no_other_cluster():
    with pytest.raises(ConfigError, match=r"127.0.0.1:9 does not answer; RAY_ADDRESS=local .*--in-process"):
        check_address("127.0.0.1:9")


@pytest.mark.parametrize("address", ["127.0.0.1", "LOCAL", "ray://head:10001", ":6379", "head:port"])
def test_an_address_without_host_and_port_is_refused_with_what_to_write(address):
    says = rf"RAY_ADDRESS={address}: expected HOST:PORT.* 6379.*RAY_ADDRESS=local"
    with pytest.raises(ConfigError, match=says):
        check_address(address)


def test_auto_is_the_cluster_of_this_machine(address_file, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(ConfigError, match="RAY_ADDRESS=auto: no Ray cluster of yours runs on this machine; "):
        check_address(cluster.find_address())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address_file.write_text(place := f"127.0.0.1:{server.getsockname()[1]}")
        assert cluster.find_address() == place


def test_other_code_in_the_current_folder_is_refused_and_a_copy_is_not(tmp_path, monkeypatch):
    """Ray's workers import from there before they look where the driver's code is."""
    monkeypatch.chdir(tmp_path)
    cluster.check_current_folder()
    copy = shutil.copytree(SOURCES.folder, tmp_path / "fedgrid", ignore=shutil.ignore_patterns("__pycache__"))
    cluster.check_current_folder()
    changed = copy / "engine" / "federation" / "seeds.py"
    changed.write_text(changed.read_text() + "\nANOTHER_CONSTANT = 1\n")
    with pytest.raises(ConfigError, match=f"{copy} has other code than {SOURCES.folder}.*--in-process"):
        cluster.check_current_folder()


def test_in_process_looks_for_no_cluster(monkeypatch):
    def look():
        raise AssertionError("looked for a cluster")

    monkeypatch.setattr(cluster, "find_address", look)
    monkeypatch.setattr("ray.is_initialized", look)
    assert cluster.find_nodes_to_run_on(in_process=True) == ()


SEVEN = [
    complete_config({"algorithm": {"name": "briggs", "threshold": number / 10}}, Path("unused"))
    for number in range(1, 8)
]
"""Runs of one scenario and seed: one shared prefix, fifteen clients."""


def test_clients_of_many_runs_train_in_their_servers():
    assert compute_placements(SEVEN, [Node(2, 0)], PlacementRequest(), 7) == {
        15: Placement(1, 0.9, 0.0, in_server=True)
    }


def test_runs_of_one_shared_prefix_are_placed_like_one_run():
    """Both cores work for the run that computes; otherwise one would wait for the other."""
    assert compute_placements(SEVEN, [Node(2, 0)], PlacementRequest(), 1) == {15: Placement(2, 0.95, 0.0)}


def test_num_to_place_counts_runs_or_shared_prefixes():
    other = [complete_config({"seed": seed}, Path("unused")) for seed in (1, 2)]
    assert (
        count_concurrent_runs([*SEVEN, *other]),
        count_concurrent_runs([*SEVEN, *other], by_shared_prefix=True),
    ) == (9, 3)

"""A local cluster of few processes."""

import logging
import os
import stat
import sys
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

import pytest
from ray._private import ray_constants, services, worker
from ray._private.node import Node
from ray.air._internal import usage
from ray.tune.execution import class_cache

from fedgrid.grids.ray_cluster import local as start
from fedgrid.grids.ray_cluster.local import create_private_folder, lighten_tune, limit_processes, lock_start


def test_ray_is_on_loopback_and_leaves_processes_out_within_the_block_only(monkeypatch):
    monkeypatch.setattr(worker, "_global_node", None)
    before = {name: getattr(Node, name) for name in start.STAND_INS}
    assert ray_constants.ENABLE_RAY_CLUSTER is True
    with limit_processes():
        assert services.get_node_ip_address() == "127.0.0.1"
        assert {name: getattr(Node, name) for name in start.STAND_INS} == start.STAND_INS
    assert ray_constants.ENABLE_RAY_CLUSTER is True
    assert {name: getattr(Node, name) for name in start.STAND_INS} == before


def test_keys_of_the_storage_are_not_passed_on_to_logs(monkeypatch):
    """Ray writes the environment of an actor into runtime_env_agent.log; workers inherit it anyway."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "s3cr3t-W0rd")
    with lighten_tune():
        actor = class_cache._ActorClassCache().get(type("Trainable", (), {}))
        assert "s3cr3t-W0rd" not in str(actor._default_options)
        assert not [name for name in class_cache.ENV_VARS_TO_PROPAGATE if "AWS" in name], "Tune has new ones"


@pytest.fixture
def temporary(monkeypatch, tmp_path) -> Path:
    """The temporary folder, whose path is short enough for a socket's."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setattr(start, "LONGEST_FOLDER", 1000)
    monkeypatch.setattr(start, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_logs_and_sockets_lie_in_a_folder_of_this_user_alone(monkeypatch, temporary):
    """Ray makes its own folder one for everybody, again with each worker that it starts."""
    with create_private_folder() as folder:
        assert folder.parent == temporary
        assert mode_of(folder) == 0o700
        (folder / "ray").mkdir()
    assert not folder.exists()
    monkeypatch.setenv("RAY_TMPDIR", str(temporary / "large"))
    (temporary / "large").mkdir()
    with create_private_folder() as folder:
        assert folder.parent == temporary / "large"


def test_long_path_is_replaced_by_a_short_private_one(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / ("x" * 40)))
    with create_private_folder() as folder:
        assert len(str(folder)) <= start.LONGEST_FOLDER
        assert mode_of(folder) == 0o700
    assert not folder.exists()


def test_one_process_starts_a_ray_at_a_time(tmp_path):
    other = os.open(tmp_path, os.O_RDONLY)
    with lock_start(tmp_path), pytest.raises(BlockingIOError):
        flock(other, LOCK_EX | LOCK_NB)
    flock(other, LOCK_EX | LOCK_NB)
    os.close(other)


def test_tune_is_light_within_the_block_and_as_it_was_after_it(monkeypatch):
    """It has no environment for its actors, and imports no MLflow to count callbacks."""

    def state():
        parts = class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE, usage.tag_callbacks
        return [*parts, *map(os.environ.get, start.TUNE_SETTINGS), logging.getLogger("ray.tune").level]

    monkeypatch.setitem(sys.modules, "ray.air.integrations.mlflow", None)
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "7")
    monkeypatch.delenv("RAY_AIR_NEW_OUTPUT", raising=False)
    before = state()
    with lighten_tune():
        assert class_cache.DEFAULT_ENV_VARS == {}
        assert usage.tag_callbacks([object()]) is False
        assert os.environ["TUNE_GLOBAL_CHECKPOINT_S"] == "7"
        assert os.environ["RAY_AIR_NEW_OUTPUT"] == "0"
    assert state() == before

"""Ray's token is for its user alone."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_IMODE
from threading import Barrier
from unittest.mock import Mock

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.ray_cluster.token import enable_token, protect_token


@pytest.fixture
def token(tmp_path, monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".ray" / "auth_token"


def test_token_is_for_its_user_alone(token):
    protect_token(create=True)
    assert S_IMODE(token.stat().st_mode) == 0o600
    assert len(bytes.fromhex(made := token.read_text())) == 32
    token.chmod(0o644)
    protect_token(create=False)
    assert (S_IMODE(token.stat().st_mode), token.read_text()) == (0o600, made)


def test_first_starts_at_the_same_instant_have_one_whole_token(token, tmp_path, monkeypatch):
    for start in range(20):
        monkeypatch.setenv("HOME", str(tmp_path / str(start)))
        file, gate = tmp_path / str(start) / ".ray" / "auth_token", Barrier(8)

        def create(file: Path = file, gate: Barrier = gate) -> str:
            gate.wait()
            protect_token(create=True)
            return file.read_text()

        with ThreadPoolExecutor(8) as threads:
            texts = [made.result() for made in [threads.submit(create) for _ in range(8)]]
        assert set(texts) == {file.read_text()}
        assert len(bytes.fromhex(texts[0])) == 32
        assert [path.name for path in file.parent.iterdir()] == ["auth_token"]


@pytest.mark.parametrize(
    ("name", "value"), [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", "abc"), ("NOTHING", "x")]
)
def test_no_token_is_created_where_none_is_used(token, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    protect_token(create=name != "NOTHING")
    assert not token.exists()


def test_home_that_cannot_be_written_is_one_line(token, tmp_path):
    token.parent.write_text("a file in the place of the folder")
    with pytest.raises(ConfigError, match=r"auth_token cannot be written: .*; set HOME to a folder of yours"):
        protect_token(create=True)


@pytest.mark.parametrize(
    "folder", [default_data_dir, lambda: Storage.from_text("memory://x").root], ids=["data", "uri"]
)
def test_user_without_a_home_is_one_line(token, monkeypatch, folder):
    for name in ("FEDGRID_DATA", "XDG_CACHE_HOME", "FEDGRID_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(ConfigError, match="there is no home folder for .*; set HOME"):
        folder()


@pytest.mark.parametrize(
    ("mode", "written", "is_started", "then"),
    [
        (None, "right", False, "token"),
        (None, None, False, None),
        ("disabled", "right", False, "disabled"),
        (None, "right", True, None),
    ],
)
def test_ray_is_told_to_send_a_token_that_is_there(token, monkeypatch, mode, written, is_started, then):
    """`ray start` wants a token once there is one; `ray.init` at an address does not send it by itself.

    A Ray that the program has started keeps its mode.
    """
    if mode:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    if written:
        token.parent.mkdir()
        token.write_text(written)
    monkeypatch.setattr("ray.is_initialized", lambda: is_started)
    monkeypatch.setattr("ray._raylet.Config", Mock())
    enable_token()
    assert os.environ.get("RAY_AUTH_MODE") == then

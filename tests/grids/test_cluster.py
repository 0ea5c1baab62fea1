"""Which cluster a grid runs on: the one that is there, not one that a note remembers."""

import socket
import tempfile

import pytest

from engine.resources import local_nodes
from grids.cluster import known_nodes


@pytest.fixture
def note(tmp_path, monkeypatch):
    """Return the file in which `ray start` leaves the address of its cluster."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray" / "ray_current_cluster"


def test_without_a_cluster_it_is_this_machine(note):
    assert known_nodes() == local_nodes()


def test_of_a_cluster_that_answers_only_the_cluster_knows(note):
    with socket.create_server(("127.0.0.1", 0)) as server:
        note.write_text(f"127.0.0.1:{server.getsockname()[1]}")
        assert known_nodes() is None


@pytest.mark.parametrize("address", ["127.0.0.1:9", "no address"])
def test_a_note_of_a_cluster_that_is_gone_is_nothing(note, address):
    note.write_text(address)
    assert known_nodes() == local_nodes()


def test_ray_address_names_a_cluster(note, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert known_nodes() is None
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert known_nodes() == local_nodes()

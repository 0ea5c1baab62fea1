"""The wait for a cluster's machines, with a stand-in for Ray."""

import pytest
import ray

from fedgrid.grids.ray_cluster import joined

ONE = {"Alive": True}
GONE = {"Alive": False}


@pytest.fixture
def looks(monkeypatch):
    """Return the list of what Ray's nodes are at each look; its last entry stays. A pause takes no time."""
    looks: list[list[dict[str, bool]]] = []
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "nodes", lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    seconds = iter(range(100_000))
    monkeypatch.setattr(joined.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(joined.time, "sleep", lambda _: None)
    return looks


def test_it_returns_once_all_machines_have_joined(looks, capsys):
    looks += [[ONE], [ONE, GONE], [ONE, ONE]]
    joined.main(2)
    assert looks == [[ONE, ONE]]
    assert capsys.readouterr().out == ""


def test_a_machine_that_does_not_come_is_a_warning(looks, capsys):
    looks += [[ONE]]
    joined.main(2)
    said = capsys.readouterr().out
    assert "warning" in said
    assert "1 of 2" in said

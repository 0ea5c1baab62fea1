"""The names of tasks in Ray's dashboard."""

from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.clients.ray_pool import RayPool, _format_clients


def test_task_has_run_round_and_clients(monkeypatch):
    monkeypatch.setattr(RayPool, "_start_actor", lambda pool, index: None)
    pool = RayPool(None, Placement(1, 1.0, 0.0))
    assert pool._name_task("train", "round 3, client 0") == "Client.train, round 3, client 0"
    pool.run_name = "digits-fedavg-s0"
    assert (
        pool._name_task("train", "round 3, client 0") == "Client.train, digits-fedavg-s0, round 3, client 0"
    )


def test_many_clients_are_counted():
    assert _format_clients([3]) == "client 3"
    assert _format_clients([0, 2]) == "clients 0 2"
    assert _format_clients(range(7)) == "clients 0 1 2 3 and 3 more"

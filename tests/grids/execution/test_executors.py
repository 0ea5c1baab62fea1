"""What a run reserves on a cluster: with GPUs, what its training takes of the smallest one."""

from pathlib import Path

from fedgrid.engine.runtime.clients.placement import Node, Placement, PlacementRequest
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.execution import executors
from fedgrid.grids.execution.executors import RayExecutor
from fedgrid.grids.planning.options import LaunchOptions

NOWHERE = Path("nowhere")
RUNS = [complete_config({"algorithm": "fedavg"}, NOWHERE)]


def test_actors_on_a_gpu_have_what_they_are_reckoned_to_take(monkeypatch):
    """0.76 GB of 4 GB are 0.19: five actors for 15 clients, which take turns."""
    nodes = (Node(16, 1, None, 4e9),)
    monkeypatch.setattr(executors, "find_nodes", lambda request: None)
    monkeypatch.setattr(executors, "read_cluster_nodes", lambda: nodes)
    for share, placed in ((None, Placement(5, 1.0, 0.2)), (0.5, Placement(2, 1.0, 0.5))):
        executor = RayExecutor(
            RUNS, LaunchOptions(NOWHERE, PlacementRequest(gpus_per_client=share), cache=None)
        )
        executor.place_runs(RUNS)
        assert executor._places == {15: placed}

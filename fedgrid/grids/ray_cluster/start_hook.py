"""Hooks for what `ray start` has no options for: cluster files name one in RAY_START_HOOK."""

from typing import Any

from fedgrid.grids.ray_cluster.local import RAY_SETTINGS, STAND_INS


def no_client_server(parameters: Any, head: bool) -> None:
    """Leave out of `ray start` the server for clients of `ray://` addresses, which nothing here uses.

    It would listen on port 10001 of all the head's addresses. Arguments as below.
    """
    parameters.ray_client_server_port = None


def only_what_a_grid_uses(parameters: Any, head: bool) -> None:
    """Leave out of `ray start` whatever has a fixed port, so that two clusters can share a machine.

    These are the dashboard (which runs, and shows metrics to all addresses, even if it is not included), the
    autoscaler, the server for clients of `ray://` addresses, and metrics, which need no token.

    Args:
        parameters: Ray's `RayParams`, which this changes.
        head: whether the node is the head of its cluster, whose settings the other nodes take.
    """
    from ray._private.node import Node

    no_client_server(parameters, head)
    if head:
        # Only the head's settings count: the other nodes receive them from it.
        parameters._system_config = {**(parameters._system_config or {}), **RAY_SETTINGS}
    for name, method in STAND_INS.items():
        setattr(Node, name, method)

"""What `ray start` leaves out."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray._common.utils import load_class
from ray._private import ray_constants
from ray._private.node import Node
from ray._private.parameter import RayParams

from fedgrid.grids.ray_cluster import start_hook
from fedgrid.grids.ray_cluster.local import RAY_SETTINGS, STAND_INS


@pytest.fixture
def own_node(monkeypatch):
    """Let Ray's `Node` be as it was after the test."""
    for name in STAND_INS:
        monkeypatch.setattr(Node, name, getattr(Node, name))


@pytest.mark.parametrize("given", [None, {"automatic_object_spilling_enabled": False}])
def test_the_head_has_no_client_server_no_metrics_no_dashboard_and_no_autoscaler(own_node, given):
    parameters = RayParams(ray_client_server_port=10001, _system_config=given)
    start_hook.only_what_a_grid_uses(parameters, True)
    assert parameters.ray_client_server_port is None
    assert parameters._system_config == {**(given or {}), **RAY_SETTINGS}
    assert parameters._system_config["enable_metrics_collection"] is False
    assert {name: getattr(Node, name) for name in STAND_INS} == STAND_INS


def test_other_nodes_take_the_settings_of_the_head(own_node):
    parameters = SimpleNamespace(ray_client_server_port=10001, _system_config=None)
    start_hook.only_what_a_grid_uses(parameters, False)
    assert (parameters.ray_client_server_port, parameters._system_config) == (None, None)


@pytest.mark.parametrize("head", [True, False])
def test_the_client_server_alone_can_be_left_out(head):
    """`fedgrid submit` and `ray up` need the dashboard and the autoscaler."""
    before = {name: getattr(Node, name) for name in STAND_INS}
    parameters = RayParams(ray_client_server_port=10001)
    given = dict(vars(parameters))
    start_hook.no_client_server(parameters, head)
    assert vars(parameters) == given | {"ray_client_server_port": None}
    assert {name: getattr(Node, name) for name in STAND_INS} == before


def test_slurm_sh_names_the_hook():
    text = (Path(__file__).parents[3] / "clusters/slurm.sh").read_text()
    named = re.search(rf"^export {ray_constants.RAY_START_HOOK}=(\S+)$", text, re.MULTILINE)
    assert named
    assert load_class(named[1]) is start_hook.only_what_a_grid_uses

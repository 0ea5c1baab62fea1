"""Where in a plugin's file a run failed: file and line, of the server's code and of the clients'."""

import re

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.failure import describe_error
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from tests.helpers.small_grid import NOWHERE, config

FAILING = """
import numpy as np
from fedgrid import AlgorithmEntry, Diagnostics, FedOpt, FedOptSettings, LocalRule, Order

class Rule(LocalRule):
    def start(self, local):
        return {CLIENT}

class Failing(FedOpt):
    '''Fails at the server or at the clients.'''

    def orders(self, state, round_index, present, layout, rng):
        return [Order(c, (int(state.labels_K[c]),), rule=Rule()) for c in present.sampled]

    def recluster(self, state, round_index, updates, rng):
        np.stack([{SERVER}])
        return state, Diagnostics()

ALGORITHMS = [AlgorithmEntry("failing", "FAIL", "fails", "ours", Failing, FedOptSettings())]
"""
CASES = {
    "clients": ({"CLIENT": "1 / 0", "SERVER": "1"}, r"client 0, round 1: plugin \S*mine.py, line 7: ZeroDiv"),
    "server": ({"CLIENT": "super().start(local)", "SERVER": ""}, r"^plugin \S*mine.py, line 16: ValueError"),
}


@pytest.fixture(autouse=True)
def no_plugins_after():
    yield
    active.use_plugins()


@pytest.mark.parametrize(("filled", "expected"), CASES.values(), ids=CASES)
def test_a_failure_names_the_line_of_the_plugin(filled, expected, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FAILING.format(**filled))
    active.use_plugins([path])
    given = {"clients": 3, "training": {"rounds": 1}, "algorithm": "failing"}
    events = run_to_end(
        Session(InProcessPool(), NOWHERE),
        complete_config(given, NOWHERE),
        Storage.from_text(tmp_path / "runs"),
        bool,
    )
    with pytest.raises((RunError, ValueError)) as failure:
        list(events)
    message = describe_error(failure.value)
    assert re.search(expected, message), message


def test_a_failure_elsewhere_names_no_plugin():
    with pytest.raises(KeyError) as failure:
        {}[config(seed=1).run_id]
    assert describe_error(failure.value).startswith("KeyError: ")

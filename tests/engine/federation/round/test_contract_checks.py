"""An algorithm that writes to what it is handed, or returns what none may, fails its run by name."""

import random
import re

import numpy as np
import pytest
import torch

from fedgrid.algorithms.clustering.clusterers import KMeans
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.checks import BrokenContract, check_labels
from fedgrid.algorithms.contract.split import split
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.seeds import read_global_states
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.failure import describe_error
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from tests.helpers.small_grid import NOWHERE

PLUGIN = """
from dataclasses import replace
import numpy as np
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.contract.orders import Message, Served
from fedgrid import (
    AlgorithmEntry, Diagnostics, FedOpt, FedOptSettings, LocalRule, LocalSteps, Order, split_positions
)

class Rule(LocalRule):
    def start(self, local):
        return Steps()

class Steps(LocalSteps):
    def finish(self, local, num_steps):
        {steps}
        return super().finish(local, num_steps)

class Say(Message):
    def describe(self, images, labels, num_classes, rng):
        {describe}
        return {{"counts": np.bincount(labels.numpy(), minlength=num_classes)}}

class Own(FedOpt):
    '''Does what it is told to do.'''

    def init(self, layout, num_clients, fresh, rng):
        state = super().init(layout, num_clients, fresh, rng)
        {init}
        return state

    def message(self):
        return Say()

    def meet(self, state, messages, layout, rng):
        {meet}
        return state.keep(heard=np.ones(3))

    def orders(self, state, round_index, present, layout, rng):
        shared = {{"pull": np.ones(3)}}
        orders = [Order(c, (int(state.labels_K[c]),), rule=Rule(), payload=shared) for c in present.sampled]
        {orders}
        return orders

    def recluster(self, state, round_index, updates, rng):
        {recluster}
        return state, Diagnostics()

    def served(self, state, layout):
        served = super().served(state, layout)
        {served}
        return served

    def global_model(self, state):
        {global_model}
        return super().global_model(state)

ALGORITHMS = [AlgorithmEntry("own", "OWN", "does what it is told", "ours", Own, FedOptSettings())]
"""
NOTHING = re.findall(r"\n +\{(\w+)\}", PLUGIN)
READ_ONLY = r"^{where}plugin \S*mine.py, line \d+: ValueError: (assignment|output).*read-only"
SERVER = READ_ONLY.format(where="")
CLIENT = READ_ONLY.format(where="client 0, round 1: ")
WRITES = {
    "to a model": ("recluster", "state.models[0][0] = 1", SERVER),
    "to an array of its own": ("recluster", "state.arrays['heard'][0] = 1", SERVER),
    "to an update": ("recluster", "updates.vectors()[0][0] = 1", SERVER),
    "to a mean": ("recluster", "updates.mean()[0] = 1", SERVER),
    "to a message": ("meet", "messages[0]['counts'][0] = 1", SERVER),
    "to a payload": ("steps", "local.payload['pull'][0] = 1", CLIENT),
    "to the model a client started from": ("steps", "local.start.zero_()", "Rule wrote to local.start"),
    "to a client's images": ("describe", "images.zero_()", "client 0, its message: .*Say.describe wrote to"),
    "to a client's labels": ("describe", "labels.zero_()", "client 0, its message: .*Say.describe wrote to"),
}
RETURNS = {
    "labels of a model that is not there": (
        "recluster",
        "state = replace(state, labels_K=np.array([0, 1, 0]))",
        r"Own.recluster returned labels_K with client 1 in 1; there are 1 models, from 0",
    ),
    "a model of doubles": (
        "recluster",
        "state = replace(state, models=(state.models[0].astype(float),))",
        r"Own.step returned model 0 = float64, shape \(\d+,\); expected float32, shape \(\d+,\)",
    ),
    "a model that is no number": (
        "recluster",
        "state = replace(state, models=(state.models[0] * np.float32(np.nan),))",
        r"Own.step returned model 0 with (\d+) of \1 entries NaN or infinite; if the training diverges",
    ),
    "no state": ("init", "return None", r"Own.init returned a NoneType; expected a State"),
    "rows of no model": (
        "recluster",
        "state = state.keep(cluster_rows=np.ones((2, 1)))",
        r"arrays\['cluster_rows'\] = float64, shape \(2, 1\); expected a row for each of the 1 models",
    ),
    "a list as an array": (
        "recluster",
        "state = state.keep(mine=[1, 2])",
        r"arrays\['mine'\] = a list; expected a NumPy array",
    ),
    "two orders for a client": (
        "orders",
        "orders += [orders[1]]",
        r"Own.orders returned 2 orders for client 1; expected at most one, and only for clients that",
    ),
    "an order of a model that is not there": (
        "orders",
        "orders[2] = replace(orders[2], candidates=(3,))",
        r"Own.orders returned candidates \(3,\) for client 2; expected positions of the 1 models",
    ),
    "a served model that is not there": (
        "served",
        "served = Served(served.models, np.array([0, 0, 1]))",
        r"Own.served returned model_K with client 2 in 1; there are 1 models",
    ),
    "a short model for all": (
        "global_model",
        "return state.models[0][1:]",
        r"Own.global_model returned model 0 = float32, shape",
    ),
    "a state alone": (
        "recluster",
        "return state",
        r"mine.py, line \d+: Own.recluster returned a State; write `return state, Diagnostics\(\)`",
    ),
    "orders one after another": (
        "orders",
        "return iter(orders)",
        r"Own.orders returned a list_iterator; expected a list of Order",
    ),
    "a list as a message": (
        "describe",
        "return [1]",
        r"its message: plugin .*Say.describe returned a list;",
    ),
    "nothing at a client": (
        "steps",
        "return None",
        r"client 0, round 1: plugin .*line \d+: Steps.finish returned a NoneType; expected a Finished",
    ),
    "an output that the rule does not declare": (
        "steps",
        "from fedgrid import Finished; return Finished({'more': np.ones(1)})",
        r"client 0, round 1: plugin .*line \d+: Steps.finish returned 'more' .* Rule.outputs, which are none",
    ),
    "labels in place of groups": (
        "recluster",
        "state = split_positions(state, 0, updates, np.array([0, 1, 0]))",
        r"mine.py, line \d+: ValueError: groups = \[0 1 0\]: .*split_by_labels\(state, updates, labels\)",
    ),
    "a mask in place of positions": (
        "recluster",
        "state = split_positions(state, 0, updates, [updates.norms_K > 0])",
        r"mine.py, line \d+: ValueError: position True .*np.flatnonzero\(mask\)",
    ),
}


HIDDEN = {
    "an attribute": (
        "recluster",
        "self.count = 3",
        r"line \d+: AttributeError: Own.count is set.*state.keep",
    ),
}
DRAWN: list[tuple[str, float, float, float]] = []
DRAW = """
        import random, sys, torch
        sys.modules["tests.engine.federation.round.test_contract_checks"].DRAWN.append(
            ("{method}", float(torch.rand(1)), np.random.rand(), random.random())
        )
"""


@pytest.fixture(autouse=True)
def no_plugins_after():
    yield
    active.use_plugins()


def message_of(tmp_path, **bodies):
    """Return why a run stops whose algorithm has these statements; None if it does not."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.format(**dict.fromkeys(NOTHING, "pass") | bodies))
    active.use_plugins([path])
    given = {
        "clients": 3,
        "training": {"rounds": 1},
        "algorithm": "own",
        "evaluation": {"global_model": True},
    }
    run = complete_config(given, NOWHERE)
    try:
        list(run_to_end(Session(InProcessPool(), NOWHERE), run, Storage.from_text(tmp_path / "runs"), bool))
    except (RunError, ValueError, AttributeError) as error:
        return describe_error(error)
    return None


def test_an_algorithm_that_keeps_the_contract_ends(tmp_path):
    assert message_of(tmp_path) is None


@pytest.mark.parametrize(("method", "body", "expected"), WRITES.values(), ids=WRITES)
def test_what_comes_in_is_read_only(method, body, expected, tmp_path):
    message = message_of(tmp_path, **{method: body})
    assert message is not None, "it was not noticed"
    assert re.search(expected, message), message


@pytest.mark.parametrize(
    ("method", "body", "expected"), [*RETURNS.values(), *HIDDEN.values()], ids=[*RETURNS, *HIDDEN]
)
def test_what_comes_out_or_would_differ_when_repeated_is_refused(method, body, expected, tmp_path):
    message = message_of(tmp_path, **{method: body})
    assert message is not None, "it was not noticed"
    assert re.search(expected, message), message
    assert "mine.py" in message


def test_draws_from_any_generator_are_the_runs_own_in_each_method_and_leave_no_trace(tmp_path):
    """Of three clients there are as many messages and rules; the server's methods are called once."""
    methods = [method for method in NOTHING if method != "problem"]
    bodies = {method: DRAW.format(method=method).strip() for method in methods}
    found = []
    for seed in range(2):
        DRAWN.clear()
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        torch.manual_seed(seed)
        before = read_global_states()
        assert message_of(tmp_path / str(seed), **bodies) is None
        assert read_global_states() == before
        found.append(list(DRAWN))
    assert found[0] == found[1]
    assert {method for method, *_ in found[0]} == set(methods)
    numbers = [number for _, *drawn in found[0] for number in drawn]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("labels", [None, [0, 1], [0.0, 1.0, 1.0], [[0], [1, 2]]], ids=str)
def test_a_clusterer_returns_an_integer_a_client(labels):
    assert check_labels(KMeans(), "fit", [0, 1, 1], 3).tolist() == [0, 1, 1]
    with pytest.raises(BrokenContract, match=r"KMeans.fit returned .* shape \(3,\)"):
        check_labels(KMeans(), "fit", labels, 3)


@pytest.mark.parametrize("groups", [[[0, 1], [1]], [[0, 3]], [[0], [0]]], ids=["twice", "other", "again"])
def test_a_split_is_into_disjoint_groups_of_its_cluster(groups):
    state = State((np.zeros(2, np.float32),) * 2, np.array([0, 0, 0, 1]))
    with pytest.raises(ValueError, match="of the groups into which cluster 0 is split"):
        split(state, 0, groups)

"""Which models are tested after a round, and what each client's records have of those tests.

Shapes: K clients of the federation, P entries of a state vector.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedgrid.algorithms.contract.checks import checked_global_model, checked_served
from fedgrid.algorithms.contract.orders import Served
from fedgrid.engine.federation.training.confusion import Counts

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import State
    from fedgrid.engine.federation.clients.client_round import ClientRound
    from fedgrid.engine.federation.clients.messages import Memories
    from fedgrid.engine.federation.round.federation import Federation
    from fedgrid.engine.federation.round.plan import Plan

ModelTests: TypeAlias = dict[int, dict[str, Counts]]
"""Client -> name of the test, as in the records -> its result; without what was not tested."""


def run_tests(
    federation: Federation, plan: Plan, work: ClientRound, state: State, memories: Memories
) -> ModelTests:
    """Test the models that are served after a round and, if asked, the one for all; none if no test is due.

    Every client tests on the server's images; those that are present, or were asked, on their own too.
    `state` and `memories` are those after the round.
    """
    if not federation.evaluates(plan.round_index):
        return {}
    testing: Collection[int] = plan.attendance.present
    if federation.evaluation.clients == "asked":
        testing = [order.client for order in plan.orders]
    size = federation.layout.size
    served = checked_served(federation.algorithm, state, size)
    model = None
    if federation.evaluation.global_model:
        model = checked_global_model(federation.algorithm, state, size)
    of_served = _tests(served, work, memories, testing)
    by_name = {"cluster": of_served}
    if model is not None and served.adaptation is None and all(other is model for other in served.models):
        by_name["global"] = of_served
    elif model is not None:
        alone = Served((model,), np.zeros(len(served.model_K), np.int64))
        by_name["global"] = _tests(alone, work, {}, testing)
    return {
        client: {f"{name}_{on}": tests[client][on] for name, tests in by_name.items() for on in tests[client]}
        for client in of_served
    }


def _tests(served: Served, work: ClientRound, memories: Memories, testing: Collection[int]) -> ModelTests:
    """Return each client's tests of its model, `own` and on the `server`'s images."""
    # Without the entries that clients keep to themselves, what the server has is no model.
    is_whole = served.adaptation is None or not served.adaptation.rule.personal
    tests: ModelTests = {}
    for report in work.test(served, memories, testing):
        if report.own is not None:
            place = served.model_K[report.client] if report.chosen is None else report.chosen
            on_server = {"server": report.server[place]} if is_whole else {}
            tests[report.client] = {"own": report.own, **on_server}
    return tests

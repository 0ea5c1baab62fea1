"""Which models are tested after a round, and what each client's records have of those tests.

Shapes: K clients of the federation, P entries of a state vector.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from fedgrid.algorithms.contract.orders import Served
from fedgrid.algorithms.updates.updates import Vector
from fedgrid.engine.federation.clients.client_round import ClientRound, Evaluations
from fedgrid.engine.federation.clients.messages import Memory
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.settings import Evaluation


@dataclass(frozen=True)
class ModelTests:
    """The tests of the models that are served and, with `evaluation.global_model`, of the one for all."""

    served: tuple[Served, Evaluations] | None = None
    one_for_all: tuple[Served, Evaluations] | None = None

    def of(self, client: int, evaluation: Evaluation) -> dict[str, Counts | None]:
        """Return a client's tests under the names of their columns; None where it has tested nothing."""
        tests = _of(client, "cluster", self.served)
        return tests | _of(client, "global", self.one_for_all) if evaluation.global_model else tests


def run_tests(
    work: ClientRound,
    served: Served,
    model: Vector | None,
    memories: Mapping[int, Memory],
    testing: Collection[int],
) -> ModelTests:
    """Test the models after a round: every client on the server's images, `testing` on their own too.

    `model` is the one for all, shape (P,); None if there is none, or it is not to be tested.
    """
    tested = served, work.test(served, memories, testing)
    if model is None:
        return ModelTests(tested)
    if served.adaptation is None and all(each is model for each in served.models):
        return ModelTests(tested, tested)
    alone = Served((model,), np.zeros(len(served.model_K), np.int64))
    return ModelTests(tested, (alone, work.test(alone, {}, testing)))


def _of(client: int, name: str, tested: tuple[Served, Evaluations] | None) -> dict[str, Counts | None]:
    if tested is None or client not in tested[1].own:
        return {f"{name}_own": None, f"{name}_server": None}
    served, tests = tested
    place = tests.chosen.get(client, served.model_K[client])
    # Without the entries that clients keep to themselves, what the server has is no model.
    is_whole = served.adaptation is None or not served.adaptation.rule.personal
    return {f"{name}_own": tests.own[client], f"{name}_server": tests.server[place] if is_whole else None}

"""Compare a rival with its reference: models and served probabilities after all rounds of the problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from torch import Tensor

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.clients.messages import EvaluateTask, Setup
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.flat_vectors import read_vector
from fedgrid.engine.federation.round.federation import Federation, make_model_source
from fedgrid.engine.federation.round.next_round import next_round
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.grids.verify.problem import Problem, build_config, register_small_model
from fedgrid.rivals import references

TOLERANCE = 1e-6
"""Greatest difference that rounding explains."""


@dataclass(frozen=True)
class Verification:
    """The greatest differences between a rival and its reference."""

    name: str
    models: float | None
    """Of an entry of the server's models; None if the method's server has none."""
    served: float
    """Of a class probability of a test image, by what its client is tested with."""

    @property
    def is_equal(self) -> bool:
        """Whether the differences are those of rounding."""
        return max(self.served, self.models or 0.0) <= TOLERANCE


def list_references() -> list[str]:
    """List the algorithms that have a reference, in the order of the registry."""
    files = {path.stem for path in Path(references.__path__[0]).glob("*.py")}
    return [name for name in ALGORITHMS if name in files]


def load_reference(name: str) -> ModuleType:
    """Import the reference of an algorithm, which needs torch.

    Raises:
        ConfigError: it has none.
    """
    if name not in list_references():
        raise ConfigError(f"'{name}' has no reference; there is one of {', '.join(list_references())}")
    return import_module(f"{references.__name__}.{name}")


def verify_algorithm(name: str) -> Verification:
    """Run a rival by the engine, and its reference, on the small problem; compare what they end with.

    Raises:
        ConfigError: it has no reference.
    """
    reference = load_reference(name)
    with register_small_model(norms=reference.NORMS) as model:
        config = build_config(name, reference.SETTINGS, model)
        setup, truth_K = prepare_setup(config, Path())
        problem = Problem(config, setup, {**ALGORITHMS[name].settings.model_dump(), **reference.SETTINGS})
        expected_models, expected_served = reference.run(problem)
        vectors = [_convert_state(problem, state) for state in expected_models]
        federation = Federation.from_config(config, build_algorithm(config), setup, truth_K)
        models, served = _run_engine(federation, setup, config.training.rounds)
    differences = [
        np.abs(own - expected.detach().numpy()).max()
        for own, expected in zip(served, expected_served, strict=True)
    ]
    return Verification(
        name, _find_greatest_difference(models, vectors) if vectors else None, float(max(differences))
    )


def _run_engine(
    federation: Federation, setup: Setup, rounds: int
) -> tuple[Sequence[Vector], list[NDArray[np.float64]]]:
    """Run all rounds in this process; return the server's models, and each client's class probabilities."""
    pool = InProcessPool()
    pool.prepare(setup)
    run_state = federation.create_first_state(make_model_source(setup))
    for _ in range(rounds):
        run_state, _record = next_round(federation, run_state, pool)
    served = federation.find_served_models(run_state.state, rounds - 1)
    tasks = [
        EvaluateTask(client, int(place), served.adaptation, rounds - 1)
        for client, place in enumerate(served.model_K)
    ]
    reports = pool.evaluate(tasks, served.models, run_state.memories)
    outputs = [report.own.outputs for report in reports if report.own is not None]
    return run_state.state.models, [
        softmax(each.logits_NL.astype(np.float64), axis=1) for each in outputs if each is not None
    ]


def _convert_state(problem: Problem, state: dict[str, Tensor]) -> Vector:
    """Convert a reference's model to a vector in the layout's order."""
    module = problem.build()
    module.load_state_dict(state)
    return read_vector(module)


def _find_greatest_difference(models: Sequence[Vector], expected: Sequence[Vector]) -> float:
    """Find the greatest difference of an entry, with the models in the order that fits best.

    Clusters have no order, and the server may keep further models, such as the one to start from. It is
    infinite if there are too few.
    """
    if len(models) < len(expected):
        return float("inf")
    differences = np.array([[np.abs(one - other).max() for other in expected] for one in models])
    rows, columns = linear_sum_assignment(differences)
    return float(differences[rows, columns].max())

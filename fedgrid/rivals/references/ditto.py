"""Ditto, by hand: FedAvg trains w, and each client trains a personal model v_i that is pulled to w.

On each batch v_i <- v_i - rate (gradient of f_i at v_i + pull (v_i - w received)); the client's copy of w
takes a plain step and never sees v_i. A client is tested with v_i, which starts at the common start and is
never averaged.

Source: Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021, arXiv:2012.04221; facts: RIVALS B1. Steps and the model served are from the authors' code
(litian96/ditto). It takes the plain mean of clients; here the run's weights count.
"""

from functools import partial
from typing import Any

from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code draws clients with probability proportional to their number of images",
    "PFLlib's shared flag `mu` defaults to 0: no pull",
)
FROM_MEMORY = ""
SETTINGS = {"pull": 0.5}
NORMS = False


def add_pull(gradient: Tensor, v: Tensor, w: Tensor, pull: float) -> Tensor:
    """Add the pull of v to the w received to a gradient at v."""
    return gradient + pull * (v - w)


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute w, and the probabilities of every v_i."""
    w = steps.read_start(problem)
    v = [w] * problem.num_clients
    for t in range(problem.rounds):
        v = steps.train_clients(problem, v, t, partial(add_pull, w=w, pull=problem.settings["pull"]))
        trained = steps.train_clients(problem, [w] * problem.num_clients, t)
        w = steps.average_models(trained, problem.weights)
    return steps.convert_models(problem, [w]), steps.predict_tests(problem, v)

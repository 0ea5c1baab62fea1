"""APFL, by hand: each batch trains the client's copy of w, then v_i inside a mixture of both.

A round starts from the w received. On each batch: w_i <- w_i - rate * gradient of f_i at w_i; at the
mixture m = alpha v_i + (1 - alpha) w_i with the new w_i: v_i <- v_i - rate * alpha * gradient of f_i at m;
and, where alpha is adaptive, alpha <- alpha - rate <v_i - w_i, gradient of f_i at m>, with the v_i and w_i
that the mixture was made of, cut to [0, 1]. The server averages the w_i. A client is tested with its
mixture, w_i as it was trained last.

Source: Deng, Kamani, Mahdavi, "Adaptive Personalized Federated Learning", 2020, arXiv:2003.13461; facts:
RIVALS B2. The cut to [0, 1], the step of alpha off by default and the model served are from the authors'
code (MLOPTPSU/FedTorch); the steps of w and v are from memory of the paper and from litian96/ditto
(`apfl.py`).
"""

from typing import Any

from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code mixes outputs, not weights",
    "the authors' code moves alpha once a round, at the first batch, along another gradient plus 0.02 alpha",
    "the authors' code skips batches of one image",
    "litian96/ditto serves the global w",
    "PFLlib trains v on its own loss, then overwrites it with the mixture",
)
FROM_MEMORY = "the step of alpha (that of v is in litian96/ditto too)"
SETTINGS = {"alpha": 0.3, "adaptive": True}
NORMS = False


def mix_models(alpha: float, v: Tensor, w: Tensor) -> Tensor:
    """Mix personal and global weights."""
    return alpha * v + (1 - alpha) * w


def step_personal(v: Tensor, gradient: Tensor, rate: float, alpha: float) -> Tensor:
    """Step v along the gradient at the mixture, which depends on v by the factor alpha."""
    return v - rate * alpha * gradient


def step_alpha(alpha: float, v: Tensor, w: Tensor, gradient: Tensor, rate: float) -> float:
    """Step alpha along its own gradient, cut to [0, 1]."""
    return min(max(alpha - rate * float((v - w) @ gradient), 0.0), 1.0)


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute w, and the probabilities of every client's mixture."""
    rate, clients = problem.learning_rate, range(problem.num_clients)
    w = steps.read_start(problem)
    v, alpha = [w for _ in clients], [problem.settings["alpha"] for _ in clients]
    for t in range(problem.rounds):
        local = [w for _ in clients]
        for i in clients:
            for batch in problem.batches(i, t):
                local[i] = local[i] - rate * steps.compute_gradient(problem, local[i], i, batch)
                mixture = mix_models(alpha[i], v[i], local[i])
                gradient = steps.compute_gradient(problem, mixture, i, batch)
                next_v = step_personal(v[i], gradient, rate, alpha[i])
                if problem.settings["adaptive"]:
                    alpha[i] = step_alpha(alpha[i], v[i], local[i], gradient, rate)
                v[i] = next_v
        w = steps.average_models(local, problem.weights)
    served = [mix_models(alpha[i], v[i], local[i]) for i in clients]
    return steps.convert_models(problem, [w]), steps.predict_tests(problem, served)

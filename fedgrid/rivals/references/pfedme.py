"""pFedMe, by hand: theta solves a problem pulled to the client's w_i on each batch, then w_i follows theta.

A round starts with w_i = theta_i = the w received. On each batch: `inner_steps` times theta_i <- theta_i -
inner_rate (gradient of f_i at theta_i + pull (theta_i - w_i)), then w_i <- w_i - rate * pull (w_i - theta_i),
with the run's learning rate; theta_i goes on from where it stands. The server averages the w_i (beta = 1). A
client is tested with theta_i after its last batch.

Source: T. Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020,
arXiv:2006.08848; facts: RIVALS B3. Steps and the mean by number of images are from the authors' code
(CharlieDinh/pFedMe), without its mu; theta as the model served is the paper's.
"""

from typing import Any

from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code tests w_i, not theta_i, which its buffer for theta has become by then",
    "the authors' code adds mu * theta to the inner gradient, mu = 0.001, which the paper does not have",
    "the authors' code does not shuffle batches, and goes on with them across rounds",
    "the authors' code trains all clients and averages only the sampled ones",
)
FROM_MEMORY = ""
SETTINGS = {"pull": 5.0, "inner_steps": 3, "inner_rate": 0.05}
NORMS = False


def step_personal(theta: Tensor, gradient: Tensor, w: Tensor, inner_rate: float, pull: float) -> Tensor:
    """Step theta on its own loss with the pull to w."""
    return theta - inner_rate * (gradient + pull * (theta - w))


def step_local(w: Tensor, theta: Tensor, rate: float, pull: float) -> Tensor:
    """Step w towards theta: plain SGD on the Moreau envelope."""
    return w - rate * pull * (w - theta)


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute w, and the probabilities of every theta_i."""
    settings, clients = problem.settings, range(problem.num_clients)
    w = steps.read_start(problem)
    for t in range(problem.rounds):
        local, theta = [w for _ in clients], [w for _ in clients]
        for i in clients:
            for batch in problem.batches(i, t):
                for _ in range(settings["inner_steps"]):
                    gradient = steps.compute_gradient(problem, theta[i], i, batch)
                    theta[i] = step_personal(
                        theta[i], gradient, local[i], settings["inner_rate"], settings["pull"]
                    )
                local[i] = step_local(local[i], theta[i], problem.learning_rate, settings["pull"])
        w = steps.average_models(local, problem.weights)
    return steps.convert_models(problem, [w]), steps.predict_tests(problem, theta)

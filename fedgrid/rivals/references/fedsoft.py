"""FedSoft, by hand: each client's own model is pulled to all cluster models, by how many of its images each
of them fits best.

A round, for each client: n_is = number of its images with the least loss under cluster model c_s as
received; u_is = max(n_is / n_i, sigma), not normalised again; its own model w_i goes on from where it was
(the common start in round 1) by SGD on f_i(w) + (lambda / 2) sum over s of u_is ||w - c_s||^2. Server: c_s =
sum over i of v_is w_i with v_is = u_is n_i / sum over j of u_js n_j (the form without drawing clients per
cluster). A client is served w_i.

Source: Ruan and Joe-Wong, AAAI 2022, arXiv:2112.06053; facts: RIVALS A3, from the authors' code
(ycruan/FedSoft). n_i of v_is is here the run's weight of the client. SGD without momentum instead of Adam; u
is counted in every round (the authors' tau = 1).
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code replaces only shares of exactly zero by sigma",
    "the authors' servers.py passes an argument that its estimator refuses: fails as released",
    "the authors' code trains without shuffling, by Adam whose moments persist between rounds",
    "LINs-lab/FedRC counts the images with the largest loss",
    "harshv834/sr-fca uses the indices of the best model as counts",
)
FROM_MEMORY = ""
SETTINGS = {"num_clusters": 3, "pull": 0.5, "least": 0.2, "drawn": None}
NORMS = False


def compute_importance(losses_NK: Tensor, least: float) -> Tensor:
    """Compute u[s] = max(share of images with the least loss under s, sigma); ties go to the first s."""
    counts_K = torch.bincount(losses_NK.argmin(dim=1), minlength=losses_NK.shape[1])
    return (counts_K / len(losses_NK)).clamp(min=least)


def add_pulls(gradient: Tensor, w: Tensor, centres_KP: Tensor, u_K: Tensor, pull: float) -> Tensor:
    """Add lambda sum over s of u_s (w - c_s) to a gradient at w."""
    return gradient + pull * u_K @ (w - centres_KP)


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute the cluster models, and the probabilities of every w_i."""
    settings, clients = problem.settings, range(problem.num_clients)
    ks = range(settings["num_clusters"])
    centres = [steps.read_start(problem, k) for k in ks]
    w, u = [steps.read_start(problem) for _ in clients], torch.zeros(len(clients), len(ks))
    for t in range(problem.rounds):
        for i in clients:
            u[i] = compute_importance(steps.compute_losses(problem, centres, i), settings["least"])
            pulls = partial(add_pulls, centres_KP=torch.stack(centres), u_K=u[i], pull=settings["pull"])
            w[i] = steps.train_model(problem, w[i], i, problem.batches(i, t), pulls)
        centres = [steps.average_models(w, u[:, k] * torch.tensor(problem.weights)) for k in ks]
    return steps.convert_models(problem, centres), steps.predict_tests(problem, w)

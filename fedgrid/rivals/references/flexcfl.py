"""FlexCFL (FedGroup), by hand: clients are grouped by the direction of a short first training; then FedAvg
in groups that pull each other.

Round 1: every client trains the common start w0 for `pretrain_steps` batches, delta_i = its change.
Decomposed cosine (EDC): e_ik = cosine of delta_i and u_k, the k-th left singular vector of the matrix with
columns delta_i (not centred), k up to the number of groups; k-means on the e_i, here the partition with
least scatter by trying all; g_k = w0 + plain mean of its members' delta_i. Later rounds: members train g_k;
g_k += mean of their changes by number of images; then all groups at once, from the g_l just averaged, g_k <-
(g_k + eta_g sum over l != k of g_l / ||g_l||) / (1 + eta_g sum over l != k of 1 / ||g_l||). A client is
served g_k.

Source: Duan et al., IEEE TPDS 2022, arXiv:2108.09749, and FedGroup, arXiv:2010.06870; facts: RIVALS-NEWER
A14, from the authors' code (morningD/FlexCFL). Left out: drawing min(20 K, N) clients to group, newcomers
and shifts of labels (all clients take part here).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' figures test the model that a client received last instead of its group's",
    "the authors' step between groups is off by default (eta_g = 0); their README has 0.1",
    "the authors' test for a shift compares unordered label counts, so permuted labels are no shift",
)
FROM_MEMORY = ""
SETTINGS = {"num_clusters": 2, "pretrain_steps": 2, "group_rate": 0.1}
NORMS = False


def compute_directions(deltas_NP: Tensor, num_clusters: int) -> Tensor:
    """Compute e[i, k], the cosine of delta_i and the k-th left singular vector of the deltas as columns."""
    vectors_PN: Tensor = torch.linalg.svd(deltas_NP.double().T, full_matrices=False).U
    return normalize(deltas_NP.double(), dim=1) @ vectors_PN[:, :num_clusters]


def step_groups(groups_KP: Tensor, group_rate: float) -> Tensor:
    """Compute (g_k + eta_g sum of g_l / ||g_l||) / (1 + eta_g sum of 1 / ||g_l||), l != k, for every k."""
    pulls_KK: Tensor = group_rate * (1 - torch.eye(len(groups_KP))) / groups_KP.norm(dim=1)
    return (groups_KP + pulls_KK @ groups_KP) / (1 + pulls_KK.sum(dim=1, keepdim=True))


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute the groups' models, and their probabilities for their members."""
    clients, ks = range(problem.num_clients), range(problem.settings["num_clusters"])
    w0 = steps.read_start(problem)
    first = [problem.batches(i, 0)[: problem.settings["pretrain_steps"]] for i in clients]
    trained = [steps.train_model(problem, w0, i, first[i]) for i in clients]
    directions_NK = compute_directions(torch.stack(trained) - w0, len(ks))
    labels_N = steps.find_partition(directions_NK, torch.ones(len(clients)), len(ks))
    g_KP = torch.stack([steps.average_models(trained, labels_N == k) for k in ks])
    for t in range(1, problem.rounds):
        trained = steps.train_clients(problem, list(g_KP[labels_N]), t)
        weights_N = torch.tensor(problem.weights)
        g_KP = torch.stack([steps.average_models(trained, weights_N * (labels_N == k)) for k in ks])
        g_KP = step_groups(g_KP, problem.settings["group_rate"])
    return steps.convert_models(problem, g_KP), steps.predict_tests(problem, g_KP[labels_N])

"""FeSEM and WeCFL, by hand: k-means over the clients' trained models, one step of it per round.

Round 1: every client trains the common start to w_i; the partition with the least sum of a_i ||w_i - W_k||^2
over all partitions into `num_clusters` clusters, found by trying each; W_k = mean of its members' w_i by
a_i. Later rounds: client i trains W_k of its cluster to w_i; it moves to the cluster whose W_k, as sent out
in this round, is nearest; W_k = mean of the members by a_i; a cluster without members keeps W_k. a_i = 1 is
FeSEM (`weigh: equal`), a_i = number of images is WeCFL (`weigh: images`). A client is served its cluster's
model.

Source: Xie, Long, Shen, Zhou, Wang, Jiang and Zhang, arXiv:2005.01026; Ma, Long, Zhou, Jiang and Zhang,
arXiv:2202.06187; facts: RIVALS A2. The three steps are from memory of the papers and others' code; both
authors' own codes differ (QUIRKS). The first partition is this project's choice: the models of round 1 are
the first that differ.
"""

from typing import Any

import torch
from torch import Tensor

from fedgrid.rivals.references import steps

QUIRKS = (
    "FeSEM's authors' code starts from k-means on random noise, and averages before it moves clients",
    "FeSEM's authors' code clusters by one tensor, the last dense kernel",
    "FeSEM's authors' code averages by number of images by default; its other branch discards its mean",
    "WeCFL's author's code runs a fresh k-means++ on the last layer every round: clusters change numbers",
    "morningD/FlexCFL assigns before training and uses only the first client's update",
)
FROM_MEMORY = (
    "objective and steps: sum of a_i ||w_i - W||^2, nearest W_k, mean by a_i; a_i = 1 FeSEM, n_i WeCFL"
)
SETTINGS = {"num_clusters": 2, "weigh": "equal"}
NORMS = False


def find_nearest(points_NP: Tensor, centres_KP: Tensor) -> Tensor:
    """Find the nearest centre of each point; ties go to the first."""
    return ((points_NP[:, None] - centres_KP) ** 2).sum(dim=2).argmin(dim=1)


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute the clusters' models, and their probabilities for their members."""
    num_clusters = problem.settings["num_clusters"]
    a_N = torch.tensor(problem.weights)
    if problem.settings["weigh"] == "equal":
        a_N = torch.ones_like(a_N)
    centres = [steps.read_start(problem)] * num_clusters
    labels_N = torch.zeros(problem.num_clients, dtype=torch.long)
    for t in range(problem.rounds):
        trained = steps.train_clients(problem, [centres[k] for k in labels_N], t)
        if t == 0:
            labels_N = steps.find_partition(torch.stack(trained), a_N, num_clusters)
        else:
            labels_N = find_nearest(torch.stack(trained), torch.stack(centres))
        for k in set(labels_N.tolist()):
            centres[k] = steps.average_models(trained, a_N * (labels_N == k))
    served = steps.predict_tests(problem, [centres[k] for k in labels_N])
    return steps.convert_models(problem, centres), served

"""FedRep, by hand: a client trains its own head with the body fixed, then the body with the head fixed.

In a round a client receives the body, keeps its own head (which starts at the common start), trains the
head for the first `head_epochs` epochs and the body for those that remain. The server averages the bodies. A
client is tested with the body just averaged and its own head. With `together` both are trained at once, in
all epochs, which is FedPer.

Source: Collins, Hassani, Mokhtari, Shakkottai, "Exploiting Shared Representations for Personalized
Federated Learning", ICML 2021, arXiv:2102.07078; facts: RIVALS B4. Phases and mean are from the authors'
code (lgcollins/FedRep), without its momentum and weight decay and without the head epochs before its last
test.
"""

from typing import Any

import torch

from fedgrid.rivals.references import steps

QUIRKS = (
    "the authors' code trains heads for at least 10 more epochs before its last test",
    "the authors' code weighs all clients alike on CIFAR, by number of images on FEMNIST",
    "in the authors' code a client that has never been sampled shares the live averaged head",
    "FL-bench freezes by zeroing gradients, so that momentum and decay still move the frozen part",
)
FROM_MEMORY = ""
SETTINGS = {"head_epochs": 1, "together": False}
NORMS = False


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute no models, and the probabilities of the body with every client's head."""
    net, w = problem.build(), steps.read_start(problem)
    body = steps.mark_layers(net, [net.body])
    own = [w] * problem.num_clients
    for t in range(problem.rounds):
        for i in range(problem.num_clients):
            received, batches = torch.where(body, w, own[i]), problem.batches(i, t)
            if problem.settings["together"]:
                own[i] = steps.train_model(problem, received, i, batches)
            else:
                num = problem.settings["head_epochs"] * problem.batches_per_epoch(i)
                own[i] = steps.train_model(problem, received, i, batches[:num], lambda g, _: g * ~body)
                own[i] = steps.train_model(problem, own[i], i, batches[num:], lambda g, _: g * body)
        w = steps.average_models(own, problem.weights)
    return [], steps.predict_tests(problem, [torch.where(body, w, model) for model in own])

"""FedBABU, by hand: FedAvg of the body under a head fixed at its random start; fine-tuning before a test.

In a round a client trains the body alone by plain SGD, and the server averages the bodies. A client is
tested with a copy of the common model after `fine_tune` steps of SGD on body and head; the copy is then
dropped.

Source: Oh, Kim, Yun, "FedBABU: Towards Enhanced Representation for Federated Image Classification", ICLR
2022, arXiv:2106.06042; facts: RIVALS B6. Steps are from the authors' code (jhoon-oh/FedBABU). It takes the
plain mean of clients and fine-tunes by epochs (5); here the run's weights count, and fine-tuning is counted
in steps.
"""

from typing import Any

import torch

from fedgrid.rivals.references import steps

QUIRKS = ("PFLlib fine-tunes for 10 epochs and weighs by number of images",)
FROM_MEMORY = ""
SETTINGS = {"fine_tune": 3}
NORMS = False


def run(problem: Any) -> steps.Solution:
    """Run all rounds; compute the common model, and the probabilities of every client's fine-tuned copy."""
    net, w, clients = problem.build(), steps.read_start(problem), range(problem.num_clients)
    body = steps.mark_layers(net, [net.body])
    for t in range(problem.rounds):
        trained = steps.train_clients(problem, [w for _ in clients], t, lambda g, _: g * body)
        w = torch.where(body, steps.average_models(trained, problem.weights), w)
    last, fine_tune = problem.rounds - 1, problem.settings["fine_tune"]
    tuned = [
        steps.train_model(problem, w, i, problem.adaptation_batches(i, last, fine_tune)) for i in clients
    ]
    return steps.convert_models(problem, [w]), steps.predict_tests(problem, tuned)

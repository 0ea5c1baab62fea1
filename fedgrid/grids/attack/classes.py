"""Guesses of a client's majority class from what leaves the client.

- Partition: an attacker that knows the majority classes of the other clients in a cluster, as colluding
  clients do, guesses the one that most of them have.
- Blind: the same without the partition, by all other clients.
- Model: the class that the client's cluster model predicts most often on the server's test images.
- Update: the class whose bias in the last layer grows most, as it does for classes that the model has seen
  too rarely before.

Sources: Bettinelli, Benoit, Grandjean 2024 name the first as a risk of communities; the last is after Wainakh
et al., User-Level Label Leakage from Gradients in Federated Learning, PETS 2022, arXiv:2105.09369.

Shapes: K clients, L classes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.training.evaluation import convert_to_inputs, predict_probabilities
from fedgrid.engine.runtime.run.replay import ObservedRound


def guess_classes(observed: ObservedRound) -> list[dict[str, Any]]:
    """Guess every client's majority class in four ways.

    Returns:
        A row for each client: its majority class, and the guesses, None where one is impossible.
    """
    num_classes, clients = observed.setup.num_classes, range(observed.config.clients)
    counts_KL = np.stack(
        [np.bincount(observed.select_images(client)[0].labels, minlength=num_classes) for client in clients]
    )
    # The lowest of several classes with as many images; `_judge_guesses` accepts a guess of each of them.
    majority_K = counts_KL.argmax(axis=1)
    predicted = _predict_majorities(observed)
    return [
        {
            "client": client,
            "cluster": int(observed.labels_K[client]),
            "alone": bool(observed.alone_K[client]),
            "majority": int(majority_K[client]),
            "share": float(counts_KL[client].max() / counts_KL[client].sum()),
            **_judge_guesses(
                counts_KL[client],
                {
                    "blind": most_common(majority_K[np.arange(len(majority_K)) != client]),
                    "partition": guess_by_partition(observed.labels_K, majority_K, client),
                    "model": predicted[int(observed.model_K[client])],
                    "update": _guess_by_bias(observed, client),
                },
            ),
        }
        for client in clients
    ]


def most_common(classes: Iterable[int]) -> int | None:
    """Find the most frequent class, in a tie the lowest; None if there are no classes."""
    values = np.asarray(list(classes), np.int64)
    return int(np.bincount(values).argmax()) if len(values) else None


def guess_by_partition(labels_K: NDArray[np.int64], majority_K: NDArray[np.int64], client: int) -> int | None:
    """Guess a client's class from the other clients of its cluster, or from all others if it is alone."""
    others_K = np.arange(len(labels_K)) != client
    # A client alone in its cluster is guessed as without the partition.
    same_cluster_K = others_K & (labels_K == labels_K[client])
    return most_common(majority_K[same_cluster_K if same_cluster_K.any() else others_K])


def _judge_guesses(counts_L: NDArray[np.int64], guesses: dict[str, int | None]) -> dict[str, Any]:
    """Add to each guess whether it is right, and whether the client has images of the class.

    It is right if the client has no other class with more images.
    """
    row: dict[str, Any] = dict(guesses)
    for name, guess in guesses.items():
        row[f"{name}_right"] = None if guess is None else bool(counts_L[guess] == counts_L.max())
        row[f"{name}_held"] = None if guess is None else bool(counts_L[guess] > 0)
    return row


def _predict_majorities(observed: ObservedRound) -> list[int | None]:
    """Find the class that each served model predicts most often on the server's test images."""
    module = observed.build_run_module()
    inputs = convert_to_inputs(torch.tensor(observed.setup.server_set.images))
    return [most_common(_predict_classes(module, model, inputs)) for model in observed.models]


def _predict_classes(module: torch.nn.Module, model: Vector, inputs: torch.Tensor) -> Sequence[int]:
    """Predict the class of each input with one model."""
    flat_vectors.write_vector(module, model)
    predicted: Sequence[int] = predict_probabilities(module, inputs).argmax(axis=1).tolist()
    return predicted


def _guess_by_bias(observed: ObservedRound, client: int) -> int | None:
    """Find the class whose bias grows most in a client's update; None if no update, or no bias, is sent."""
    sent = observed.sent.get(client)
    biases = [
        where
        for _, where, shape in observed.layout.slices()
        if shape == (observed.setup.num_classes,) and where.stop <= observed.layout.num_parameters
    ]
    if sent is None or not biases:
        return None
    # The last vector with an entry for each class is the bias of the last layer.
    bias_L = sent.update[biases[-1]]
    # Clients that keep their heads, as in FedRep, send 0 for them, which says nothing.
    return int(bias_L.argmax()) if bias_L.any() else None

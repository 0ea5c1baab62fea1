"""Membership inference: whether a model was trained on an image, by the loss of the model on it.

An image that a model was trained on has a smaller loss on average. The attack ranks images by the loss, or by
the loss minus that of a reference model that knows the client less, which shows how hard an image is by
itself. Its success is the area under the ROC curve (AUC): the probability that a trained image ranks before
another one, 0.5 if the model reveals nothing.

Sources: Yeom, Giacomelli, Fredrikson, Jha, Privacy Risk in Machine Learning, CSF 2018, arXiv:1709.01604 (the
threshold on the loss); Watson, Guo, Cormode, Sablayrolles, On the Importance of Difficulty Calibration in
Membership Inference Attacks, ICLR 2022, arXiv:2111.08440 (the difference). The reference of a client's update
is the model that it received; for a cluster's model it is the mean loss of the other clusters' models.

Shapes: N images, P entries of a state vector.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.data.images import HeldImages, ImageSet
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.training.evaluation import TEST_BATCH, convert_to_inputs
from fedgrid.engine.runtime.run.replay import ObservedRound

Losses = NDArray[np.float64]


def compute_auc(members_N: Losses, others_N: Losses) -> float | None:
    """Compute the probability that a member's loss is below another image's, where ties count half.

    Returns:
        The area under the ROC curve; None if a group is empty, or a loss is NaN.
    """
    from sklearn.metrics import roc_auc_score

    losses = np.concatenate([members_N, others_N])
    if not len(members_N) or not len(others_N) or np.isnan(losses).any():
        return None
    # scikit-learn refuses infinite scores. Ranks are finite, and infinite losses have the last one.
    ranks = np.unique(losses, return_inverse=True)[1]
    return float(roc_auc_score(np.repeat([1, 0], [len(members_N), len(others_N)]), -ranks))


def infer_membership(observed: ObservedRound) -> list[dict[str, Any]]:
    """Attack each cluster's model and each client's update.

    The members of a model are the training images of the cluster's clients, those of an update the client's
    own. The others are test images of the same clients that no client trains on. Clients that flip labels are
    left out, as their labels alone show what they train on.

    Returns:
        A row for each cluster's model and for each update.
    """
    attack = _MembershipAttack(observed)
    return [*attack.attack_models(), *attack.attack_updates()]


class _MembershipAttack:
    """The membership attack on one replayed round."""

    def __init__(self, observed: ObservedRound) -> None:
        self._observed = observed
        self._module = observed.build_run_module()
        faults = observed.config.faults
        self._mislabelled = {*faults.label_flip, *faults.label_noise}
        every = range(observed.config.clients)
        self._held_images = {client: observed.select_images(client) for client in every}
        # Overlapping splits give the same image to several clients. It is no test image for any of them.
        self._trained_keys = {
            _image_key(image) for train, _ in self._held_images.values() for image in train.images
        }

    def attack_models(self) -> Iterator[dict[str, Any]]:
        """Attack each served model; yield a row for each."""
        observed = self._observed
        for position, model in enumerate(observed.models):
            served = np.flatnonzero(observed.model_K == position).tolist()
            clients = [client for client in served if client not in self._mislabelled]
            if not clients:
                continue
            # Members and others of the same clients: images of other clients would be hard for another
            # reason.
            members, others = self._collect_images(clients)
            other_models = [other for place, other in enumerate(observed.models) if place != position]
            yield {
                "of": "model",
                "client": None,
                "cluster": int(observed.labels_K[clients[0]]),
                "clients": len(clients),
                "alone": len(served) == 1,
                **self._score_model(model, other_models, members, others),
            }

    def attack_updates(self) -> Iterator[dict[str, Any]]:
        """Attack the update of each client that has sent one; yield a row for each."""
        for client, sent in sorted(self._observed.sent.items()):
            if client in self._mislabelled:
                continue
            members, others = self._collect_images([client])
            yield {
                "of": "update",
                "client": client,
                "cluster": int(self._observed.labels_K[client]),
                "clients": 1,
                "alone": bool(self._observed.alone_K[client]),
                **self._score_model(sent.model, [sent.start], members, others),
            }

    def _score_model(
        self, model: Vector, references: Sequence[Vector], members: ImageSet, others: ImageSet
    ) -> dict[str, Any]:
        """Score a model by its losses on members and others, also less those of reference models."""
        losses = [self._compute_losses(model, images) for images in (members, others)]
        calibrated = None
        if references:
            easy = [
                np.mean([self._compute_losses(other, images) for other in references], axis=0)
                for images in (members, others)
            ]
            calibrated = compute_auc(*(loss_N - easy_N for loss_N, easy_N in zip(losses, easy, strict=True)))
        return {
            "members": len(members),
            "others": len(others),
            "auc": compute_auc(losses[0], losses[1]),
            "auc_calibrated": calibrated,
        }

    def _collect_images(self, clients: Sequence[int]) -> tuple[ImageSet, ImageSet]:
        """Collect the different images that clients train on, and test images that no client trains on."""
        members = _join_images([self._held_images[client][0] for client in clients])
        others = _join_images([self._held_images[client][1] for client in clients])
        unseen = [
            place for place, image in enumerate(others.images) if _image_key(image) not in self._trained_keys
        ]
        return members, others.take(np.array(unseen, np.int64))

    @torch.inference_mode()
    def _compute_losses(self, model: Vector, images: ImageSet) -> Losses:
        """Compute the cross-entropy of each image, float64, shape (N,)."""
        flat_vectors.write_vector(self._module, model)
        self._module.eval()
        pixels, labels = torch.tensor(images.images), torch.tensor(images.labels)
        parts = zip(torch.split(pixels, TEST_BATCH), torch.split(labels, TEST_BATCH), strict=True)
        losses = [
            # In float64: the losses of images that are learned by heart would all round to 0 in float32, and
            # tie.
            functional.cross_entropy(
                self._module(convert_to_inputs(part)).double(), part_labels, reduction="none"
            )
            for part, part_labels in parts
        ]
        return torch.cat(losses).numpy()


def _join_images(sets: Sequence[HeldImages]) -> ImageSet:
    """Join the images of several sets, each pair of image and label once: clients may have the same ones."""
    images = np.concatenate([held.images for held in sets])
    labels = np.concatenate([held.labels for held in sets])
    pairs = zip(map(_image_key, images), labels.tolist(), strict=True)
    last_places = {pair: place for place, pair in enumerate(pairs)}
    places = np.array(sorted(last_places.values()), np.int64)
    return ImageSet(images[places], labels[places])


def _image_key(image: NDArray[np.uint8]) -> bytes:
    """Convert an image to a key of a dict."""
    return image.tobytes()

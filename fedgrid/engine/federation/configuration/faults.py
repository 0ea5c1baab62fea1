"""The section `faults` of a run's configuration: clients that attack the training (Byzantine clients), and
clients whose labels are noisy.

An attacker takes part like any other client. It trains on wrong labels, or it multiplies the update that it
sends. Both are the standard attacks of the literature: label flipping and sign flipping as in Li, Xu, Chen,
Giannakis, Ling, RSA, AAAI 2019; scaling as in Bagdasaryan et al., How To Backdoor Federated Learning, 2020.

Shapes: N images, L classes.
"""

from math import ceil
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.data.images import HeldImages, ImageSet

Client = Annotated[int, Field(ge=0)]


class Faults(Section):
    """Which clients attack, and how. A client that several keys name does all of it.

    Args:
        label_flip: clients that train with flipped labels. Default: none.
        sign_flip: clients that send the negative of their update. Default: none.
        label_noise: client -> share of its training labels that are random. Default: none.
        scale: client -> factor of its update. Default: none.
    """

    label_flip: tuple[Client, ...] = ()
    """Clients that train with label L - 1 - y instead of y. Their test images keep their labels."""
    sign_flip: tuple[Client, ...] = ()
    """Clients that send the negative of their update."""
    label_noise: dict[Client, Annotated[float, Field(gt=0, le=1)]] = {}
    """Client -> the share of its training labels that are replaced by labels drawn evenly from all
    classes."""
    scale: dict[Client, Annotated[float, Field(gt=0)]] = {}
    """Client -> the factor by which it multiplies its update."""

    # Left out of the JSON at their defaults: a kind of attack that is added later changes no older id.
    omitted_defaults = ("label_flip", "label_noise", "sign_flip", "scale")

    @field_validator("label_flip", "sign_flip")
    @classmethod
    def _each_client_once(cls, clients: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(clients)) < len(clients):
            raise ValueError(f"{list(clients)} lists a client twice")
        return tuple(sorted(clients))

    @property
    def attackers(self) -> frozenset[int]:
        """Numbers of the clients that attack in any way."""
        return frozenset((*self.label_flip, *self.label_noise, *self.sign_flip, *self.scale))

    def factor(self, client: int) -> float:
        """Compute the factor by which a client multiplies its update, as the last step before it is sent."""
        return self.scale.get(client, 1.0) * (-1 if client in self.sign_flip else 1)

    def name(self, client: int) -> str:
        """Describe what a client does, as `label_flip` or `sign_flip, scale 10`; empty if it is honest."""
        flips = [kind for kind in ("label_flip", "sign_flip") if client in getattr(self, kind)]
        shares = {"label_noise": self.label_noise, "scale": self.scale}
        numbers = [f"{kind} {given[client]:g}" for kind, given in shares.items() if client in given]
        return ", ".join([*flips, *numbers])

    def find_problem(self, num_clients: int) -> str | None:
        """Explain in one line why a federation of this size cannot have these attackers; None if it can."""
        if missing := sorted(client for client in self.attackers if client >= num_clients):
            return f"client {missing[0]} does not exist, the last one is {num_clients - 1}"
        if len(self.attackers) == num_clients:
            return "no client is honest; leave at least one out"
        return None


def add_label_noise(held: HeldImages, num_classes: int, share: float, rng: np.random.Generator) -> ImageSet:
    """Replace a share of the labels, rounded up, by labels drawn evenly from all classes.

    Args:
        held: the client's training images, N of them; they are not changed.
        num_classes: L; a drawn label may be the true one.
        share: share of the labels that are drawn, above 0 up to 1.
        rng: generator of this client.
    """
    labels = held.labels.copy()
    # A share of the positions, and then labels from all classes: about 1 in L of the drawn labels stays true.
    drawn = rng.permutation(len(labels))[: ceil(share * len(labels))]
    labels[drawn] = rng.integers(0, num_classes, len(drawn))
    return ImageSet(held.images, labels)


def flip_labels(held: HeldImages, num_classes: int) -> ImageSet:
    """Replace each label y by L - 1 - y, int64, shape (N,); the images stay."""
    return ImageSet(held.images, num_classes - 1 - held.labels)

"""Reconstruction: class means from messages before training, and images from updates.

An embedding message has the mean code of each class, as bits. The server has the decoder. It turns bits back
into codes by the codes of its own test images (the mean of those above, and of those below the middle of
their range) and decodes them; `mse_plain` is the error of bits that are decoded as they are. A class that a
client lacks has no row.

An error is compared with that of the best guess without the client: for a message that of a random vector,
which is all that is left at flip probability 0.5; for an update that of a random image, and of the mean of
the class over the server's test images.

Sources: Prigent et al. 2024, section V-D, Table II and Figure 3; `grids.attack.inversion`.

Shapes: N images of C channels and H x W pixels, L classes, Z entries of a code.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrid.algorithms.clustered.before_training.class_means import (
    BITS,
    VECTOR,
    Bits,
    compute_class_means,
    scale_vector,
)
from fedgrid.engine.federation.data.images import HeldImages
from fedgrid.engine.federation.encoders.encoder import Codec, Encoder, decode_codes
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.runtime.run.replay import ObservedRound
from fedgrid.grids.attack.inversion import invert_update
from fedgrid.grids.attack.pictures import Image, Picture
from fedgrid.grids.attack.settings import AttackSettings

MAX_PARAMETERS = 1_000_000
"""Most parameters of a model whose updates are inverted: every step passes through it twice and back."""


def reconstruct_images(
    observed: ObservedRound, settings: AttackSettings, encoder: Encoder | None
) -> tuple[list[dict[str, Any]], list[Picture]]:
    """Reconstruct images from every message, and from updates.

    Updates of a model of more than `MAX_PARAMETERS` parameters are not inverted.

    Returns:
        A row for each client and class, of its message and of its update, and pictures of them.
    """
    pairs = [*decode_messages(observed, encoder)] if encoder is not None else []
    if observed.layout.num_parameters <= MAX_PARAMETERS:
        pairs += invert_updates(observed, settings)
    return [row for row, _ in pairs], [picture for _, picture in pairs]


def decode_messages(observed: ObservedRound, encoder: Encoder) -> Iterator[tuple[dict[str, Any], Picture]]:
    """Reconstruct each client's class means from its message; yield a row and a picture for each class."""
    num_classes = observed.setup.num_classes
    codec = Codec(encoder)
    server = observed.setup.server_set
    public = torch.tensor(server.images), torch.tensor(server.labels)
    scale = CodeScale.measure(compute_class_means(codec.encode_images(public[0]), public[1], num_classes))
    for client, payload in observed.describe_clients(encoder).items():
        means_L = _class_means(observed.setup.clients[client].train, num_classes)
        sent_LZ = _unpack_message(payload, num_classes, encoder.code_size)
        # Seeded for each client, so that an error does not depend on which clients come before.
        rng = make_generator(observed.config.root_seed, "random vector", client=client)
        random_LZ = rng.integers(2, size=sent_LZ.shape).astype(np.float64)
        is_bits = BITS in payload
        codes = {
            "mse": scale.to_codes(sent_LZ) if is_bits else sent_LZ,
            "mse_plain": sent_LZ,
            "mse_random": scale.to_codes(random_LZ),
        }
        images = {name: decode_codes(encoder, codes_LZ) for name, codes_LZ in codes.items()}
        for label, truth in means_L.items():
            errors = {name: mean_squared_error(decoded[label], truth) for name, decoded in images.items()}
            yield (
                {**_common_columns(observed, "message", client, label), **errors, "mse_class": None},
                Picture("message", client, label, truth, images["mse"][label]),
            )


def invert_updates(
    observed: ObservedRound, settings: AttackSettings
) -> Iterator[tuple[dict[str, Any], Picture]]:
    """Reconstruct images from the updates of the first clients; yield a row and a picture for each class."""
    module = observed.build_run_module()
    server_L = _class_means(observed.setup.server_set, observed.setup.num_classes)
    for client in sorted(observed.sent)[: settings.clients]:
        sent, (train, _) = observed.sent[client], observed.select_images(client)
        labels, counts = np.unique(train.labels, return_counts=True)
        # The generator draws the first images, then the random images of `mse_random`: the order is part of
        # the results.
        rng = make_generator(observed.config.root_seed, "inversion", client=client)
        _, *shape = train.images.shape
        steps = settings.steps or 1
        client_inputs = sent.start, sent.update, labels, counts / counts.sum()
        images = invert_update(module, *client_inputs, (shape[0], shape[1], shape[2]), steps, rng)
        for image, label in zip(images, labels.tolist(), strict=True):
            held = train.images[train.labels == label] / 255
            errors = {
                "mse": find_nearest(image, held)[0],
                "mse_plain": None,
                "mse_random": find_nearest(rng.random(image.shape), held)[0],
                "mse_class": find_nearest(server_L[label], held)[0] if label in server_L else None,
            }
            truth = held[find_nearest(image, held)[1]]
            yield (
                {**_common_columns(observed, "update", client, label), **errors},
                Picture("update", client, label, truth, image),
            )


@dataclass(frozen=True)
class CodeScale:
    """The codes that bits stand for, as the server estimates them from images of its own."""

    low: float
    """Code of a 0."""
    high: float
    """Code of a 1."""

    @classmethod
    def measure(cls, means_LZ: NDArray[np.float64]) -> "CodeScale":
        """Measure the mean of the codes below, and of those above the middle of the range of class means."""
        # A class without images has a mean of NaN in all entries.
        finite_LZ = means_LZ[np.isfinite(means_LZ[:, 0])]
        above = scale_vector(finite_LZ) > 0.5
        low, high = (
            finite_LZ[where].mean() if where.any() else finite_LZ.mean() for where in (~above, above)
        )
        return cls(float(low), float(high))

    def to_codes(self, bits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert bits to the codes that they stand for."""
        return np.where(bits > 0.5, self.high, self.low)


def mean_squared_error(one: Image, other: Image) -> float:
    """Compute the mean squared error of the pixels, in [0, 1]."""
    return float(np.mean((np.asarray(one, np.float64) - other) ** 2))


def find_nearest(image: Image, held_N: Image) -> tuple[float, int]:
    """Find the image of N with the least mean squared error; return the error and its position."""
    errors_N = ((np.asarray(image, np.float64) - held_N) ** 2).mean(axis=(1, 2, 3))
    return float(errors_N.min()), int(errors_N.argmin())


def _unpack_message(
    payload: Mapping[str, NDArray[Any]], num_classes: int, code_size: int
) -> NDArray[np.float64]:
    """Unpack the entries of a message, shape (L, Z)."""
    if BITS in payload:
        bits: Bits = np.unpackbits(payload[BITS], count=num_classes * code_size)
        return bits.reshape(num_classes, code_size).astype(np.float64)
    return payload[VECTOR].reshape(num_classes, code_size).astype(np.float64)


def _class_means(held: HeldImages, num_classes: int) -> dict[int, Image]:
    """Compute the mean image, in [0, 1], of each class that has images."""
    return {
        label: held.images[held.labels == label].mean(axis=0) / 255
        for label in range(num_classes)
        if (held.labels == label).any()
    }


def _common_columns(observed: ObservedRound, of: str, client: int, label: int) -> dict[str, Any]:
    """Build the columns that all rows have."""
    return {
        "of": of,
        "client": client,
        "cluster": int(observed.labels_K[client]),
        "alone": bool(observed.alone_K[client]),
        "label": label,
    }

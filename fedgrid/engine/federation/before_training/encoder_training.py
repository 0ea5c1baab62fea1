"""The training of an encoder before the first round.

An encoder is a run of its own kind: the server's training on a public set is one client that holds that set,
federated training is FedAvg among the run's clients, in the same pool and by the same local training loop as
the run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings, choose_kind
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, Reply, Setup, TrainTask
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.holdouts import hold_out_reference
from fedgrid.engine.federation.encoders.encoder import (
    LOSSES,
    NUM_CLASSES,
    STATE,
    Encoder,
    Reconstruction,
    fit_components,
    format_model_name,
)
from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.round.participation import Participation, draw_encoder_clients
from fedgrid.engine.federation.seeds import derive_root_seed
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.federation.uplink.steps import Clip, Noise

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm, Labels
    from fedgrid.algorithms.updates.source import Vector
    from fedgrid.engine.federation.clients.pool import Pool
    from fedgrid.engine.federation.configuration.run_config import RunConfig


@dataclass(frozen=True)
class EncoderTraining:
    """The training of one encoder: on a public set at the server, then among the clients, or one of both."""

    settings: EncoderSettings
    setup: Setup
    present: Sequence[int]
    """Clients that are present in round 1; federated rounds draw from them."""
    public: ImageSet | None
    """Images that the server trains on; None if it does not."""

    def train_encoder(self, pool: Pool) -> Encoder:
        """Train the encoder in a pool, which has to be prepared again afterwards; the encoder has no id yet.

        Raises:
            RunError: its training fails.
        """
        kind = choose_kind(self.settings, self.setup.inputs.shape)
        if kind == "pixels":
            return Encoder(kind, self.setup.inputs.shape, {})
        if kind == "pca":
            assert self.public is not None
            return Encoder(
                kind, self.setup.inputs.shape, fit_components(self.public.images, self.settings.components)
            )
        losses: tuple[float, ...] = ()
        vector = draw_initial_vector(
            format_model_name(kind), self.setup.inputs, NUM_CLASSES, self.settings.seed
        )
        if self.public is not None:
            vector, losses = self._train_on_public(pool, vector, self.public)
        num_bytes = 0
        if self.settings.federated:
            vector, round_losses, num_bytes = self._train_among_clients(pool, vector)
            losses += round_losses
        return Encoder(
            kind,
            self.setup.inputs.shape,
            {STATE: vector},
            bytes_down=num_bytes,
            bytes_up=num_bytes,
            losses=losses,
        )

    def _train_on_public(
        self, pool: Pool, vector: Vector, public: ImageSet
    ) -> tuple[Vector, tuple[float, ...]]:
        """Train the model on the public set; return it and its losses by epoch."""
        pool.prepare(self.build_public_setup(public))
        [reply] = pool.train([_make_task(0, 0)], [vector], {})
        return _apply_updates(vector, [reply], "the public set"), _average_losses(reply, self.settings.epochs)

    def _train_among_clients(self, pool: Pool, vector: Vector) -> tuple[Vector, tuple[float, ...], int]:
        """Train the model in federated rounds; return it, the losses, and the bytes of one direction."""
        pool.prepare(self.build_federated_setup())
        losses, num_bytes = [], 0
        for index in range(self.settings.federated):
            clients = draw_encoder_clients(self.settings, self.setup.seed, self.present, index)
            num_bytes += len(clients) * vector.nbytes
            replies = pool.train([_make_task(client, index) for client in clients], [vector], {})
            vector = _apply_updates(vector, replies, f"round {index + 1} of the encoder")
            last = [_average_losses(reply, self.settings.local_epochs)[-1] for reply in replies]
            losses.append(float(np.mean(last)))
        return vector, tuple(losses), num_bytes

    def build_public_setup(self, public: ImageSet) -> Setup:
        """Build the setup of the training on the server: one client that holds the public images."""
        shape = (public.images.shape[1], *public.images.shape[2:])
        return self._build_setup(
            [(0, public.images)], self.settings.epochs, self.settings.seed, np.empty((0, *shape), np.uint8)
        )

    def build_federated_setup(self) -> Setup:
        """Build the setup of the training among the run's clients."""
        held = [(data.client, data.train.images) for data in self.setup.clients]
        none = self.setup.server_set.images[:0]
        setup = self._build_setup(held, self.settings.local_epochs, self.setup.seed, none)
        if self.settings.clip is None:
            return setup
        steps = Clip(clip=self.settings.clip), Noise(noise=self.settings.noise)
        # The noise must not be that of the run's own updates, which have the seed `setup.seed`.
        return replace(
            setup, uplink=steps, seed=derive_root_seed(f"encoder {setup.seed}", self.settings.seed)
        )

    def _build_setup(
        self, held: Sequence[tuple[int, np.ndarray]], epochs: int, seed: int, none: np.ndarray
    ) -> Setup:
        """Build a setup in which clients hold images without classes, and the server has none."""
        empty = _strip_labels(none)
        return Setup(
            model=format_model_name(choose_kind(self.settings, self.setup.inputs.shape)),
            num_classes=NUM_CLASSES,
            training=LocalTraining(
                local_epochs=epochs,
                batch_size=self.settings.batch_size,
                optimizer="adam",
                learning_rate=self.settings.learning_rate,
            ),
            seed=seed,
            clients=tuple(ClientData(client, _strip_labels(images), empty) for client, images in held),
            server_set=empty,
            server_parts={client: slice(0, 0) for client, _ in held},
        )


def build_encoder_training(
    config: RunConfig,
    algorithm: Algorithm,
    setup: Setup,
    truth_K: Labels,
    official: ImageSet,
    load_pool: Callable[[str], ImageSet],
) -> EncoderTraining | None:
    """Build the training of the encoder that an algorithm's message needs, None if it needs none.

    Args:
        config: The run's configuration.
        algorithm: The run's algorithm, whose message may name an encoder.
        setup: What the run's clients hold.
        truth_K: Hidden group of each client, shape (K,).
        official: The run's official test set, from which the server's reference images are held out.
        load_pool: Loads the pool of another data set by its name.
    """
    message = algorithm.message()
    if message is None or message.encoder is None:
        return None
    # As the server has them: it does not know how the hidden groups' images differ.
    _, reference = hold_out_reference(official, config.split.reference_images, config.root_seed)
    present = Participation.from_config(config, truth_K).draw_attendance(0).present
    settings, public = message.encoder, None
    if settings.public is not None and settings.name != "pixels":
        public = reference if settings.public == REFERENCE else load_pool(settings.public)
    return EncoderTraining(settings, setup, present, public)


def _strip_labels(images: np.ndarray) -> ImageSet:
    """Replace the classes of images by zeros: an encoder must not see them."""
    return ImageSet(images, np.zeros(len(images), np.int64))


def _make_task(client: int, round_index: int) -> TrainTask:
    """Make the task in which a client trains the encoder."""
    return TrainTask(Order(client, (0,), rule=Reconstruction()), round_index, evaluate=False)


def _apply_updates(vector: Vector, replies: Sequence[Reply], when: str) -> Vector:
    """Move the model by the mean of the usable updates.

    Raises:
        FinalError: no update is finite.
    """
    usable = [reply.update for reply in replies if reply.report.usable]
    if not usable:
        raise FinalError(f"{when}: no update is finite; lower encoder.learning_rate")
    # A sum in float64 and in the order of the clients, so that its bits are the same in every pool.
    total = np.zeros(len(vector))
    for update in usable:
        total += update
    return np.asarray(vector + total / len(usable), np.float32)


def _average_losses(reply: Reply, epochs: int) -> tuple[float, ...]:
    """Average a client's losses over each of its epochs; NaN if it has made no step."""
    losses: Any = np.asarray(reply.outputs[LOSSES], np.float64)
    if not len(losses):
        return (nan,) * epochs
    return tuple(losses.reshape(epochs, -1).mean(axis=1).tolist())

"""Encoders are trained before the first round of the first run that names them, and kept for all others.

An encoder is a run of its own kind: the server's training on a public set is one client that holds that set,
federated training is FedAvg among the run's clients, in the same pool and by the same local training loop as
the run itself. Its id is a digest of all that its training depends on: settings, images, code, machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings, kind_of
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.before_training.encoder_clients import sampled
from fedgrid.engine.clients.messages import ClientData, Reply, Setup, TrainTask
from fedgrid.engine.data.identity import load_known
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.encoders import store
from fedgrid.engine.encoders.encoder import NUM_CLASSES, STATE, Encoder, model_of, principal
from fedgrid.engine.encoders.reconstruction import LOSSES, Reconstruction
from fedgrid.engine.errors import FinalError
from fedgrid.engine.format import DamagedFile
from fedgrid.engine.models.initialisation import initial_vector
from fedgrid.engine.partition.server_images import hold_out
from fedgrid.engine.round_cache.key import digest, of_setup
from fedgrid.engine.round_cache.lock import RoundLock
from fedgrid.engine.seeds import root_seed
from fedgrid.engine.storage.clock import CLOCK
from fedgrid.engine.training.settings import LocalTraining
from fedgrid.engine.uplink.steps import Clip, Noise

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm
    from fedgrid.algorithms.contract.updates import Vector
    from fedgrid.engine.clients.machine import Machine
    from fedgrid.engine.clients.pool import Pool
    from fedgrid.engine.configuration.run_config import RunConfig
    from fedgrid.engine.storage.storage import Storage

LOOK_EVERY = 1.0
"""Seconds between two looks at an encoder that another run is training."""
ID_LENGTH = 12
ENCODER = "encoder"
"""Its id's name in a run's `made_with.json`."""


@dataclass(frozen=True)
class Pretraining:
    """The training of one encoder, which may have been done."""

    settings: EncoderSettings
    setup: Setup
    """The run's own."""
    present: Sequence[int]
    """Clients that are there in round 1, of whom federated rounds are."""
    public: ImageSet | None
    machines: Sequence[Machine]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the run's images."""
        _, channels, height, width = self.setup.server_set.images.shape
        return channels, height, width

    @property
    def id(self) -> str:
        """Id of the encoder."""
        parts: list[object] = [self.settings, list(self.shape), list(self.machines)]
        if self.public is not None:
            parts.append(of_setup(self._public_setup(self.public), None))
        if self.settings.federated:
            parts += [of_setup(self._federated_setup(), None), list(self.present)]
        return digest(parts)[:ID_LENGTH]

    def encoder(self, pool: Pool, storage: Storage, log: Callable[[str], None]) -> Encoder:
        """Return the encoder: the kept one, or, while other runs that want it wait, one that is trained now.

        The pool has to be prepared again afterwards.

        Raises:
            RunError: its training fails, or the storage cannot be read or written.
        """
        encoder_id = self.id
        lock = RoundLock(storage.root / store.FOLDER / f"{encoder_id}.lock")
        try:
            while (kept := self._kept(storage, encoder_id, log)) is None and not lock.take():
                CLOCK.pause(LOOK_EVERY)
            if kept is None:  # Another run may have finished it between the look and the lock.
                kept = self._kept(storage, encoder_id, log)
            if kept is not None:
                log(f"encoder {encoder_id} is here: {_described(kept)}")
                return kept
            started = monotonic()
            log(f"encoder {encoder_id} is trained: {self.settings.words or 'nothing to train'}")
            encoder = replace(
                self._trained(pool), id=encoder_id, batch_statistics=self.settings.batch_statistics
            )
            store.write(storage, encoder, self.settings.model_dump(mode="json"))
            log(f"encoder {encoder_id} trained in {monotonic() - started:.0f} s: {_described(encoder)}")
            return encoder
        finally:
            lock.release()

    def _kept(self, storage: Storage, encoder_id: str, log: Callable[[str], None]) -> Encoder | None:
        try:
            return store.load_encoder(storage, encoder_id)
        except DamagedFile as error:
            log(f"warning: {error}: it is trained again")
            return None

    def _trained(self, pool: Pool) -> Encoder:
        kind = kind_of(self.settings, self.shape)
        if kind == "pixels":
            return Encoder(kind, self.shape, {})
        if kind == "pca":
            assert self.public is not None
            return Encoder(kind, self.shape, principal(self.public.images, self.settings.components))
        losses: tuple[float, ...] = ()
        vector = initial_vector(model_of(kind), self.shape, NUM_CLASSES, self.settings.seed)
        if self.public is not None:
            vector, losses = self._on_public(pool, vector, self.public)
        num_bytes = 0
        if self.settings.federated:
            vector, of_rounds, num_bytes = self._among_clients(pool, vector)
            losses += of_rounds
        return Encoder(
            kind, self.shape, {STATE: vector}, bytes_down=num_bytes, bytes_up=num_bytes, losses=losses
        )

    def _on_public(self, pool: Pool, vector: Vector, public: ImageSet) -> tuple[Vector, tuple[float, ...]]:
        pool.prepare(self._public_setup(public))
        [reply] = pool.train([_task(0, 0)], [vector], {})
        return _moved(vector, [reply], "the public set"), _by_epoch(reply, self.settings.epochs)

    def _among_clients(self, pool: Pool, vector: Vector) -> tuple[Vector, tuple[float, ...], int]:
        """Return the model after the federated rounds, their losses, and the bytes of one direction."""
        pool.prepare(self._federated_setup())
        losses, num_bytes = [], 0
        for index in range(self.settings.federated):
            clients = sampled(self.settings, self.setup.seed, self.present, index)
            num_bytes += len(clients) * vector.nbytes
            replies = pool.train([_task(client, index) for client in clients], [vector], {})
            vector = _moved(vector, replies, f"round {index + 1} of the encoder")
            last = [_by_epoch(reply, self.settings.local_epochs)[-1] for reply in replies]
            losses.append(float(np.mean(last)))
        return vector, tuple(losses), num_bytes

    def _public_setup(self, public: ImageSet) -> Setup:
        shape = (public.images.shape[1], *public.images.shape[2:])
        return self._setup_of(
            [(0, public.images)], self.settings.epochs, self.settings.seed, np.empty((0, *shape), np.uint8)
        )

    def _federated_setup(self) -> Setup:
        held = [(data.client, data.train.images) for data in self.setup.clients]
        none = self.setup.server_set.images[:0]
        setup = self._setup_of(held, self.settings.local_epochs, self.setup.seed, none)
        if self.settings.clip is None:
            return setup
        steps = Clip(clip=self.settings.clip), Noise(noise=self.settings.noise)
        # The noise must not be that of the run's own updates, which have the seed `setup.seed`.
        return replace(setup, uplink=steps, seed=root_seed(f"encoder {setup.seed}", self.settings.seed))

    def _setup_of(
        self, held: Sequence[tuple[int, np.ndarray]], epochs: int, seed: int, none: np.ndarray
    ) -> Setup:
        """Return a setup in which clients hold images without classes, and the server has none."""
        empty = _unlabelled(none)
        return Setup(
            model=model_of(kind_of(self.settings, self.shape)),
            num_classes=NUM_CLASSES,
            training=LocalTraining(
                local_epochs=epochs,
                batch_size=self.settings.batch_size,
                optimizer="adam",
                learning_rate=self.settings.learning_rate,
            ),
            seed=seed,
            clients=tuple(ClientData(client, _unlabelled(images), empty) for client, images in held),
            server_set=empty,
            server_parts={client: slice(0, 0) for client, _ in held},
        )


def pretraining_of(
    config: RunConfig,
    algorithm: Algorithm,
    setup: Setup,
    machines: Sequence[Machine],
    official: ImageSet,
    data_dir: Path,
) -> Pretraining | None:
    """Return the training of the encoder that an algorithm's message asks for, None if it asks for none.

    `official` is the run's official test set, of which the server's reference images are.
    """
    message = algorithm.message()
    if message is None or message.encoder is None:
        return None
    # As the server has them: it does not know how the hidden groups' images differ.
    _, reference = hold_out(official, config.split.reference_images, config.root_seed)
    present = [client for client in range(config.clients) if config.joins.get(client, 1) == 1]
    public = public_images(message.encoder, reference, data_dir)
    return Pretraining(message.encoder, setup, present, public, machines)


def public_images(settings: EncoderSettings, reference: ImageSet | None, data_dir: Path) -> ImageSet | None:
    """Return the images that the server trains on, None if it does not.

    Args:
        settings: the encoder's.
        reference: the server's reference images, as the server has them.
        data_dir: where data sets are.

    Raises:
        DataError: the data set cannot be had.
    """
    if settings.public is None or settings.name == "pixels":
        return None
    if settings.public == REFERENCE:
        assert reference is not None, "refused by `check`"
        return reference
    (pool, _), _ = load_known(settings.public, data_dir)
    return pool


def _unlabelled(images: np.ndarray) -> ImageSet:
    return ImageSet(images, np.zeros(len(images), np.int64))


def _task(client: int, round_index: int) -> TrainTask:
    return TrainTask(Order(client, (0,), rule=Reconstruction()), round_index, evaluate=False)


def _moved(vector: Vector, replies: Sequence[Reply], when: str) -> Vector:
    """Return the model moved by the mean of the usable updates."""
    usable = [reply.update for reply in replies if reply.report.usable]
    if not usable:
        raise FinalError(f"{when}: no update is finite; lower encoder.learning_rate")
    total = np.zeros(len(vector))
    for update in usable:
        total += update
    return np.asarray(vector + total / len(usable), np.float32)


def _by_epoch(reply: Reply, epochs: int) -> tuple[float, ...]:
    """Return the mean loss of each epoch's batches; NaN of a client that has trained on none."""
    losses: Any = np.asarray(reply.outputs[LOSSES], np.float64)
    if not len(losses):
        return (nan,) * epochs
    return tuple(losses.reshape(epochs, -1).mean(axis=1).tolist())


def _described(encoder: Encoder) -> str:
    size = "x".join(map(str, encoder.shape))
    if not encoder.losses:
        return f"{encoder.kind}, for images of {size}"
    first, last = encoder.losses[0], encoder.losses[-1]
    return (
        f"{encoder.kind}, for images of {size}, mean squared error {first:.4f} at first, {last:.4f} at last"
    )

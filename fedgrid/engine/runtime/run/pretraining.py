"""Encoders: trained before the first round of the first run that names them, and stored for all others.

An encoder's id is a digest of all that its training depends on: settings, images, code, machine. A storage
has it in `encoders/<id>/encoder.safetensors` (`storage.sealed_arrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.before_training.encoder_training import EncoderTraining, build_encoder_training
from fedgrid.engine.federation.encoders.encoder import Encoder
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.data.datasets import load_with_digest
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.round_cache.key import compute_digest, digest_setup
from fedgrid.engine.runtime.round_cache.lock import RoundLock
from fedgrid.engine.runtime.storage import sealed_arrays
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.clock import CLOCK
from fedgrid.engine.runtime.storage.format import METADATA, DamagedFile, check_format
from fedgrid.engine.runtime.storage.storage import Storage

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm, Labels
    from fedgrid.engine.federation.clients.messages import Setup
    from fedgrid.engine.federation.clients.pool import Machine, Pool
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.data.images import ImageSet

FOLDER, FILE = "encoders", "encoder.safetensors"
DESCRIPTION = ("kind", "shape", "bytes_down", "bytes_up", "losses", "batch_statistics")
"""Fields of an encoder that are written next to its arrays."""
ENCODER = "encoder"
"""Key of its id in what a run's manifest says that it was made with."""


@dataclass(frozen=True)
class Pretraining:
    """The training of one encoder, which may have been done."""

    training: EncoderTraining
    machines: Sequence[Machine]
    """The machines that clients train on, which its numbers depend on."""

    @property
    def id(self) -> str:
        """Id of the encoder."""
        training, settings = self.training, self.training.settings
        parts: list[object] = [settings, list(training.setup.inputs.shape), list(self.machines)]
        if training.public is not None:
            parts.append(digest_setup(training.build_public_setup(training.public), None))
        if settings.federated:
            parts += [digest_setup(training.build_federated_setup(), None), list(training.present)]
        return compute_digest(parts)[:12]

    def load_or_train(self, pool: Pool, storage: Storage, log: Callable[[str], None]) -> Encoder:
        """Load the encoder or, while other runs that need it wait, train it; log which.

        The pool has to be prepared again afterwards.

        Raises:
            RunError: its training fails, or the storage cannot be read or written.
        """
        encoder_id = self.id
        lock = RoundLock(storage.root / FOLDER / f"{encoder_id}.lock")
        try:
            # Read before the lock is tried: an encoder that is there needs no lock.
            while (stored := self._load_stored(storage, encoder_id, log)) is None and not lock.try_take():
                CLOCK.pause(1.0)
            if stored is None:  # Another run may have finished it between the look and the lock.
                stored = self._load_stored(storage, encoder_id, log)
            if stored is not None:
                log(f"encoder {encoder_id} is here: {_describe_encoder(stored)}")
                return stored
            started = monotonic()
            settings = self.training.settings
            log(f"encoder {encoder_id} is trained: {settings.training_summary or 'nothing to train'}")
            encoder = replace(
                self.training.train_encoder(pool), id=encoder_id, batch_statistics=settings.batch_statistics
            )
            write_encoder(storage, encoder, settings.model_dump(mode="json"))
            log(
                f"encoder {encoder_id} trained in {monotonic() - started:.0f} s: {_describe_encoder(encoder)}"
            )
            return encoder
        finally:
            lock.release()

    def _load_stored(self, storage: Storage, encoder_id: str, log: Callable[[str], None]) -> Encoder | None:
        """Load the stored encoder, None if there is none or it is damaged, which is logged."""
        try:
            return load_encoder(storage, encoder_id)
        except DamagedFile as error:
            log(f"warning: {error}: it is trained again")
            return None


def build_pretraining(
    config: RunConfig,
    algorithm: Algorithm,
    setup: Setup,
    truth_K: Labels,
    machines: Sequence[Machine],
    official: ImageSet,
    data_dir: Path,
) -> Pretraining | None:
    """Build the training of the encoder that an algorithm's message needs, None if it needs none.

    Args:
        config: The run's configuration.
        algorithm: The run's algorithm.
        setup: What the clients hold.
        truth_K: Hidden group of each client, shape (K,).
        machines: The machines that clients train on.
        official: The run's official test set, from which the server's reference images are held out.
        data_dir: Where data sets are.

    Raises:
        DataError: the public images are missing.
    """

    def load_pool(dataset: str) -> ImageSet:
        """Load the pool of a data set, without its official test set."""
        (pool, _), _ = load_with_digest(dataset, data_dir)
        return pool

    training = build_encoder_training(config, algorithm, setup, truth_K, official, load_pool)
    return None if training is None else Pretraining(training, machines)


def _describe_encoder(encoder: Encoder) -> str:
    """Describe an encoder in one line, for the log."""
    size = "x".join(map(str, encoder.shape))
    if not encoder.losses:
        return f"{encoder.kind}, for images of {size}"
    first, last = encoder.losses[0], encoder.losses[-1]
    return (
        f"{encoder.kind}, for images of {size}, mean squared error {first:.4f} at first, {last:.4f} at last"
    )


def load_encoder(storage: Storage, encoder_id: str) -> Encoder | None:
    """Load a stored encoder, None if there is none of this id.

    Raises:
        DamagedFile: its bytes are not those that were written.
        OtherVersion: another fedgrid wrote it.
        RunError, OSError: the storage cannot be read.
    """
    path = storage.root / name_encoder_file(encoder_id)
    data = storage.read(name_encoder_file(encoder_id))
    if data is None:
        return None
    try:
        arrays, about = sealed_arrays.decode_arrays(data, encoder_id)
    except sealed_arrays.DamagedArrays as error:
        raise DamagedFile(path, "it is not this encoder") from error
    check_format(about.get(METADATA), path)
    values = {name: about[name] for name in DESCRIPTION}
    values |= {"shape": tuple(about["shape"]), "losses": tuple(about["losses"])}
    return Encoder(**values, arrays=arrays, id=encoder_id)


def write_encoder(storage: Storage, encoder: Encoder, settings: dict[str, Any]) -> None:
    """Store an encoder; `settings` say to a reader of the file how it was trained.

    Raises:
        RunError: it cannot be written.
    """
    about = {name: getattr(encoder, name) for name in DESCRIPTION}
    data = sealed_arrays.encode_arrays(
        encoder.arrays, {**about, "settings": settings, METADATA: FORMAT}, encoder.id
    )
    name = name_encoder_file(encoder.id)
    with disk_errors((storage.root / name).parent):
        storage.put({name: data})


def name_encoder_file(encoder_id: str) -> str:
    """Build the name of an encoder's file in a storage."""
    return f"{FOLDER}/{encoder_id}/{FILE}"


def load_run_encoder(config: RunConfig, folder: Path, storage: Storage) -> Encoder | None:
    """Load the encoder of the run in a folder, None if its clients send no message that takes one.

    Raises:
        RunError: the storage no longer has it.
    """
    message = build_algorithm(config).message()
    if message is None or message.encoder is None:
        return None
    parts = load_parts(folder)
    encoder_id = str(parts[0].made_with.get(ENCODER, "")) if parts else ""
    encoder = load_encoder(storage, encoder_id) if encoder_id else None
    if encoder is None:
        raise RunError(f"{config.name}: its encoder {encoder_id} is no longer in {storage}")
    return encoder

"""The encoder that made the messages of a finished run."""

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.encoders.encoder import Encoder
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.encoders import store
from fedgrid.engine.runtime.encoders.pretraining import ENCODER
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, parts_of
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage


def encoder_of(config: RunConfig, storage: Storage) -> Encoder | None:
    """Return the encoder of a run, None if its clients send no message that takes one.

    Raises:
        RunError: the storage no longer has it.
    """
    message = algorithm_of(config).message()
    if message is None or message.encoder is None:
        return None
    parts = parts_of(folder_of(storage.root, config) / MADE_WITH)
    encoder_id = str(parts[0].made_with.get(ENCODER, "")) if parts else ""
    encoder = store.load_encoder(storage, encoder_id) if encoder_id else None
    if encoder is None:
        raise RunError(f"{config.name}: its encoder {encoder_id} is no longer in {storage}")
    return encoder

"""The id of a storage, in `storage.json` at its root: it goes with the files when they are moved.

Two storages may hold the same run. Where both report to one place, such as an MLflow server, the id keeps
them apart.
"""

from pathlib import Path
from secrets import token_hex

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.atomic import create_file, disk_errors
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.sealed_json import seal_values

NAME = "storage.json"


def claim_storage_id(storage: Storage) -> str:
    """Read the id of a storage; a new one gets an id, at its URI too.

    Of two drivers that start together at a new URI, the last to write decides.

    Raises:
        ConfigError: the file is damaged.
        RunError: the storage cannot be reached.
    """
    # The id at the URI counts, also if the mirror has none yet, or that of another driver which was first.
    storage.refresh(NAME)
    if storage.uri and not (storage.root / NAME).exists():
        with disk_errors(storage.root):
            storage.put({NAME: _draw_id().encode()})
        storage.refresh(NAME)
    return read_storage_id(storage.root)


def read_storage_id(root: Path) -> str:
    """Read the id of the storage whose files are in `root`; a new one gets an id.

    Raises:
        ConfigError: the file is damaged, or of another fedgrid.
        RunError: it cannot be written.
    """
    path = root / NAME
    if not path.exists():
        with disk_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            create_file(path, _draw_id())
    try:
        return str(unseal_file(path)["id"])
    except (OSError, DamagedFile, KeyError) as error:
        raise ConfigError(f"{path} is damaged; delete it, and MLflow gets these runs again") from error


def _draw_id() -> str:
    """Draw an id, as the content of its file."""
    return seal_values({"id": token_hex(8)})

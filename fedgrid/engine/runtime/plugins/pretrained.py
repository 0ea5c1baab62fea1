"""Weights from a file, for models of plugins: their digest is part of the plugin, and so of its runs' ids."""

from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from fedgrid.engine.federation.errors import ConfigError


def pretrained(path: str | Path, digest: str) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, for `load_state_dict`.

    Args:
        path: absolute, or below `~`; every machine that trains has the file there.
        digest: SHA-256 of the file, 64 hexadecimal digits.

    Raises:
        ConfigError: the file is missing, another one, or no safetensors file.
    """
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise ConfigError(
            f"weights {path}: a client may run in another folder; give an absolute path, or ~/{path}"
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"weights {path} cannot be read: {error.strerror}; put them there on every machine"
        ) from error
    if (actual := sha256(content).hexdigest()) != digest:
        raise ConfigError(
            f"weights {path} have the digest {actual}, not {digest}; name this one if they are meant"
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise ConfigError(f"weights {path} are no safetensors file: {error}") from error

"""Weights from a file, for models of plugins: the plugin has their digest, and so have its runs' ids."""

from hashlib import sha256
from pathlib import Path

from safetensors.torch import load
from torch import Tensor

from fedgrid.arguments import checked
from fedgrid.engine.federation.errors import ConfigError


@checked()
def pretrained(path: str | Path, digest: str) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, for `load_state_dict`.

    Args:
        path: absolute, or below `~`; every machine that trains has the file there.
        digest: SHA-256 of the file, 64 hexadecimal digits.

    Raises:
        ConfigError: the path is relative, or it is another file.
        OSError: it cannot be read.
    """
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise ConfigError(f"weights {path}: clients run in other folders; give an absolute path, or ~/{path}")
    content = file.read_bytes()
    if (actual := sha256(content).hexdigest()) != digest:
        raise ConfigError(
            f"weights {path} have the digest {actual}, not {digest}; give that one if it is meant"
        )
    return load(content)

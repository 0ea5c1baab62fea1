"""Weights from a file, for models of plugins.

The plugin has the digest of the file, and its own bytes are part of the ids of its runs: so other weights
make other runs.
"""

from hashlib import sha256
from pathlib import Path

from safetensors.torch import load
from torch import Tensor

from fedgrid.arguments import check_arguments
from fedgrid.engine.federation.errors import ConfigError


@check_arguments()
def pretrained(path: str | Path, digest: str) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file by name, for `load_state_dict`.

    A plugin's model calls it where it is built, in every process that trains or tests it.

    Args:
        path: The file, absolute or below `~`; every machine that trains has it there.
        digest: SHA-256 of the file, 64 hexadecimal digits.

    Returns:
        Name of each tensor, as in a model's `state_dict`, to the tensor on the CPU.

    Raises:
        ConfigError: the path is relative, or it is another file.
        OSError: it cannot be read.

    Example:
        >>> import fedgrid, hashlib, pathlib, tempfile, torch
        >>> from safetensors.torch import save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "weights.safetensors")
        ...     _ = path.write_bytes(save({"weight": torch.ones(2, 3)}))
        ...     digest = hashlib.sha256(path.read_bytes()).hexdigest()
        ...     tensors = fedgrid.pretrained(path, digest)
        >>> tensors["weight"].shape
        torch.Size([2, 3])
    """
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise ConfigError(f"weights {path}: clients run in other folders; give an absolute path, or ~/{path}")
    # Read once, so that what is loaded is what was digested.
    content = file.read_bytes()
    if (actual := sha256(content).hexdigest()) != digest:
        raise ConfigError(
            f"weights {path} have the digest {actual}, not {digest}; give that one if it is meant"
        )
    return load(content)

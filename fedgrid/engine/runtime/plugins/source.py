"""A plugin's source: a file's bytes and their digest, as plain data."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError


@dataclass(frozen=True)
class PluginSource:
    """A plugin as it travels between processes: plain data, nothing that has to be unpickled by name."""

    name: str
    """For messages: the file as the user named it, or `package 1.2`."""
    digest: str
    """64 hexadecimal digits: SHA-256 of a file's bytes; of a package's name, version and modules."""
    code: bytes | None
    """A file's bytes. None: an installed package, which every machine imports from its own disk."""


def read_source(path: Path) -> PluginSource:
    """Return the source of a plugin's file; nothing of it is executed.

    Raises:
        ConfigError: if it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(f"plugin {path} is not a file")
    try:
        code = path.read_bytes()
        code.decode()
    except OSError as error:
        raise ConfigError(f"plugin {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"plugin {path} is not a Python file in UTF-8") from error
    return PluginSource(str(path), digest_of(code), code)


def digest_of(code: bytes) -> str:
    """Return the digest of a plugin's file."""
    return sha256(code).hexdigest()

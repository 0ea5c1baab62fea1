"""Protect and send Ray's token, `~/.ray/auth_token`: its readers can run code as this user on the cluster."""

import os
import sys
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.atomic import create_file

DEFAULT_TOKEN_FILE = "~/.ray/auth_token"
TOKEN_BYTES = 32
"""Bytes of a new token, as many as Ray takes."""
OTHERS_MODE = 0o077
PRIVATE_MODE = 0o600


def find_token_file() -> Path:
    """Find the path of the token's file.

    Raises:
        ConfigError: there is no home folder.
    """
    try:
        return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or DEFAULT_TOKEN_FILE).expanduser()
    except RuntimeError as error:
        raise ConfigError("there is no home folder for Ray's token; set HOME, or RAY_AUTH_TOKEN") from error


def describe_token() -> str:
    """Describe where the token is that Ray sends, without showing it.

    Raises:
        ConfigError: as `find_token_file`.
    """
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return f"not used (RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']})"
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "that of RAY_AUTH_TOKEN"
    file = find_token_file()
    missing = f"none; a cluster of several machines needs {file}: `ray get-auth-token --generate` makes it"
    return str(file) if file.exists() else missing


def protect_token(*, create: bool) -> None:
    """Ensure, before Ray starts, that only this user can read the token; `create` a missing one.

    Ray would create a missing one for all users of the machine to read.

    Raises:
        ConfigError: the token cannot be written.
    """
    if _is_used():
        file = find_token_file()
        try:
            if create and not file.exists():
                _create_token(file)
            if file.exists():
                _remove_others_rights(file)
        except OSError as error:
            raise ConfigError(
                f"Ray's token {file} cannot be written: {error.strerror}; set HOME to a folder of yours, or "
                "RAY_AUTH_TOKEN to a secret"
            ) from error


def enable_token() -> None:
    """Let Ray send its token, if there is one and the environment does not decide it.

    `ray start` requires a token as soon as there is one. `ray.init` at an address sends it only if the mode
    says so, which Ray reads when it is imported, perhaps before there was a token: it is read again. A Ray
    that runs already stays as it is.
    """
    is_imported = "ray" in sys.modules
    if is_imported:
        import ray

        if ray.is_initialized():
            return
    if "RAY_AUTH_MODE" not in os.environ and (
        os.environ.get("RAY_AUTH_TOKEN") or os.access(find_token_file(), os.R_OK)
    ):
        os.environ["RAY_AUTH_MODE"] = "token"
    if is_imported:
        # As `ray.init` does for a cluster of its own.
        from ray._raylet import Config  # type: ignore[attr-defined]

        Config.initialize("")


def _is_used() -> bool:
    """Check whether Ray reads the token from its file."""
    mode = os.environ.get("RAY_AUTH_MODE", "token").lower()
    return mode == "token" and not os.environ.get("RAY_AUTH_TOKEN")


def _create_token(file: Path) -> None:
    """Create the token; drivers that start together all use that of the first."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_file(file, token_hex(TOKEN_BYTES), mode=PRIVATE_MODE)


def _remove_others_rights(file: Path) -> None:
    """Remove the rights of other users from a file that is ours."""
    about = file.stat()
    if S_IMODE(about.st_mode) & OTHERS_MODE and about.st_uid == os.getuid():
        file.chmod(S_IMODE(about.st_mode) & ~OTHERS_MODE)

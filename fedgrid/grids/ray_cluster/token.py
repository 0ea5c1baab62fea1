"""Ray's token, `~/.ray/auth_token`: whoever reads it can run code as this user on the cluster."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE

from fedgrid.engine.federation.errors import ConfigError

DEFAULT = "~/.ray/auth_token"
NUM_BYTES = 32
"""Of a token, as many as Ray takes."""
HEADER = "authorization"
ANY_CALL = "/ray.rpc.NodeInfoGcsService/GetClusterId"
"""A call that changes nothing and that every version of Ray's control service answers."""
ANSWER_SECONDS = 20.0
"""How long a cluster may take to answer: as long as Ray gives it."""
INSTEAD = "RAY_ADDRESS=local starts a Ray of its own, and --in-process needs none"
"""What to do without a cluster that was found and cannot be used."""
OTHERS = 0o077
PRIVATE = 0o600


def token_file() -> Path:
    """Return the file of the token.

    Raises:
        ConfigError: there is no home folder.
    """
    try:
        return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or DEFAULT).expanduser()
    except RuntimeError as error:
        raise ConfigError("there is no home folder for Ray's token; set HOME, or RAY_AUTH_TOKEN") from error


def described() -> str:
    """Return where the token is that Ray is sent, without showing it.

    Raises:
        ConfigError: as `token_file`.
    """
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return f"not used (RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']})"
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "that of RAY_AUTH_TOKEN"
    file = token_file()
    missing = f"none; a cluster of several machines needs {file}: `ray get-auth-token --generate` makes it"
    return str(file) if file.exists() else missing


def make_private(*, create: bool) -> None:
    """Make sure, before Ray starts, that only this user can read the token; `create` a missing one.

    Ray would create a missing one for all users of the machine to read.

    Raises:
        ConfigError: the token cannot be written.
    """
    if _is_used():
        file = token_file()
        try:
            if file.exists():
                _close(file)
            elif create:
                _create(file)
        except OSError as error:
            raise ConfigError(
                f"Ray's token {file} cannot be written: {error.strerror}; set HOME to a folder of yours, or "
                "RAY_AUTH_TOKEN to a secret"
            ) from error


def check_accepted(address: str) -> None:
    """Check that the cluster at `host:port` answers and takes this user's token.

    Ray itself would ask for minutes, and print a line each time. An address of another kind, and a cluster
    that uses TLS, are left to Ray.

    Raises:
        ConfigError: the cluster does not answer, refuses the token, or wants one where none is sent.
    """
    if (
        "://" in address
        or not address.rpartition(":")[2].isdecimal()
        or os.environ.get("RAY_USE_TLS", "0") != "0"
    ):
        return
    import grpc

    token = _token()
    header = ((HEADER, f"Bearer {token}"),) if token else ()
    silent = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
    # As Ray, which asks no proxy.
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            channel.unary_unary(ANY_CALL)(b"", metadata=header, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            if error.code() in silent:
                raise ConfigError(f"the Ray cluster at {address} does not answer; {INSTEAD}") from error
            if error.code() != grpc.StatusCode.UNAUTHENTICATED:
                return
            place = "RAY_AUTH_TOKEN" if os.environ.get("RAY_AUTH_TOKEN") else str(token_file())
            wanted = f"another token than {place} holds" if token else "a token, and none was sent"
            raise ConfigError(
                f"the Ray cluster at {address} wants {wanted}: copy the file ~/.ray/auth_token of the user "
                f"who started it to {token_file()}, or set RAY_AUTH_TOKEN, and RAY_AUTH_MODE=token; "
                f"{INSTEAD}"
            ) from error


def send_token() -> None:
    """Let Ray send the token that `check_accepted` has sent, if the environment does not say whether.

    `ray start` wants a token as soon as there is one. `ray.init` at an address sends it only if told to.
    """
    if "RAY_AUTH_MODE" not in os.environ and _token():
        os.environ["RAY_AUTH_MODE"] = "token"
        # Ray has read the environment when it was imported. The name is private: another version may lack it.
        with suppress(ImportError):
            from ray._raylet import Config  # type: ignore[attr-defined]

            Config.initialize("")


def _token() -> str:
    """Return the token that Ray is to send; empty if there is none, or none is to be sent."""
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return ""
    if given := os.environ.get("RAY_AUTH_TOKEN"):
        return given.strip()
    try:
        return token_file().read_text().strip()
    except OSError:
        return ""


def _is_used() -> bool:
    mode = os.environ.get("RAY_AUTH_MODE", "token").lower()
    return mode == "token" and not os.environ.get("RAY_AUTH_TOKEN")


def _create(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with open(handle, "w") as opened:
        opened.write(token_hex(NUM_BYTES))


def _close(file: Path) -> None:
    """Take the rights of others from a file that is ours."""
    found = file.stat()
    if S_IMODE(found.st_mode) & OTHERS and found.st_uid == os.getuid():
        file.chmod(S_IMODE(found.st_mode) & ~OTHERS)

"""Start Ray for this machine alone with few processes, by replacing private parts of Ray.

Ray has no settings for these parts. They are tied to its version: `pyproject.toml` has an upper bound, and a
test fails with the names that a newer Ray lacks. Seconds that each replacement saves of the command
`fedgrid run quickstart --where algorithm=fedavg training.rounds=2`, which takes 18 s on two busy cores
(medians of three turns with and without it):

- `Node.start_api_server`, 5 s: without the dashboard it only reports statistics, which are off;
- `Node.start_monitor`, 7 s: the autoscaler watches a cluster that cannot grow;
- `Node.start_log_monitor`, 0.4 s of the processor: it sends to drivers what workers print, on request;
- `DEFAULT_ENV_VARS` of Tune, 7 s;
- `tag_callbacks` of Tune, 4 s.

`ENABLE_RAY_CLUSTER` is false on Windows and macOS, where Ray's processes then listen on loopback only. So
they do here; else some ten of them listen on all of the machine's addresses.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import gettempdir
from types import MappingProxyType
from typing import Any

from fedgrid.engine.runtime.leases.scratch import PREFIX, create_scratch_folder

RAY_SETTINGS: Mapping[str, Any] = MappingProxyType(
    {"enable_metrics_collection": False, "idle_worker_killing_time_threshold_ms": 20_000}
)
"""Settings of Ray, to be copied, because Ray adds to what it is given.

Metrics, which nothing here reads, are shown to anybody who requests them without a token. Ray starts a
process for each core ahead, and by default ends those that are idle for a second. Kept for 20 s, they become
client actors later, which saves each actor 0.4 s of the processor.
"""
TUNE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        "TUNE_GLOBAL_CHECKPOINT_S": "3600",
        "RAY_AIR_NEW_OUTPUT": "0",
    }
)
"""Variables of Tune, unless the environment has other values: fedgrid itself shows and stores the runs."""
SECRET_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN")
"""Variables with secrets that Tune would pass on in plain text."""
LONGEST_FOLDER = 35
"""Most characters of the folder before the names of Ray's session and socket: Linux has room for 107 in all.
"""
RANDOM_CHARACTERS = 8
"""Number of characters that Python adds to the name of a temporary folder."""
SHORT_FOLDER = Path("/tmp")
"""Folder that replaces a temporary folder with a long path."""


@contextmanager
def limit_processes() -> Iterator[None]:
    """Let `ray.init` start a cluster of few processes, which listen on loopback only, within the block."""
    from ray._private import ray_constants
    from ray._private.node import Node

    parts: list[tuple[Any, str, object]] = [(Node, name, method) for name, method in STAND_INS.items()]
    parts.append((ray_constants, "ENABLE_RAY_CLUSTER", False))
    with _replace_attributes(parts):
        yield


@contextmanager
def lighten_tune() -> Iterator[None]:
    """Let Ray Tune start within the block without parts that take seconds, or that expose secrets.

    Tune gives its actors an environment of their own, with a variable for PyTorch Lightning, so that Ray
    would start a new process for each of them. Without it they take over Ray's idle workers. It also imports
    MLflow and others, to count for Ray's statistics which of their callbacks are in use. And it passes on the
    keys of S3, which Ray would write into its logs: workers of this machine inherit them anyway. All this,
    and `TUNE_SETTINGS`, is undone at the end of the block: a program may use Tune itself.
    """
    from ray.air._internal import usage
    from ray.tune.execution import class_cache

    parts: list[tuple[Any, str, object]] = [
        (class_cache, "DEFAULT_ENV_VARS", {}),
        (class_cache, "ENV_VARS_TO_PROPAGATE", class_cache.ENV_VARS_TO_PROPAGATE - set(SECRET_VARIABLES)),
        (usage, "tag_callbacks", lambda callbacks: False),
    ]
    logger = logging.getLogger("ray.tune")
    level, new = logger.level, {name: text for name, text in TUNE_SETTINGS.items() if name not in os.environ}
    os.environ.update(new)
    # Tune would log the traceback of each failed trial; the launch's `Watch` reports one line.
    logger.setLevel(logging.CRITICAL)
    try:
        with _replace_attributes(parts):
            yield
    finally:
        logger.setLevel(level)
        for name in new:
            os.environ.pop(name, None)


@contextmanager
def _replace_attributes(parts: Sequence[tuple[Any, str, object]]) -> Iterator[None]:
    """Replace attributes of Ray's within the block; `parts` are owner, name and value of each."""
    originals = [getattr(owner, name) for owner, name, _ in parts]
    for owner, name, value in parts:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(parts, originals, strict=True):
            setattr(owner, name, value)


@contextmanager
def create_private_folder() -> Iterator[Path]:
    """Create a folder for the logs and sockets of a local Ray that only this user can read.

    The folder that Ray would create is readable by all users. This one lies in RAY_TMPDIR, else in the
    system's temporary folder, or in `SHORT_FOLDER` if that path leaves no room for the name of a socket. It
    is deleted at the end of the block.

    Raises:
        OSError: no folder can be made.
    """
    base = Path(os.environ.get("RAY_TMPDIR") or gettempdir())
    is_short = len(str(base / PREFIX)) + RANDOM_CHARACTERS <= LONGEST_FOLDER
    with create_scratch_folder(base if is_short else SHORT_FOLDER) as folder:
        yield folder


@contextmanager
def lock_start(place: Path) -> Iterator[None]:
    """Wait until no other process starts a Ray with its folder in `place`, and be the only one in the block.

    Each start is seconds of work for all cores: of eight at once, half were too slow for the 15 seconds that
    Ray gives its own processes.
    """
    handle = os.open(place, os.O_RDONLY)
    try:
        # A lock on the folder itself needs no file, and ends with the process, however that ends.
        flock(handle, LOCK_EX)
        yield
    finally:
        os.close(handle)


def _start_nothing(node: Any) -> None:
    """Stand in for a method of `Node` that starts a process."""


def _skip_api_server(node: Any, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
    """Stand in for `Node.start_api_server`, which sets the address of the dashboard."""
    node._webui_url = ""


STAND_INS: Mapping[str, Callable[..., None]] = {
    "start_monitor": _start_nothing,
    "start_log_monitor": _start_nothing,
    "start_api_server": _skip_api_server,
}
"""Method of Ray's `Node` -> what replaces it."""

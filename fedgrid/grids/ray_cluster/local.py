"""Starts Ray for this machine alone, with few processes: all that fedgrid replaces of Ray's private parts.

Ray has no settings for this. Another version that lacks one of these names starts as it does by itself, more
slowly. What each saves of `fedgrid run quickstart --set training.rounds=2` (15 s on two cores; medians, in
turns with and without):

- `Node.start_api_server`, 1.6 s: without the dashboard it only reports statistics, which are off;
- `Node.start_monitor`, 1.3 s: the autoscaler watches a cluster that cannot grow;
- workers that import torch while the driver goes on, 2.6 s (a setting of Ray, but not a public one);
- `DEFAULT_ENV_VARS` of Tune, 5 s;
- `tag_callbacks` of Tune, 2 s.

`ENABLE_RAY_CLUSTER` is false on Windows and macOS, where Ray's processes then listen on loopback only. So
they do here; else some ten of them listen on all of the machine's addresses.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any

PRELOAD = "fedgrid.grids.ray_cluster.preload"
"""Imported by workers before they are anybody's actor."""
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN")
"""Variables that Tune passes on in the open."""
LONGEST = 35
"""Characters of the folder before the names of Ray's session and socket."""
KEPT_MS = 60_000
"""How long a worker waits for an actor: client actors start seconds after their server."""


@contextmanager
def few_processes() -> Iterator[None]:
    """Let `ray.init` start a cluster of few processes, which listen on loopback only, within the block."""
    from ray._private import ray_constants
    from ray._private.node import Node

    with ExitStack() as stack:
        for name, method in STAND_INS.items():
            stack.enter_context(_replaced(Node, name, method))
        stack.enter_context(_replaced(ray_constants, "ENABLE_RAY_CLUSTER", False))
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Put a value in an attribute's place within the block, if there is such an attribute."""
    if not hasattr(owner, name):
        yield
        return
    own = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, own)


def system_config(cpus: float, gpus: float, workers: int) -> dict[str, Any]:
    """Return Ray's settings for a machine on which the first runs need this many workers.

    Ray starts as many workers as there are CPUs, while the driver goes on. They import torch meanwhile,
    unless some of them will not be needed, or torch must not see the machine's GPUs before Ray has dealt
    them out. Metrics, which nothing here reads, are shown to anybody who asks without a token.
    """
    settings: dict[str, Any] = {"enable_metrics_collection": False}
    if cpus > workers or gpus:
        return settings
    return settings | {"preload_python_modules": [PRELOAD], "idle_worker_killing_time_threshold_ms": KEPT_MS}


def light_tune() -> None:
    """Let Ray Tune start without two things that take seconds, and without one that is not safe.

    Its actors, and those that they start, are any of Ray's workers that wait: it gives them an environment
    of their own, with a variable for PyTorch Lightning, for which Ray would start new processes. And it does
    not import MLflow and others to count for Ray's statistics which of their callbacks are in use.
    Nor does it pass on the keys of S3, which Ray would write into its logs: workers of this machine inherit
    them.
    """
    with suppress(ImportError, AttributeError):
        from ray.tune.execution import class_cache

        class_cache.DEFAULT_ENV_VARS.clear()
        class_cache.ENV_VARS_TO_PROPAGATE.difference_update(KEYS)
    with suppress(ImportError):
        from ray.air._internal import usage

        usage.tag_callbacks = lambda callbacks: False


def private_folder() -> Path | None:
    """Return a folder of this user alone for the logs and sockets of a local Ray, which makes its own public.

    It lies in RAY_TMPDIR, if that is set. None if there is no such folder: a stranger's, or on a long path,
    since Linux has room for 107 characters in the name of a socket.
    """
    folder = Path(os.environ.get("RAY_TMPDIR") or gettempdir()) / f"fedgrid-ray-{os.getuid()}"
    if len(str(folder)) > LONGEST:
        return None
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    is_own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return folder if is_own and stat.S_IMODE(about.st_mode) == 0o700 else None


def _nothing(node: Any) -> None:
    """Stand in for a method that starts a process."""


def _no_api_server(node: Any, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
    """Stand in for `Node.start_api_server`, which notes the address of the dashboard."""
    node._webui_url = ""


STAND_INS: Mapping[str, Callable[..., None]] = {
    "start_monitor": _nothing,
    "start_api_server": _no_api_server,
}
"""Methods of Ray's `Node`, and what takes their place."""

"""Connect to the Ray cluster that a grid runs on: a running one, or a new one on this machine alone."""

import logging
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import Node, Placement, PlacementRequest, plan_placement
from fedgrid.engine.runtime.integrity.code import PACKAGE, ROOTS, SOURCES, Sources
from fedgrid.grids.ray_cluster import address_space
from fedgrid.grids.ray_cluster.local import RAY_SETTINGS, create_private_folder, limit_processes, lock_start
from fedgrid.grids.ray_cluster.nodes import check_gpus, read_cluster_nodes, read_local_nodes
from fedgrid.grids.ray_cluster.token import enable_token, find_token_file, protect_token

DEFAULT_REQUEST = PlacementRequest()
LOCAL = "local"
"""Ray's name for a cluster of its own, on this machine."""
AUTO_ADDRESS = "auto"
"""Ray's name for the cluster that runs on this machine."""
HOST_AND_PORT = re.compile(r"[\w.-]+:\d+|\[[0-9a-fA-F:.]+\]:\d+")
QUIET_OPTIONS: Mapping[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
ROOT_ID = 0
"""Id of the user who may start a cluster for all users of a machine."""
ALTERNATIVES = "RAY_ADDRESS=local starts a Ray of its own, and --in-process needs none"
"""Advice where a cluster cannot be used."""
ANSWER_SECONDS = 3.0
"""Seconds to wait for a connection to a cluster."""


def find_nodes(request: PlacementRequest = DEFAULT_REQUEST) -> tuple[Node, ...] | None:
    """Find the nodes of the cluster without starting Ray; None if only the cluster can tell.

    Raises:
        ConfigError: if this machine has GPUs that torch cannot use, unless the request asks for none.
    """
    enable_token()
    # A process that is connected has imported Ray. Others need not, which takes half a second.
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return read_cluster_nodes()
    if find_address() != LOCAL:
        return None
    check_gpus(request)
    return read_local_nodes()


def find_nodes_to_run_on(
    *, in_process: bool, request: PlacementRequest = DEFAULT_REQUEST
) -> tuple[Node, ...]:
    """Find the nodes that a grid would run on; connects to the cluster if need be.

    None of them if it would run in this process: then nothing looks for Ray.

    Raises:
        RunError: if the cluster does not answer.
        ConfigError: as `find_nodes`.
    """
    if in_process:
        return ()
    nodes = find_nodes(request)
    if nodes is not None:
        return nodes
    with connect_to_ray():
        return read_cluster_nodes()


@contextmanager
def connect_to_ray() -> Iterator[None]:
    """Connect to the cluster of RAY_ADDRESS or of this machine, else start one here, within the block.

    Raises:
        RunError: if the cluster refuses this user's token, or cannot be started.
        ConfigError: if it does not answer, Ray cannot reserve the memory that it needs, or the current folder
            has other code of fedgrid.
    """
    import ray

    enable_token()
    if ray.is_initialized():
        yield
        return
    # 1. Memory, token and address are checked first: Ray itself would wait for minutes, crash, or create a
    # token that all users of the machine can read.
    address_space.check_limit(address_space.RAY_BYTES)
    check_current_folder()
    place = find_address()
    protect_token(create=place == LOCAL)
    check_address(place)
    # 2. Only a cluster that this process connected to is left at the end; one that the program had before is
    # not.
    with ExitStack() as stack:
        _connect_or_start(place, stack)
        try:
            yield
        finally:
            ray.shutdown()


def _connect_or_start(place: str, stack: ExitStack) -> None:
    """Connect to a cluster, or start one; what `LOCAL` needs until its end enters the `stack`.

    Raises:
        RunError: as `connect_to_ray`.
    """
    import ray

    try:
        if place == LOCAL:
            folder = stack.enter_context(create_private_folder())
            with lock_start(folder.parent), _defer_interrupt():
                _start_ray(folder)
        else:
            with _defer_interrupt():
                ray.init(address=place, **QUIET_OPTIONS)
    except Exception as error:
        raise RunError(_describe_refusal(place, error)) from error


def _describe_refusal(place: str, error: Exception) -> str:
    """Describe in one line why Ray cannot be used, and what to do."""
    # Between the first and the last line there are Ray's logs and a traceback.
    lines = str(error).strip().splitlines() or [type(error).__name__]
    cause = " ".join(dict.fromkeys((lines[0].strip(), lines[-1].strip())))
    if place == LOCAL:
        # Ray raises a bare exception if its processes take longer to start than it waits.
        busy = "try again when this machine is less busy; " if "timed out" in str(error).lower() else ""
        step = f"{busy}--in-process, in Python in_process=True, needs no Ray"
        return f"Ray cannot be started here ({cause}); {step}"
    return (
        f"the Ray cluster at {place} cannot be used ({cause}); if it wants another token: copy "
        f"~/.ray/auth_token of the user who started it to {find_token_file()}, and set RAY_AUTH_MODE=token; "
        f"{ALTERNATIVES}"
    )


def _start_ray(folder: Path) -> None:
    """Start Ray on this machine, with its logs and sockets in `folder`."""
    import ray

    [node] = read_local_nodes()
    with limit_processes():
        ray.init(
            address=LOCAL,
            include_dashboard=False,
            # Without a number Ray would also count GPUs that torch cannot use.
            num_gpus=int(node.gpus),
            _system_config=dict(RAY_SETTINGS),
            _temp_dir=str(folder / "ray"),
            **QUIET_OPTIONS,
        )


def check_current_folder() -> None:
    """Check that Ray's workers, which import from the current folder first, find the code that runs here.

    Raises:
        ConfigError: the folder has a `fedgrid/` with other code, as a clone of another version has.
    """
    other = Path.cwd() / PACKAGE
    if not (other / "__init__.py").is_file() or other.samefile(SOURCES.folder):
        return
    if Sources(other).digest_modules(ROOTS) != SOURCES.digest_modules(ROOTS):
        raise ConfigError(
            f"{other} has other code than {SOURCES.folder}, which runs: Ray's workers would import it; start "
            "in another folder, install that code, or use --in-process (in Python in_process=True)"
        )


def check_address(address: str) -> None:
    """Check that an address is `local`, or HOST:PORT where something answers.

    Ray itself would try for minutes, and print a line each time.

    Raises:
        ConfigError: it is neither, or nothing answers.
    """
    if address == LOCAL:
        return
    if address == AUTO_ADDRESS:
        raise ConfigError(f"RAY_ADDRESS=auto: no Ray cluster of yours runs on this machine; {ALTERNATIVES}")
    if not HOST_AND_PORT.fullmatch(address):
        raise ConfigError(
            f"RAY_ADDRESS={address}: expected HOST:PORT, as `ray start` prints it (its usual port is "
            f"6379); {ALTERNATIVES}"
        )
    if not _is_reachable(address):
        raise ConfigError(f"the Ray cluster at {address} does not answer; {ALTERNATIVES}")


def compute_placements(
    runs: Iterable[RunConfig], nodes: Sequence[Node], request: PlacementRequest, num_runs: int
) -> Mapping[int, Placement]:
    """Compute number of clients -> placement of a run with that many.

    Runs with the same number of clients share their actors, one run after the other. So the smallest stack of
    clients counts: larger ones leave some actors without clients.

    Args:
        runs: the runs.
        nodes: the cluster.
        request: what the user reserves for an actor.
        num_runs: number of runs that execute side by side.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
    """
    stacks: dict[int, int] = {}
    for run in runs:
        stacks[run.clients] = min(run.training.stacked, stacks.get(run.clients, run.training.stacked))
    return {
        clients: plan_placement(clients, nodes, request, num_runs, stacks[clients])
        for clients in sorted(stacks)
    }


def count_concurrent_runs(runs: Sequence[RunConfig], *, by_shared_prefix: bool = False) -> int:
    """Count the runs that can make progress at the same time.

    With a round cache (`by_shared_prefix`) that is one for each shared prefix: of two runs that share their
    first rounds one computes a round and the other waits for it. More actors for the first one help both.
    """
    return len({run.shared_prefix for run in runs}) if by_shared_prefix else len(runs)


def find_address() -> str:
    """Find the address of the cluster to use; `LOCAL` if a new one is to be started."""
    given = os.environ.get("RAY_ADDRESS", "").strip()
    if given == AUTO_ADDRESS:
        return _read_address_file() or given
    return given or _read_address_file() or LOCAL


def _read_address_file() -> str | None:
    """Read the address that `ray start` has left in a file; None if it does not answer.

    The file of another user is not trusted: that cluster would get our token and run our code.
    """
    file = Path(tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    try:
        with file.open() as note:
            # The owner of the open file, not of its path, behind which it could be exchanged meanwhile.
            owner, address = os.fstat(note.fileno()).st_uid, note.read(200).strip()
    except (OSError, ValueError):
        return None
    return address if owner in (os.getuid(), ROOT_ID) and _is_reachable(address) else None


def _is_reachable(address: str) -> bool:
    """Check whether something accepts connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Defer the first Ctrl-C to the end of the block: during its start it would make Ray crash at exit.

    Python delivers it to the main thread; in another one, the block runs as it is.
    """
    if current_thread() is not main_thread():
        yield
        return
    deferred = []

    def record_signal(number: int, frame: FrameType | None) -> None:
        deferred.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, record_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if deferred:
        raise KeyboardInterrupt

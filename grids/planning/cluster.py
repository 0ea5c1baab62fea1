"""The Ray cluster that a grid runs on: one that is there already, or one of this machine alone."""

import logging
import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fedgrid.engine.clients.placement import Node, Placement, Request, cluster_nodes, local_nodes, plan
from fedgrid.engine.errors import RunError
from fedgrid.engine.run_config import RunConfig

ANSWER_SECONDS = 3.0
"""How long a cluster on this machine may take to answer."""


def known_nodes() -> tuple[Node, ...] | None:
    """Return what there is to run on, without starting Ray; None where only the cluster itself can say."""
    import ray

    if ray.is_initialized():
        return cluster_nodes()
    return None if _joins() else local_nodes()


def nodes_to_run_on() -> tuple[Node, ...]:
    """Return what a grid would run on; asks the cluster where only that can say.

    Raises:
        RunError: if the cluster does not answer.
    """
    nodes = known_nodes()
    if nodes is not None:
        return nodes
    with connected():
        return cluster_nodes()


@contextmanager
def connected() -> Iterator[None]:
    """Join the cluster that RAY_ADDRESS names or this machine belongs to; else start one of this machine.

    Raises:
        RunError: if the cluster does not answer.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    joins = _joins()
    address, dashboard = (None, None) if joins else ("local", False)
    try:
        with _interruptions_wait():
            ray.init(
                address=address, include_dashboard=dashboard, logging_level=logging.ERROR, log_to_driver=False
            )
    except (ConnectionError, RuntimeError) as error:
        cause = str(error).strip().splitlines()[0]
        raise RunError(
            f"no Ray cluster to run on ({cause}); `ray stop` ends what is left of an old one"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def placements(
    runs: Sequence[RunConfig], nodes: Sequence[Node], request: Request, *, by_trunk: bool = False
) -> Mapping[int, Placement]:
    """Return number of clients -> how such a run is placed; `by_trunk` is as of `num_to_place`.

    Raises:
        ConfigError: if one of them can never fit.
    """
    counts = sorted({run.clients for run in runs})
    num_runs = num_to_place(runs, by_trunk=by_trunk)
    return {clients: plan(clients, nodes, request, num_runs) for clients in counts}


def num_to_place(runs: Sequence[RunConfig], *, by_trunk: bool = False) -> int:
    """Return how many of the runs may as well go side by side.

    With a round store that is one a trunk (`by_trunk`): of two, while their rounds are the same, one waits
    for what the other computes, which more actors would compute sooner.
    """
    return len({run.trunk for run in runs}) if by_trunk else len(runs)


def _joins() -> bool:
    """Return whether there is a cluster to join; one that `ray start` left a note of may be long gone."""
    if os.environ.get("RAY_ADDRESS"):
        return os.environ["RAY_ADDRESS"] != "local"
    note = Path(tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    if not note.exists():
        return False
    host, _, port = note.read_text().strip().rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Put off the first Ctrl-C to the end of the block: amid its start, Ray would crash at the exit."""
    waiting = []

    def remember(number: int, frame: FrameType | None) -> None:
        waiting.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        raise KeyboardInterrupt

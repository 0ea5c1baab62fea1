"""What takes a run forward: a Ray server with its client actors, or this process."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from engine.errors import RunError
from engine.pool import InProcessPool
from engine.records import RoundRecord
from engine.resources import Placement, Request, plan
from engine.run_config import RunConfig
from engine.session import Session


class Backend(Protocol):
    """Opens runs and takes them forward, one round at a time."""

    def open(self, config: RunConfig, storage: Path) -> int:
        """Start or continue a run; return the number of rounds it has already."""

    def submit_round(self) -> Callable[[], RoundRecord]:
        """Start the next round; the result waits for it."""


class InProcessBackend:
    """Everything in this process, for debuggers and profilers."""

    def __init__(self, data_dir: Path) -> None:
        self._session = Session(InProcessPool(), data_dir)

    def open(self, config: RunConfig, storage: Path) -> int:
        """Start or continue a run; return the number of rounds it has already."""
        return self._session.open(config, storage)

    def submit_round(self) -> Callable[[], RoundRecord]:
        """Return the next round, which is run when the result is asked for."""
        return self._session.next_round


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


class RayBackend:
    """A server actor and its client actors, kept from one run to the next: they cost seconds to start."""

    def __init__(self, data_dir: Path, request: Request) -> None:
        import ray

        self._ray = ray
        self._data_dir = data_dir
        self._request = request
        self._placement: Placement | None = None
        self._group: Any = None
        self._server: Any = None
        self._owns_ray = not ray.is_initialized()
        if self._owns_ray:
            with _interruptions_wait():
                ray.init(logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_ray:
            self._ray.shutdown()
        else:
            self._release()

    def place(self, num_clients: int) -> Placement:
        """Return how a run with so many clients is placed on this cluster.

        Raises:
            ConfigError: if it can never fit.
        """
        cluster: dict[str, float] = self._ray.cluster_resources()  # type: ignore[no-untyped-call]
        return plan(num_clients, cluster.get("CPU", 0.0), cluster.get("GPU", 0.0), self._request)

    def open(self, config: RunConfig, storage: Path) -> int:
        """Start or continue a run, with the actors of the run before where they fit."""
        placement = self.place(config.clients)
        if placement != self._placement:
            self._release()
            self._start(placement)
        return int(self._get(self._server.open.remote(config, storage)))

    def submit_round(self) -> Callable[[], RoundRecord]:
        """Start the next round in the server; the result waits for it."""
        ref = self._server.next_round.remote()
        return lambda: self._get(ref)

    def _start(self, placement: Placement) -> None:
        from engine.server import reserve, start_server

        self._group = reserve(placement)
        self._server = start_server(self._group, placement, self._data_dir, placement.num_actors)
        self._placement = placement

    def _release(self) -> None:
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
            self._group = self._server = self._placement = None

    def _get(self, ref: Any) -> Any:
        try:
            return self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else RunError(str(error))) from None
        except self._ray.exceptions.RayActorError as error:
            self._release()
            raise RunError(
                f"the server actor died ({str(error).splitlines()[0]}); the same command continues the run"
            ) from error

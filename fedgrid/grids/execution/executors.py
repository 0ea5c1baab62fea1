"""Execute the runs of a launch: on Ray, as Tune trials, or one after another in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import RunError, is_final
from fedgrid.engine.runtime.clients.placement import Placement, count_most_at_once, count_runs_at_once
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.failure import describe_error
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock, draw_backoff, pause_until
from fedgrid.grids.execution.run_events import RoundDone, RunEvent, run_to_end
from fedgrid.grids.planning.start_order import sort_runs
from fedgrid.grids.ray_cluster.background_imports import import_in_thread
from fedgrid.grids.ray_cluster.cluster import (
    compute_placements,
    connect_to_ray,
    count_concurrent_runs,
    find_nodes,
)
from fedgrid.grids.ray_cluster.nodes import read_cluster_nodes

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.clients.placement import Node, PlacementRequest
    from fedgrid.engine.runtime.run.session import Session
    from fedgrid.grids.display.steps import StepDisplay
    from fedgrid.grids.execution.watch import Watch
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.presets.grid import Grid


class Executor:
    """Executes runs, in the order that is best for it."""

    @contextmanager
    def start_resources(self, steps: StepDisplay) -> Iterator[None]:
        """Start what the runs need, for the block of a `with`.

        Called once a launch, with the storage's lease already acquired; `steps` shows what is being started.
        """
        yield

    def place_runs(self, runs: Sequence[RunConfig]) -> None:
        """Decide what each of the runs reserves.

        Called before the first of them starts, and again when a grid grows.

        Raises:
            ConfigError: one can never fit.
        """

    def execute_runs(self, grid: Grid, runs: Sequence[RunConfig], watch: Watch) -> None:
        """Execute runs of a grid that have been placed, to their ends or until the launch is stopped.

        Called after `place_runs`, once for a grid and once more for each grid that it grows to.

        Args:
            grid: the grid of the runs.
            runs: runs that are not finished.
            watch: gets the events of all runs.
        """
        raise NotImplementedError

    def check_capacity(self) -> None:
        """Check that a run can still start; called when none has been in progress for a minute.

        Raises:
            RunError: none can.
        """


class InProcessExecutor(Executor):
    """Executes runs in this process, without Ray, for debuggers and profilers: any run fits."""

    def __init__(self, options: LaunchOptions, clock: Clock = CLOCK) -> None:
        self._options, self._clock = options, clock

    def execute_runs(self, grid: Grid, runs: Sequence[RunConfig], watch: Watch) -> None:
        """Execute runs one after another; retry one that fails after a pause, unless it would fail again.

        Raises:
            RunError: what `watch` raises, for instance if another driver has taken over the storage.
        """
        # They import torch, which a driver of actors does without.
        from fedgrid.engine.runtime.clients.local_pool import InProcessPool
        from fedgrid.engine.runtime.run.session import Session

        options = self._options
        session = Session(
            InProcessPool(),
            options.data_dir,
            write_behind=True,
            cache=options.run_cache_options,
            accept_changes=options.accept_changes,
        )
        for config in sort_runs(runs):
            self._run_with_retries(config, session, watch, grid.until.get(config.run_id))
            if watch.all_stopped:
                return

    def _run_with_retries(self, config: RunConfig, session: Session, watch: Watch, until: int | None) -> None:
        """Execute one run, up to the number of retries more often if it fails."""
        retries = self._options.retries
        for attempt in range(1, retries + 2):
            events = run_to_end(session, config, watch.storage, lambda: watch.stopping, until)
            error = _run_once(config, _yield_when_on_disk(events, session), watch)
            if error is None:
                return
            if attempt > retries or is_final(error):
                watch.record_failure(config, describe_error(error), attempt)
                return
            watch.record_retry(config, describe_error(error), attempt)
            pause_until(lambda: watch.stopping, draw_backoff(attempt), self._clock)


class RayExecutor(Executor):
    """Executes runs on a Ray cluster, or on a Ray of this machine alone."""

    def __init__(self, todo: Sequence[RunConfig], options: LaunchOptions) -> None:
        """Refuse runs that can never fit before Ray is started, if the cluster's nodes are known by then.

        Raises:
            ConfigError: one can never fit.
        """
        self._options = options
        self._places: Mapping[int, Placement] = {}
        self._shares_rounds = options.cache is not None
        nodes = find_nodes(options.request)
        if nodes is not None:
            # Only for its errors: the user learns in a second, rather than after Ray has started, that a run
            # cannot fit. The placements that count are computed when the nodes are known for certain.
            self._compute_placements(todo, nodes, options.request)

    @contextmanager
    def start_resources(self, steps: StepDisplay) -> Iterator[None]:
        """Connect to Ray, or start it."""
        steps.begin_step("Starting Ray")
        # Starting Ray is mostly waiting: for its own processes.
        import_in_thread("fedgrid.grids.execution.tune")
        with connect_to_ray():
            yield

    def place_runs(self, runs: Sequence[RunConfig]) -> None:
        """Decide how many actors the runs have, and what each reserves.

        Raises:
            ConfigError: one can never fit.
        """
        nodes, request = read_cluster_nodes(), self._options.request
        if any(node.gpus for node in nodes):
            # Imports torch, which a driver of actors does without.
            from fedgrid.grids.planning.gpu_share import add_gpu_share

            request = add_gpu_share(runs, nodes, request, self._options.data_dir)
        self._places = self._compute_placements(runs, nodes, request)

    def execute_runs(self, grid: Grid, runs: Sequence[RunConfig], watch: Watch) -> None:
        """Execute as many runs side by side as fit."""
        # Importing Ray Tune takes a second.
        from fedgrid.grids.execution.server_trainable import LaunchContext
        from fedgrid.grids.execution.tune import run_trials

        # The order matters only if runs share rounds: those that can reuse rounds of another start after it.
        side_by_side = (
            count_most_at_once(self._places.values(), read_cluster_nodes()) if self._shares_rounds else 1
        )
        runs = sort_runs(runs, max(1, side_by_side))
        context = LaunchContext(
            grid.name,
            runs,
            self._places,
            watch.storage,
            self._options,
            watch.lease.token,
            dict(grid.until),
            active.list_sources(digest for run in runs for digest in run.plugin_digests),
            own_images.list_places(name for run in runs for name in run.own_images),
        )
        run_trials(context, watch)

    def _compute_placements(
        self, runs: Sequence[RunConfig], nodes: Sequence[Node], request: PlacementRequest
    ) -> Mapping[int, Placement]:
        """Compute the placement for each number of clients among the runs."""
        return compute_placements(
            runs, nodes, request, count_concurrent_runs(runs, by_shared_prefix=self._shares_rounds)
        )

    def check_capacity(self) -> None:
        """Check that at least one placement still fits on the cluster, which may have lost nodes.

        Raises:
            RunError: if none does.
        """
        nodes = read_cluster_nodes()
        if self._places and not any(
            count_runs_at_once(placement, nodes) for placement in self._places.values()
        ):
            raise RunError(
                f"the cluster has shrunk to {len(nodes)} nodes, and no run fits on them; add nodes, or "
                "repeat the command with --clients-per-actor for fewer actors"
            )


def _yield_when_on_disk(events: Iterator[RunEvent], session: Session) -> Iterator[RunEvent]:
    """Yield events, each `RoundDone` only once its round is on disk, which happens while the next ones train.

    If the iterator fails, the rounds whose writes succeeded are still yielded before the error is raised.
    """
    pending: deque[tuple[RunEvent, Future[None] | None]] = deque()
    try:
        for event in events:
            pending.append((event, session.find_last_write() if isinstance(event, RoundDone) else None))
            # In order: an event never overtakes the round before it.
            while pending and _is_written(pending[0][1]):
                yield pending.popleft()[0]
    except Exception:
        yield from (event for event, write in pending if write is None or write.exception() is None)
        raise


def _is_written(write: Future[None] | None) -> bool:
    """Check whether a write has ended without an error."""
    return write is None or (write.done() and write.exception() is None)


def _run_once(config: RunConfig, events: Iterator[RunEvent], watch: Watch) -> Exception | None:
    """Execute one run to its end, and return its error if it fails, else None.

    An error of `watch` is no failure of the run: it is raised.
    """
    while True:
        try:
            event = next(events, None)
        except Exception as error:
            # Also a bug of ours or of a library: it must not stop the grid's other runs.
            return error
        if event is None:
            return None
        watch.handle_event(config, event)
        watch.check_launch()

"""Where the runs of a launch are done: on Ray, as Tune trials, or one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients.placement import Placement, at_once, most_at_once
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.planning.start_order import sort_runs
from fedgrid.grids.ray_cluster.cluster import connected, known_nodes, num_to_place, placements
from fedgrid.grids.ray_cluster.import_meanwhile import import_meanwhile
from fedgrid.grids.ray_cluster.nodes import cluster_nodes

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.clients.placement import Node, Request
    from fedgrid.engine.runtime.round_cache.files import CacheOptions
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.display.steps import Steps
    from fedgrid.grids.execution.watch import Watch
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.presets.grid import Grid


class Executor:
    """Does runs, in the order that is best for it."""

    @contextmanager
    def started(self, steps: Steps) -> Iterator[None]:
        """Start what the runs need, for the block of a `with`; `steps` says so."""
        yield

    def place(self, runs: Sequence[RunConfig]) -> None:
        """Decide what each of the runs reserves, before the first of them starts.

        Raises:
            ConfigError: one can never fit.
        """

    def run(
        self,
        grid: Grid,
        runs: Sequence[RunConfig],
        storage: Storage,
        watch: Watch,
        cache: CacheOptions | None,
    ) -> None:
        """Do runs of a grid that have been placed, to their ends or until the launch is stopped."""
        raise NotImplementedError

    def check(self) -> None:
        """Check that a run can still start.

        Raises:
            RunError: none can.
        """


class InProcess(Executor):
    """This process, without Ray: nothing is needed, and any run fits."""

    def __init__(self, options: LaunchOptions) -> None:
        self._options = options

    def run(
        self,
        grid: Grid,
        runs: Sequence[RunConfig],
        storage: Storage,
        watch: Watch,
        cache: CacheOptions | None,
    ) -> None:
        """Do the runs one after another."""
        # Imports torch, which a driver of actors does without.
        from fedgrid.grids.execution.in_process import run_in_process

        run_in_process(
            sort_runs(runs),
            storage,
            self._options.data_dir,
            watch,
            self._options.retries,
            grid.until,
            cache,
            accept_changes=self._options.accept_changes,
        )


class OnRay(Executor):
    """A Ray cluster, or one on this machine alone."""

    def __init__(self, todo: Sequence[RunConfig], options: LaunchOptions) -> None:
        """Refuse runs that can never fit, before Ray is started, if the cluster's nodes are known.

        Raises:
            ConfigError: one can never fit.
        """
        self._options = options
        self._places: Mapping[int, Placement] = {}
        self._shares_rounds = options.cache is not None
        nodes = known_nodes(options.request)
        if nodes is not None:
            self._placements(todo, nodes, options.request)

    @contextmanager
    def started(self, steps: Steps) -> Iterator[None]:
        """Connect to Ray, or start it."""
        steps.say("Starting Ray")
        # Starting Ray is mostly waiting: for its own processes.
        import_meanwhile("fedgrid.grids.execution.tune")
        with connected():
            yield

    def place(self, runs: Sequence[RunConfig]) -> None:
        """Decide how many actors the runs have, and what each reserves.

        Raises:
            ConfigError: one can never fit.
        """
        nodes, request = cluster_nodes(), self._options.request
        if any(node.gpus for node in nodes):
            # Imports torch, which a driver of actors does without.
            from fedgrid.grids.planning.gpu_share import with_gpu_share

            request = with_gpu_share(runs, nodes, request, self._options.data_dir)
        self._places = self._placements(runs, nodes, request)

    def run(
        self,
        grid: Grid,
        runs: Sequence[RunConfig],
        storage: Storage,
        watch: Watch,
        cache: CacheOptions | None,
    ) -> None:
        """Do as many runs side by side as fit."""
        # Importing Ray Tune takes a second.
        from fedgrid.grids.execution.server_trainable import LaunchContext, ServerTrainable
        from fedgrid.grids.execution.tune import run_trials

        side_by_side = most_at_once(self._places.values(), cluster_nodes()) if self._shares_rounds else 1
        runs = sort_runs(runs, max(1, side_by_side))
        context = LaunchContext(
            grid.name,
            runs,
            self._places,
            storage,
            self._options.data_dir,
            watch.lease.token,
            dict(grid.until),
            cache,
            active.sources(digest for run in runs for digest in run.plugin_digests),
            own_images.places(name for run in runs for name in run.own_images),
            self._options.accept_changes,
        )
        run_trials(ServerTrainable, context, watch, self._options.retries)

    def _placements(
        self, runs: Sequence[RunConfig], nodes: Sequence[Node], request: Request
    ) -> Mapping[int, Placement]:
        return placements(runs, nodes, request, num_to_place(runs, by_shared_prefix=self._shares_rounds))

    def check(self) -> None:
        """Check that at least one placement still fits on the cluster, which may have lost nodes.

        Raises:
            RunError: if none does.
        """
        nodes = cluster_nodes()
        if self._places and not any(at_once(placement, nodes) for placement in self._places.values()):
            raise RunError(
                f"the cluster has shrunk to {len(nodes)} nodes, and no run fits on them; add nodes, or "
                "repeat the command with --clients-per-actor for fewer actors"
            )

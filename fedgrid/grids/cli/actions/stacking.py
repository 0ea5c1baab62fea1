"""`fedgrid run --gpus-per-actor auto`: a grid as was decided at its first launch, or is decided now."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.grid import ASKED, OPTIONS, Grid, Stacking
from fedgrid.grids.ray_cluster.cluster import connected, known_nodes, nodes_to_run_on
from fedgrid.grids.ray_cluster.nodes import cluster_nodes, local_nodes
from fedgrid.grids.results.grid_folder import GRIDS, RUNS, GridFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fedgrid.engine.runtime.clients.placement import Node
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.planning.stacking import Load, OnGpu

TEXT = "Measuring on a GPU whether stacks of clients are faster ..."


def decide_stacking(
    load: Load,
    storage: Storage,
    options: LaunchOptions,
    console: Console,
    *,
    is_asked: bool,
    dry_run: bool,
) -> tuple[Grid, str]:
    """Return a grid whose clients are stacked as was or is decided, and the line that says so.

    The line is empty where there is nothing to say. What a file's grid keeps holds for every launch of it,
    with `auto` or without, on any machine; but `training.stacked` of the user comes first.

    Args:
        load: loads the grid, with overrides.
        storage: where it has a folder, if it was launched before.
        options: of the launch.
        console: says that something is measured.
        is_asked: whether `auto` was given.
        dry_run: whether to start nothing, and to measure on this machine.

    Raises:
        ConfigError: the grid cannot be loaded, also with what it keeps; or a run of it fits on no GPU.
        RunError: the storage or the cluster does not answer.
    """
    grid = load(())
    if grid.sets_stacked:
        line = f"{ASKED} nothing is decided: the grid, or an override, gives training.stacked itself"
        return grid, line if is_asked else ""
    stored, earlier = _read_stacking(grid, storage)
    if stored is not None and (is_asked or grid.source != OPTIONS):
        line = f"{stored} (decided at this grid's first launch)" if is_asked or stored.changes else ""
        return _load_as_stored(grid, stored, load), line
    if not is_asked:
        return grid, ""
    if not earlier.isdisjoint(run.run_id for run in grid.runs):
        return grid, (
            f"{ASKED} nothing is stacked: runs of this grid were launched without it, and keep their ids; "
            "--name OTHER makes a grid of its own"
        )
    decision = _decide(grid, load, options, console, dry_run=dry_run)
    if decision is None:
        return grid, f"{ASKED} decided at the first launch: here is no GPU to measure on"
    return replace(load(decision.changes), stacking=decision), str(decision)


def _read_stacking(grid: Grid, storage: Storage) -> tuple[Stacking | None, set[str]]:
    """Return what the grid's folder keeps, and the ids of its runs."""
    folder = GridFolder(storage, grid.name)
    storage.pull(f"{GRIDS}/{grid.name}", only=RUNS)
    if not folder.is_there:
        return None, set()
    grid_before = folder.read()
    return grid_before.stacking, {run.run_id for run in grid_before.every}


def _load_as_stored(grid: Grid, decision: Stacking, load: Load) -> Grid:
    try:
        return load(decision.changes)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; the grid {grid.name} keeps {decision.changes[0]} of --gpus-per-actor auto: --name "
            "OTHER makes these runs a grid of their own"
        ) from error


def _decide(
    grid: Grid, load: Load, options: LaunchOptions, console: Console, *, dry_run: bool
) -> Stacking | None:
    """Return what is best on the cluster, or on this machine; None if a dry run cannot know it."""
    # Imports torch, which a driver of actors does without.
    from fedgrid.grids.planning import stacking

    def best(nodes: Sequence[Node], on_gpu: OnGpu) -> Stacking:
        return stacking.decide(
            grid,
            load,
            nodes,
            options.data_dir,
            on_gpu,
            options.request,
            by_shared_prefix=options.cache is not None,
        )

    nodes = known_nodes(options.request)
    if nodes is not None and not any(node.gpus >= 1 for node in nodes):
        return best(nodes, stacking.HERE)
    status = nullcontext() if options.as_json else console.status(TEXT)
    if dry_run:
        nodes = nodes_to_run_on(in_process=False, request=options.request)
        with status:
            return best(nodes, stacking.HERE) if local_nodes()[0].gpus >= 1 else None
    on_gpu = stacking.ON_CLUSTER
    if nodes is not None:
        # Before Ray is started, and under the names that they have here.
        opened = stacking.HERE.opens(options.request)
        on_gpu = replace(on_gpu, opens=lambda request: opened)
    with status, connected():
        return best(cluster_nodes(), on_gpu)

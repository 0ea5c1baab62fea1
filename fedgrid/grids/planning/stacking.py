"""`--gpus-per-actor auto`: has each client an actor, or does an actor train a stack of clients at once?

On a GPU small models are bound by the time that calls of torch take, and each process has a CUDA context. One
process that trains S clients as one model (`training.stacked`) saves both. What is faster is measured, with
as many processes on a GPU as the plan of either way has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import Node, Request, at_once
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.grids.planning.gpu_probe import Crowd, probe, probe_on_cluster
from fedgrid.grids.planning.gpu_share import Probe, with_measured_share
from fedgrid.grids.planning.images import expected_images
from fedgrid.grids.planning.workload import Workload, workload_of
from fedgrid.grids.presets.grid import Grid, Stacking
from fedgrid.grids.ray_cluster.cluster import num_to_place, placements
from fedgrid.grids.ray_cluster.gpus import Gpu, open_here, open_on_cluster

WORTHWHILE = 1.1
"""How many times as fast stacks must be, to change the last bits of a grid's numbers for it."""
MOST_IMAGES = 256
"""Of a client that is timed."""
SECONDS = 2.0
"""How long each way is timed, for each kind of run."""
KINDS_NAMED = 3

Load = Callable[[Sequence[str]], Grid]
"""Returns a grid with what was decided, as overrides."""


@dataclass(frozen=True)
class OnGpu:
    """What is measured on a GPU."""

    opens: Callable[[Request], Sequence[Gpu]]
    """Opens all GPUs, and tells of their free memory."""
    probe: Probe


HERE = OnGpu(open_here, probe)
"""Measures on this machine's GPU."""
ON_CLUSTER = OnGpu(open_on_cluster, probe_on_cluster)
"""Measures on a GPU of the cluster that Ray is connected to."""


@dataclass(frozen=True)
class _Way:
    """Runs as they would be placed, one of the two ways."""

    runs: Sequence[RunConfig]
    request: Request
    processes: int
    """On a GPU."""


def decide(
    grid: Grid,
    load: Load,
    nodes: Sequence[Node],
    data_dir: Path,
    on_gpu: OnGpu,
    request: Request,
    *,
    by_shared_prefix: bool,
) -> Stacking:
    """Return how many clients of the grid's runs an actor should train at once on these nodes.

    The grid gives no `training.stacked` of its own; `load` loads it with changes. `request` has the user's
    other settings; `by_shared_prefix` is as in `num_to_place`.

    Raises:
        ConfigError: a GPU cannot be used, or a run of the grid as it is fits on none or cannot be trained.
    """
    if not any(node.gpus >= 1 for node in nodes):
        return Stacking(1, "there is no GPU")
    clients = largest_stack(grid.runs, nodes, by_shared_prefix=by_shared_prefix)
    if clients < 2:
        return Stacking(1, "each client has a GPU of its own")
    try:
        load(Stacking(clients, "").changes)
    except ConfigError as error:
        return Stacking(1, f"these runs cannot be stacked ({_cause(error)})")
    gpus = on_gpu.opens(request)

    def place(runs: Sequence[RunConfig]) -> _Way:
        fitting = with_measured_share(runs, nodes, request, data_dir, on_gpu.probe, gpus)
        waiting = num_to_place(runs, by_shared_prefix=by_shared_prefix)
        places = placements(runs, nodes, fitting, by_shared_prefix=by_shared_prefix).values()
        actors = max(min(at_once(place, nodes), waiting) * place.num_actors for place in places)
        return _Way(runs, fitting, ceil(actors / sum(int(node.gpus) for node in nodes)))

    alone = place(grid.runs)
    try:
        clients, stacked = _fit(clients, lambda changes: place(load(changes).runs))
    except ConfigError as error:
        return Stacking(1, f"not even two stacked clients fit on a GPU ({_cause(error)})")
    try:
        return _compare(clients, alone, stacked, data_dir, on_gpu)
    except (ConfigError, RunError) as error:
        return Stacking(1, f"stacks could not be timed ({_cause(error)})")


def largest_stack(runs: Sequence[RunConfig], nodes: Sequence[Node], *, by_shared_prefix: bool) -> int:
    """Return the stack with which the runs' clients spread evenly over the GPUs, at most one stack a run."""
    gpus = sum(int(node.gpus) for node in nodes)
    side_by_side = num_to_place(runs, by_shared_prefix=by_shared_prefix)
    return min(min(run.clients, ceil(run.clients * side_by_side / gpus)) for run in runs)


def _fit(clients: int, place: Callable[[Sequence[str]], _Way]) -> tuple[int, _Way]:
    """Return the largest stack, of `clients`, half of them and so on, that fits on a GPU."""
    while True:
        try:
            return clients, place(Stacking(clients, "").changes)
        except ConfigError:
            clients //= 2
            if clients < 2:
                raise


@dataclass
class _Kind:
    """Runs that train alike."""

    crowds: tuple[Crowd, ...]
    """Each client alone, and stacked."""
    images: float = 0.0
    """What all of them train."""

    @property
    def name(self) -> str:
        load = self.crowds[0].workload
        return f"{load.model} {'x'.join(map(str, load.inputs.shape[1:] or load.inputs.shape))}"


def _compare(clients: int, alone: _Way, stacked: _Way, data_dir: Path, on_gpu: OnGpu) -> Stacking:
    """Time both ways, weighted by what the runs train."""
    kinds = list(_kinds(alone, stacked, data_dir).values())
    works = on_gpu.probe(tuple(kind.crowds[way] for way in (0, 1) for kind in kinds)).crowds
    speeds = [work.speed for work in works if work is not None]
    if None in works[len(kinds) :]:
        return Stacking(1, f"stacks of {clients} clients run out of the GPU's memory")
    if None in works:
        return Stacking(
            clients,
            f"{alone.processes} processes of one client each run out of the GPU's memory, "
            f"{stacked.processes} of stacks of {clients} do not",
        )
    slow, fast = speeds[: len(kinds)], speeds[len(kinds) :]
    seconds, less = (
        sum(kind.images / speed for kind, speed in zip(kinds, way, strict=True)) for way in (slow, fast)
    )
    times = seconds / less
    said = [
        f"{kind.name} {two:,.0f} images/s in {stacked.processes} process{'es' * (stacked.processes > 1)}, "
        f"{one:,.0f} in {alone.processes}"
        for kind, one, two in zip(kinds, slow, fast, strict=True)
    ]
    more = f", and {len(said) - KINDS_NAMED} more kinds" if len(said) > KINDS_NAMED else ""
    return Stacking(
        clients if times >= WORTHWHILE else 1,
        f"stacks of {clients} clients are {times:.2f} times as fast as a client an actor: "
        f"{'; '.join(said[:KINDS_NAMED])}{more}; a process needs {stacked.request.least_gpu_share:g} of a "
        f"GPU's memory, with one client {alone.request.least_gpu_share:g}",
    )


def _kinds(alone: _Way, stacked: _Way, data_dir: Path) -> dict[Workload, _Kind]:
    kinds: dict[Workload, _Kind] = {}
    for run, in_stack in zip(alone.runs, stacked.runs, strict=True):
        images, asked = expected_images(run, find(run.dataset, data_dir)), run.participation
        load, train = workload_of(run, data_dir), images.train / run.clients
        share = min(1.0, MOST_IMAGES / train)
        tests = (images.test + images.server) / run.clients / 2
        of = tuple(
            Crowd(workload, way.processes, ceil(share * train), ceil(share * tests), SECONDS)
            for workload, way in ((load, alone), (workload_of(in_stack, data_dir), stacked))
        )
        kind = kinds.setdefault(load, _Kind(of))
        kind.images += asked * images.train * run.training.local_epochs * run.training.rounds
    return kinds


def _cause(error: Exception) -> str:
    """Return an error's message without its advice, which is about what the user asked for."""
    return str(error).partition("; ")[0]

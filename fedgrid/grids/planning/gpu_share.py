"""The GPU share of a client actor, from the memory that one was measured to take on a GPU.

An actor takes a CUDA context, what torch reserves while it trains and tests, and its clients' images. The
images are counted, not measured, as if one actor held all of a run: an upper bound that is small beside the
context. Local rules that keep copies of the weights, and fragmentation, have the rest of `SPARE`.

Ray deals out equal shares of every GPU, whatever its size and whoever uses it too. So a share is one of the
GPU that has least free memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from operator import itemgetter
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import GPU_SHARE, Node, Request
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.grids.display.plain import warn
from fedgrid.grids.planning.gpu_probe import Crowd, Probed, probe
from fedgrid.grids.planning.images import expected_images
from fedgrid.grids.planning.workload import Workload, workload_of
from fedgrid.grids.ray_cluster.gpus import STEPS, Gpu, open_here, unmeasured_share

SPARE = 1.25
"""By how much a share is larger than what was measured."""
LABEL_BYTES = 8
GB = 1e9

Probe = Callable[[tuple[Crowd, ...]], Probed]


@dataclass(frozen=True)
class Need:
    """What an actor of a run takes on a GPU, in bytes."""

    run: RunConfig
    room: int
    """Memory for client actors on the GPU that has least."""
    whose: str
    """That memory, in words."""
    context: int
    training: int | None
    """None: more than the GPU has."""
    images: int

    @property
    def share(self) -> float:
        """The share of the GPU that holds it, in hundredths; infinite if none does."""
        if self.training is None:
            return float("inf")
        return ceil(STEPS * SPARE * (self.context + self.training + self.images) / self.room) / STEPS

    def __str__(self) -> str:
        settings = self.run.training
        what = f"{self.run.model} with batches of {settings.batch_size}"
        if settings.stacked > 1:
            what += f", {settings.stacked} clients stacked"
        if self.training is None:
            return f"{what} needs more than {self.whose}"
        return (
            f"{what} takes {_gb(SPARE * (self.context + self.training + self.images))} of {self.whose}, "
            f"a fifth of it to spare (context {_gb(self.context)}, training {_gb(self.training)}, images "
            f"{_gb(self.images)})"
        )


def with_measured_share(
    runs: Sequence[RunConfig],
    nodes: Sequence[Node],
    request: Request,
    data_dir: Path,
    probe: Probe,
    gpus: Sequence[Gpu] = (),
) -> Request:
    """Return the request with a GPU share that every run fits into, and the memory that it is a share of.

    Where the user gives none it is the largest that a run needs, and at least `GPU_SHARE`: more actors on a
    GPU only take turns. Nothing is measured where no GPU would be used; if measuring fails, a warning says
    so, and without a share of the user's it is `GPU_SHARE` of the GPU that has least free memory. Without
    `gpus`, those of the nodes, all memory of the measured one counts as free.

    Raises:
        ConfigError: the share that the user gives is too small, or a run fits on no GPU.
    """
    if request.gpus_per_client == 0 or not runs or not any(node.gpus >= 1 for node in nodes):
        return request
    request = replace(request, gpu_room=min((gpu.free for gpu in gpus), default=0))
    try:
        need = max(_needs(runs, data_dir, probe, gpus), key=lambda need: need.share)
    except RunError as error:
        warn(f"{error}; whether clients fit their share of a GPU is not known, nvidia-smi shows it")
        return replace(request, least_gpu_share=unmeasured_share(gpus))
    if need.share > 1:
        raise ConfigError(
            f"{need}; choose a smaller training.batch_size or training.stacked, or train on the CPU with "
            "--gpus-per-actor 0"
        )
    given = request.gpus_per_client
    if given is not None and given < need.share:
        raise ConfigError(
            f"--gpus-per-actor {given:g} is {_gb(given * need.room)}, but {need}; "
            f"--gpus-per-actor {need.share:g} would do, or leave it out"
        )
    return replace(request, least_gpu_share=max(GPU_SHARE, need.share)) if given is None else request


def with_share_here(
    runs: Sequence[RunConfig], nodes: Sequence[Node], request: Request, data_dir: Path
) -> Request:
    """Return the same by this machine's GPUs; the request as it is if there are none.

    Raises:
        ConfigError: as `with_measured_share`, or a GPU cannot be used.
    """
    import torch

    if not runs or not torch.cuda.is_available():
        return request
    return with_measured_share(runs, nodes, request, data_dir, probe, open_here(request))


def _needs(runs: Sequence[RunConfig], data_dir: Path, probe: Probe, gpus: Sequence[Gpu] = ()) -> list[Need]:
    """Return what an actor of each kind of run takes; runs that train alike are measured once."""
    images: dict[Workload, tuple[int, RunConfig]] = {}
    for run in runs:
        workload, held = workload_of(run, data_dir), expected_images(run, find(run.dataset, data_dir))
        size = ceil((held.train + held.test + held.server) * (prod(workload.inputs.shape) + LABEL_BYTES))
        images[workload] = max((size, run), images.get(workload, (0, run)), key=itemgetter(0))
    probed = probe(tuple(map(Crowd, images)))
    least = min(gpus, key=lambda gpu: gpu.free, default=None)
    room, whose = probed.total, f"the GPU's {_gb(probed.total)}"
    if least is not None:
        room, whose = max(1, least.free), f"the {_gb(least.free)} that are free on {least.name}"
    return [
        Need(run, room, whose, probed.context, None if work is None else work.reserved, size)
        for work, (size, run) in zip(probed.crowds, images.values(), strict=True)
    ]


def _gb(size: float) -> str:
    return f"{size / GB:.2f} GB"

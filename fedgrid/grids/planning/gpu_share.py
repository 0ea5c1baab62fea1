"""Compute the GPU share of a client actor from its training's memory and the memory of the smallest GPU.

Ray deals out equal shares of every GPU, whatever its size. So with GPUs of different sizes a share is one of
the smallest, and an actor on a larger GPU may reserve more than it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.engine.runtime.clients.gpu_errors import extract_first_sentence
from fedgrid.engine.runtime.clients.placement import GPU_SHARE, Node, PlacementRequest
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.planning.images import estimate_images
from fedgrid.grids.planning.workload import Workload, find_workload

if TYPE_CHECKING:
    from torch import Tensor

    from fedgrid.engine.federation.configuration.run_config import RunConfig

CONTEXT_BYTES = 600_000_000
"""Bytes of a process on a GPU before its first tensor: CUDA's context, and the code of torch, cuBLAS and
cuDNN. Assumed, not measured."""
SPARE_FACTOR = 1.25
"""Factor by which a share exceeds the computed bytes: for fragmentation, scratch memory of convolutions, and
local rules that keep more than one copy of the weights."""
FLOAT_BYTES, LABEL_BYTES = 4, 8
"""Bytes of a float32 and of an int64 label."""
MOMENTS = {"sgd": 0, "adam": 2}
"""Number of copies of the weights that an optimizer keeps; SGD with momentum has one."""
SHARE_STEPS = 100
"""Shares are rounded up to multiples of one over this number."""


def add_gpu_share(
    runs: Sequence[RunConfig], nodes: Sequence[Node], request: PlacementRequest, data_dir: Path
) -> PlacementRequest:
    """Add to a request the GPU share that any run's actor needs, at least `GPU_SHARE` and at most 1.

    The request stays as it is if the user gives a share, or no GPU's memory is known. A model whose memory
    cannot be computed, or exceeds the smallest GPU's, is a warning: the run may fit all the same.

    Args:
        runs: the runs.
        nodes: the cluster.
        request: what the user reserves for an actor.
        data_dir: where data sets are, for the shapes of images.

    Returns:
        The request, with a share or unchanged.
    """
    memory = min((node.gpu_memory for node in nodes if node.gpus >= 1 and node.gpu_memory), default=0)
    if request.gpus_per_client is not None or not memory:
        return request
    largest = 0.0
    for load, image_bytes in _find_workloads(runs, data_dir).items():
        what = f"{load.model} with batches of {load.training.batch_size}"
        try:
            size = compute_actor_bytes(compute_training_bytes(load), image_bytes)
        except Exception as error:
            # An own module may do what only works on values, of which torch's meta device has none.
            warn(
                f"what {what} takes of a GPU is not known ({extract_first_sentence(error)}): at least "
                f"{GPU_SHARE:g} of "
                "it, and --gpus-per-actor SHARE gives more"
            )
            continue
        if size > memory:
            warn(
                f"{what} may need {size / 1e9:.1f} GB, and the smallest GPU has {memory / 1e9:.1f}: each "
                "actor has a whole one; a smaller training.batch_size needs less"
            )
        largest = max(largest, size)
    # Rounded up, so that the actors whose shares add up to a GPU also fit into its memory.
    share = ceil(SHARE_STEPS * largest / memory) / SHARE_STEPS
    return replace(request, least_gpu_share=min(1.0, max(GPU_SHARE, share)))


def compute_actor_bytes(training: int, images: int) -> float:
    """Compute the GPU bytes of an actor from those of its training and its clients' images."""
    return SPARE_FACTOR * (CONTEXT_BYTES + training + images)


@cache
def compute_training_bytes(load: Workload) -> int:
    """Compute the bytes that training a batch and testing take on a GPU, without using one.

    With P parameters that train, of 4 bytes each, S clients stacked and batches of B examples:

        S * (4 * P * (2 + M) + max(A + 2 * L, 3 * L * 128 / B, 2 * 4 * P))

    Weights, gradients and the M moments of the optimizer (SGD 0, with momentum 1; Adam 2) exist all the time.
    The largest of these comes on top: the memory of training, of a test, or of two copies of the weights
    while a state is read. A are the bytes that autograd keeps of a batch for the backward pass, each tensor
    once and without the parameters; they are counted in a forward pass on torch's meta device, whose tensors
    have a shape and no memory. L is the largest of these tensors: in the backward pass there are two
    gradients of its size, and in a test, of 128 examples and without autograd, a layer's input, its output
    and the next one's. In bfloat16 A and L are halved, and there is a copy of the weights of 2 bytes each.

    Raises:
        Exception: whatever the model raises on the meta device.
    """
    import torch

    from fedgrid.engine.federation.models.flat_vectors import build_blank, find_parameters
    from fedgrid.engine.federation.training.evaluation import TEST_BATCH
    from fedgrid.engine.federation.training.task import compute_loss

    settings, size = load.training, load.training.batch_size
    module = build_blank(load.model, load.inputs, load.num_classes).to("meta").train()
    parameters = sum(one.numel() for one in find_parameters(module).values())
    constants = [one.untyped_storage() for one in (*module.parameters(), *module.buffers())]
    # By storage, not by tensor: autograd keeps several views of one tensor, whose memory counts once.
    storages = {id(storage): storage for storage in constants}

    def record_tensor(tensor: Tensor) -> Tensor:
        storages[id(tensor.untyped_storage())] = tensor.untyped_storage()
        return tensor

    kind = torch.int64 if load.inputs.kind == "tokens" else torch.float32
    batch = torch.empty(size, *load.inputs.shape, dtype=kind, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(record_tensor, lambda tensor: tensor):
        outputs = module(batch)
        compute_loss(outputs, torch.empty(size, dtype=torch.int64, device="meta"))
    for storage in constants:
        storages.pop(id(storage), None)
    sizes = [storage.nbytes() for storage in storages.values()]
    largest = max(sizes, default=0)
    activations = max(sum(sizes) + 2 * largest, 3 * largest * TEST_BATCH / size)
    if settings.precision == "bfloat16":
        activations = activations / 2 + 2 * parameters
    copies = 2 + MOMENTS[settings.optimizer] + bool(settings.momentum)
    weights = FLOAT_BYTES * parameters
    return ceil(settings.stacked * (weights * copies + max(activations, 2 * weights)))


def _find_workloads(runs: Sequence[RunConfig], data_dir: Path) -> dict[Workload, int]:
    """Find what the runs train, each workload with the bytes of the images of its largest run.

    They are counted as if one actor held all images of a run: an upper bound.
    """
    image_bytes: dict[Workload, int] = {}
    for run in runs:
        load, images = find_workload(run, data_dir), estimate_images(run, find_dataset(run.dataset, data_dir))
        count = images.train + images.test + images.server
        image_bytes[load] = max(image_bytes.get(load, 0), ceil(count * (load.inputs.num_bytes + LABEL_BYTES)))
    return image_bytes

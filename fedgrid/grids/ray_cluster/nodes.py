"""List the nodes that a grid runs on: this machine before Ray has started, or those of a cluster."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from warnings import catch_warnings

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.gpu_errors import extract_first_sentence
from fedgrid.engine.runtime.clients.machine import find_driver_version
from fedgrid.engine.runtime.clients.placement import Node, PlacementRequest
from fedgrid.grids.display.plain_console import warn

MIG_PREFIX = "MIG-"
"""Beginning of the name of a part of a GPU."""
ANSWER_SECONDS = 60.0
"""Seconds to wait for nodes to report their GPUs: they start a process, and import torch."""
CPU_ADVICE = "--gpus-per-actor 0, or --in-process for an analysis, works on the CPU"
"""Advice where a GPU cannot be used."""


def read_local_nodes() -> tuple[Node, ...]:
    """Read the resources of this machine, without starting Ray.

    Only GPUs that torch can use are counted: NVIDIA's driver also lists those for which it is too old.
    """
    from ray._private.utils import get_num_cpus

    cpus = float(get_num_cpus(override_docker_cpu_warning=True))
    if not (gpus := count_usable_gpus(count_listed_gpus())):
        return (Node(cpus, 0.0),)
    return (Node(cpus, float(gpus), _read_main_memory(), find_smallest_gpu(gpus)),)


def read_cluster_nodes() -> tuple[Node, ...]:
    """Read the live nodes of the cluster that Ray is connected to."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    gpus = {node["NodeID"]: int(has) for node in nodes if (has := node["Resources"].get("GPU"))}
    memory = _read_gpu_memory(tuple(gpus.items())) if gpus else {}
    return tuple(
        Node(
            has.get("CPU", 0.0),
            has.get("GPU", 0.0),
            has.get("memory") if has.get("GPU") else None,
            memory.get(node["NodeID"]),
        )
        for node in nodes
        for has in (node["Resources"],)
    )


@cache
def _read_gpu_memory(gpus: tuple[tuple[str, int], ...]) -> Mapping[str, float | None]:
    """Request from nodes the bytes of their smallest GPU; one that does not answer is left out.

    `gpus` are the nodes' ids in Ray, each with its number of GPUs.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # A task without resources waits for none, and sees the GPUs that the node sees.
    remote_function = ray.remote(num_cpus=0, max_retries=0)(find_smallest_gpu)
    requests = {
        remote_function.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            number
        ): node
        for node, number in gpus
    }
    answers, _ = ray.wait([*requests], num_returns=len(requests), timeout=ANSWER_SECONDS)
    memory: dict[str, float | None] = {}
    for answer in answers:
        with suppress(ray.exceptions.RayError):
            memory[requests[answer]] = ray.get(answer)
    return memory


def find_smallest_gpu(number: int) -> float | None:
    """Find the bytes of the smallest of the first `number` GPUs here, none of which is opened.

    None if torch can use none.
    """
    import torch

    # A process sees at most one of the parts of a GPU (MIG).
    seen = range(min(number, torch.cuda.device_count()))
    try:
        return float(min(torch.cuda.get_device_properties(at).total_memory for at in seen))
    except (RuntimeError, ValueError):
        # The first actor that is to start there reports what is wrong with the GPU.
        return None


def check_gpus(request: PlacementRequest) -> None:
    """Check that GPUs which this machine lists can be used, unless the request is for none.

    A torch that is built for CPUs is taken for a wish to use them: that is a warning.

    Raises:
        ConfigError: torch cannot use them; names the cause.
    """
    if request.gpus_per_client == 0 or not (listed := count_listed_gpus()) or count_usable_gpus(listed):
        return
    import torch

    here = f"{listed} GPU{'s are' if listed > 1 else ' is'} here"
    if torch.version.cuda is None and torch.version.hip is None:
        warn(f"{here}, but torch {torch.__version__} is built for CPUs: the CPU does the work")
        return
    them = "them" if listed > 1 else "it"
    raise ConfigError(f"{here}, but torch cannot use {them}: {explain_unusable_gpus()}; {CPU_ADVICE}")


def explain_unusable_gpus() -> str:
    """Explain in one line why torch cannot use the GPUs of this machine, with the versions that matter."""
    import torch

    built = f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, driver {find_driver_version()}"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return f"{extract_first_sentence(error)} ({built})"
    return f"no cause given ({built})"


def _read_main_memory() -> float:
    """Read the bytes of main memory that Ray would deal out: the free ones, less its object store."""
    from ray._private.utils import estimate_available_memory, resolve_object_store_memory

    free = estimate_available_memory()  # type: ignore[no-untyped-call]
    return float(free - resolve_object_store_memory(free))


def count_listed_gpus() -> int:
    """Count the GPUs that the driver lists and the environment shows to this process.

    Parts of GPUs (MIG) are those that the environment names: the driver lists only whole ones.
    """
    from ray._private.accelerators import get_accelerator_manager_for_resource

    manager = get_accelerator_manager_for_resource("GPU")
    if manager is None:
        return 0
    listed = manager.get_current_node_num_accelerators()
    shown = manager.get_current_process_visible_accelerator_ids()
    if shown is None:
        return listed
    are_parts = any(name.startswith(MIG_PREFIX) for name in shown)
    return len(shown) if are_parts else min(listed, len(shown))


def count_usable_gpus(listed: int) -> int:
    """Count the listed GPUs that torch can use."""
    if not listed:
        return 0
    # The import takes a second of the processor, which a machine without a GPU need not wait for.
    import torch

    with catch_warnings(action="ignore"):
        # The warning's cause is what `explain_unusable_gpus` explains in one line.
        if not torch.cuda.is_available():
            return 0
    # A process sees one part of a GPU at most, but each actor may have another.
    return listed if MIG_PREFIX in os.environ.get("CUDA_VISIBLE_DEVICES", "") else torch.cuda.device_count()

"""The cores and GPUs for jobs; GPUs are opened before the first job, or each job would fail on its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedgrid.engine.runtime.clients.placement import Request
from fedgrid.grids.ray_cluster.cluster import LOCAL, address, connected, nodes_to_run_on
from fedgrid.grids.ray_cluster.gpus import Gpu, open_here, open_on_cluster
from fedgrid.grids.ray_cluster.nodes import check_gpus
from fedgrid.grids.ray_cluster.token import send_token

REQUEST, NO_GPU = Request(), Request(gpus_per_client=0)


def open_before() -> Sequence[Gpu]:
    """Open the GPUs of this machine, if Ray is to be started here; none if there are none.

    Raises:
        ConfigError: one cannot be used; names it and the cause.
    """
    send_token()
    import ray

    if ray.is_initialized() or address() != LOCAL:
        return ()
    check_gpus(REQUEST)
    return open_here(REQUEST)


@contextmanager
def on_ray(opened: Sequence[Gpu], *, on_gpu: bool) -> Iterator[Sequence[Gpu]]:
    """Connect to Ray; yield the GPUs for jobs, opened there if not here before.

    Raises:
        ConfigError: as `open_before`.
        RunError: the cluster or a node does not answer.
    """
    with connected():
        yield opened or (open_on_cluster(REQUEST) if on_gpu else ())


def cores(*, in_process: bool) -> int:
    """Return how many cores there are for jobs; GPUs are not looked at."""
    return max(1, sum(int(node.cpus) for node in nodes_to_run_on(in_process=in_process, request=NO_GPU)))

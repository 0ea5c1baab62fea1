"""Work on a GPU of the cluster before a grid starts there: a Ray task that reserves next to nothing."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.runtime.clients.gpu_errors import telling

SLIVER = 0.01
"""The share of a GPU that the task reserves."""

P = ParamSpec("P")
T = TypeVar("T")


def on_a_gpu(work: Callable[P, T], what: str, seconds: float, *given: P.args, **settings: P.kwargs) -> T:
    """Return what `work` returns in a process that Ray shows one GPU.

    Args:
        work: imports all it needs.
        what: names it in messages, as in `measuring the memory of a client`.
        seconds: to wait for a GPU and the result.
        given, settings: what `work` gets.

    Raises:
        FedgridError: as `work` does.
        RunError: no GPU is free in time, the process dies, or `work` raises another error.
    """
    import ray

    # A worker that stayed for further tasks would keep its CUDA context.
    # No CPU: all of them may be reserved.
    once = ray.remote(num_cpus=0, num_gpus=SLIVER, max_retries=0, max_calls=1)
    task = once(work).remote(*given, **settings)
    try:
        found: T = ray.get(task, timeout=seconds)
    except ray.exceptions.GetTimeoutError as error:
        ray.cancel(task, force=True)
        raise RunError(f"{what}: no GPU was free, or no answer, within {seconds:g} s") from error
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, FedgridError):
            raise cause from error
        raise RunError(f"{what} failed ({telling(cause)})") from error
    return found

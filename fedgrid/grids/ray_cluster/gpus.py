"""GPUs, opened before anything starts: what would stop client actors stops here, in one line.

A process opens each GPU as a client actor does, which sees that one alone. Where actors are to share it, a
second one opens it meanwhile: in exclusive mode a GPU takes one process, unless MPS stands between.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import wait
from subprocess import PIPE, Popen, TimeoutExpired
from time import monotonic
from typing import Any, Self

from fedgrid.engine.federation.errors import ConfigError, FedgridError, RunError
from fedgrid.engine.runtime.clients.gpu_errors import may_pass, raised, telling
from fedgrid.engine.runtime.clients.placement import GPU_SHARE, Request
from fedgrid.grids.ray_cluster.nodes import ON_THE_CPU, local_nodes, shown_by, shown_gpus

SECONDS = 120.0
"""For a process to import torch and to open a GPU: seconds, unless torch lies on a slow disk."""
TO_END = 5.0
"""Seconds for a process that is killed to end."""
STEPS = 100
"""Shares are rounded up to hundredths."""
COMMAND = (sys.executable, "-P", "-m", "fedgrid.grids.ray_cluster.open_gpu")

Answer = Mapping[str, Any]
"""Of a process about its GPU: `free`, `total` and `model`, or the `cause` why it cannot be used."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that can be used, and its memory in bytes."""

    name: str
    """As in `GPU 1`, or `GPU 1 of node 10.0.0.3`."""
    free: int
    """For client actors; the context of the process that asked is taken off."""
    total: int
    model: str = "unknown model"


def open_here(request: Request) -> tuple[Gpu, ...]:
    """Open the GPUs of this machine that torch can use; none if there are none, or the request is for none.

    Raises:
        ConfigError: one cannot be used; names it and the cause.
    """
    if request.gpus_per_client == 0 or not (number := int(local_nodes()[0].gpus)):
        return ()
    return open_all(shown_gpus(number), shared=_is_shared(request))


def open_on_cluster(request: Request, command: Sequence[str] | None = None) -> tuple[Gpu, ...]:
    """Open the GPUs that Ray has on the cluster to which this process is connected, on all nodes at a time.

    None where another driver uses some: they work then, and what its actors take of them Ray has reserved.

    Raises:
        ConfigError: as `open_here`.
        RunError: a node does not answer.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    numbers = {node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in nodes}
    free = ray.available_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
    if request.gpus_per_client == 0 or free < sum(numbers.values()):
        return ()
    # Without resources it waits for none, and sees what the node does.
    task = ray.remote(num_cpus=0, max_retries=0)(_open_given)
    tasks = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            number, f" of node {node['NodeManagerAddress']}", _is_shared(request), command
        )
        for node in nodes
        if (number := numbers[node["NodeID"]])
    ]
    try:
        return tuple(gpu for gpus in ray.get(tasks, timeout=2 * SECONDS) for gpu in gpus)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, FedgridError):
            raise cause from error
        raise RunError(
            f"a node did not open its GPUs ({telling(cause)}); `ray status` shows nodes"
        ) from error


def _open_given(number: int, of: str, shared: bool, command: Sequence[str] | None) -> tuple[Gpu, ...]:
    """Open the first GPUs of a node, which are those that Ray deals out."""
    return open_all(shown_gpus(number), of=of, shared=shared, command=command)


def open_all(
    gpus: Sequence[str],
    *,
    of: str = "",
    shared: bool = True,
    command: Sequence[str] | None = None,
) -> tuple[Gpu, ...]:
    """Open GPUs, all at a time; takes some seconds.

    Args:
        gpus: as `CUDA_VISIBLE_DEVICES` names them.
        of: follows their names.
        shared: whether more than one actor may be on a GPU.
        command: what opens one; None: `COMMAND`.

    Raises:
        ConfigError: one cannot be used; names it and the cause.
    """
    with ExitStack() as stack:
        first, *second = (
            {gpu: stack.enter_context(_Process(gpu, command or COMMAND)) for gpu in gpus}
            for _ in range(1 + shared)
        )
        answers = _ask_all(first)
        if failed := [gpu for gpu in gpus if "cause" in answers[gpu]]:
            raise _unusable(gpus, failed, of, answers[failed[0]]["cause"])
        again = _ask_all(second[0]) if second else {}
    if alone := [gpu for gpu in again if "cause" in again[gpu]]:
        raise ConfigError(
            f"{_name_gpus(alone)}{of} cannot be used by two processes at a time: {again[alone[0]]['cause']}; "
            f"the compute mode `default` (nvidia-smi --compute-mode=0) or MPS admits several, "
            "--gpus-per-actor 1 gives each actor a whole one, and --in-process takes one process"
        )
    return tuple(
        Gpu(f"{_name_gpus([gpu])}{of}", answer["free"], answer["total"], answer.get("model", "unknown model"))
        for gpu in gpus
        for answer in (answers[gpu],)
    )


def unmeasured_share(gpus: Sequence[Gpu]) -> float:
    """Return `GPU_SHARE` of the whole of each GPU as a share of what is free on the fullest one."""
    crowded = max((gpu.total / max(1, gpu.free) for gpu in gpus), default=1.0)
    return min(1.0, ceil(STEPS * GPU_SHARE * crowded) / STEPS)


def _unusable(gpus: Sequence[str], failed: Sequence[str], of: str, cause: str) -> ConfigError:
    others = "; other processes use it: nvidia-smi shows them" if may_pass(cause) else ""
    rest = ",".join(gpu for gpu in gpus if gpu not in failed)
    where = " where Ray is started there" if of else ""
    without = f"{shown_by()}={rest}{where} leaves it out, " if rest else ""
    return ConfigError(f"{_name_gpus(failed)}{of} cannot be used: {cause}{others}; {without}{ON_THE_CPU}")


def _name_gpus(gpus: Sequence[str]) -> str:
    return f"GPU{'s' * (len(gpus) > 1)} {', '.join(gpus)}"


def _is_shared(request: Request) -> bool:
    return request.gpus_per_client is None or request.gpus_per_client <= 1 / 2


def _ask_all(processes: Mapping[str, "_Process"]) -> Mapping[str, Answer]:
    """Return what each process says of its GPU; all open theirs at the same time."""
    end = monotonic() + SECONDS
    for process in processes.values():
        process.ask()
    return {gpu: process.answer(end) for gpu, process in processes.items()}


class _Process:
    """A process that sees one GPU, opens it when it is asked to, and keeps it open to the end of a `with`."""

    def __init__(self, gpu: str, command: Sequence[str]) -> None:
        environment = os.environ | {shown_by(): gpu, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    def __enter__(self) -> Self:
        return self

    def ask(self) -> None:
        assert self._process.stdin is not None
        # It may be dead, which its answer says.
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    def answer(self, end: float) -> Answer:
        assert self._process.stdout is not None
        if not wait([self._process.stdout.fileno()], max(0.0, end - monotonic())):
            return {"cause": f"no answer within {SECONDS:g} s"}
        if line := self._process.stdout.readline():
            answer: Answer = json.loads(line)
            return answer
        said = self._process.communicate(timeout=TO_END)[1].decode(errors="replace").strip()
        return {"cause": raised(said) if said else f"its process ended with code {self._process.returncode}"}

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        # One that hangs in the driver cannot be waited for.
        with suppress(TimeoutExpired):
            self._process.communicate(timeout=TO_END)

"""What is done with pretended GPUs on a Ray cluster of two nodes, printed as JSON by `main`.

The first node has a CPU and the GPUs 3 and 5, the second a CPU and the GPU 0. It needs a process of its own,
as one has one cluster at a time, and must be imported there, as Ray's workers import it.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any
from unittest.mock import patch

import ray
from ray._private.node import Node
from ray.cluster_utils import Cluster

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import Placement, Request
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Context, Job
from fedgrid.grids.analyses.execute import Ended, run_on_ray
from fedgrid.grids.planning import gpu_probe
from fedgrid.grids.ray_cluster.gpus import open_on_cluster
from fedgrid.grids.ray_cluster.local import STAND_INS
from tests.helpers.pretended_gpu import COMMAND
from tests.helpers.where_am_i import WhereAmI

GB = 10**9
GPUS = {"3": GB, "5": 2 * GB, "0": 3 * GB}
"""Name -> free bytes."""
JOBS = 8
WAIT = 60.0
VISIBLE = "CUDA_VISIBLE_DEVICES"


@contextmanager
def cluster() -> Iterator[None]:
    """Start Ray on two nodes and connect to it."""
    pretended = {name: {"free": free, "total": 4 * GB} for name, free in GPUS.items()}
    os.environ["PRETENDED"] = json.dumps(pretended)
    each = {"num_cpus": 1, "memory": 4 * GB}
    first = {"num_gpus": 2, "env_vars": {VISIBLE: "3,5"}, "include_dashboard": False}
    with patch.multiple(Node, **STAND_INS):
        nodes = Cluster(initialize_head=True, head_node_args={**each, **first})
        nodes.add_node(num_gpus=1, env_vars={VISIBLE: "0,7"}, **each)
    ray.init(nodes.address, log_to_driver=False, logging_level="error")
    try:
        yield
    finally:
        ray.shutdown()
        nodes.shutdown()


@contextmanager
def reserved(bundles: list[dict[str, float]]) -> Iterator[dict[str, float]]:
    """Reserve resources, which Ray tells a little later; yield how much less is free; free them again."""
    bundle = bundles[-1]
    before = free(bundle)
    group = ray.util.placement_group(bundles)
    until(lambda: free(bundle) != before)
    try:
        yield {name: before[name] - left for name, left in free(bundle).items()}
    finally:
        ray.util.remove_placement_group(group)
        until(lambda: free(bundle) == before)


def free(names: Iterable[str]) -> dict[str, float]:
    """Return what of some resources is not reserved."""
    has = ray.available_resources()
    return {name: has.get(name, 0.0) for name in names}


def until(is_so: Callable[[], bool]) -> None:
    """Ask again and again, for at most a minute."""
    end = monotonic() + WAIT
    while not is_so():
        if monotonic() > end:
            raise TimeoutError("Ray does not reserve, or does not free")


def opened() -> list[tuple[str, int]]:
    """Return name and free memory of the cluster's GPUs, in order of their names."""
    return sorted((gpu.name, gpu.free) for gpu in open_on_cluster(Request(), COMMAND))


def refused() -> str:
    """Return the line in which a GPU is refused that cannot be used, and is of one node."""
    try:
        open_on_cluster(Request(), (*COMMAND, "5"))
    except ConfigError as error:
        return str(error)
    return "not refused"


def measured_on() -> str:
    """Return on which GPU clients were measured, while all CPUs are reserved."""

    def probe(crowds: object) -> Any:
        # Not a `Probed`: the task's process would import torch for it.
        return os.environ[VISIBLE]

    gpu_probe.probe = probe
    gpu_probe.TIMEOUT = WAIT / 3
    with reserved([{"CPU": 1}] * 2):
        return str(gpu_probe.probe_on_cluster(()))


def unmeasured() -> str:
    """Return the line that is said where the process dies in which clients are measured."""
    gpu_probe.probe = lambda crowds: os._exit(1)
    return error_of_probe()


def untrainable() -> str:
    """Return what is said where a model cannot be trained in the process in which clients are measured."""

    def refuse(crowds: object) -> None:
        raise ConfigError("training.batch_size=1 does not work with BatchNorm")

    gpu_probe.probe = refuse
    return error_of_probe()


def error_of_probe() -> str:
    """Return kind and message of the error that measuring clients raises."""
    gpu_probe.probe_on_cluster.cache_clear()
    try:
        gpu_probe.probe_on_cluster(())
    except (ConfigError, RunError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def jobs_done_on() -> dict[str, Any]:
    """Return process -> the GPUs on which it has done jobs, and how often."""
    run = complete({"algorithm": "fedavg"}, Path("nowhere"))
    jobs = [Job(run, None, f"where-{number}", 1) for number in range(JOBS)]
    ended: list[Ended] = []
    with TemporaryDirectory(prefix="gpus-on-ray-") as folder:
        storage, at_work = Path(folder, "storage"), Path(folder, "at-work")
        at_work.mkdir()
        context = Context(Storage(storage), at_work, {run.run_id: None})
        run_on_ray(WhereAmI(), jobs, context, "token", lambda: None, ended.append)
    found: dict[str, list[str]] = defaultdict(list)
    for each in ended:
        process, gpu, device = str(each.cause).split()
        assert device == "cuda"
        found[process].append(gpu)
    return found


def main() -> None:
    """Print what was found."""
    found: dict[str, Any] = {}
    with cluster():
        with reserved([{"CPU": 1}] * 2):
            found["opened without a free CPU"] = opened()
        found["refused"] = refused()
        with reserved([{"GPU": 0.05}]):
            found["opened beside another driver"] = opened()
        with reserved(Placement(1, 0.5, 0.25, 1e9).bundles()) as taken:
            found["a client actor reserves"] = taken
        found["measured on"] = measured_on()
        found["unmeasured"] = unmeasured()
        found["untrainable"] = untrainable()
        found["jobs"] = jobs_done_on()
    print(json.dumps(found))

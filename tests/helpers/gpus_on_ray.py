"""Checks with pretended GPUs on a Ray cluster of two nodes, printed as JSON by `main`.

The first node has a CPU and the GPUs 5 and 3, the second a CPU and the GPU 2, and sees the GPU 1 too. It
needs a process of its own, as one has one cluster at a time, and must be imported there, as Ray's workers
import it.
"""

import json
import logging
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

from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Context, Job
from fedgrid.grids.analyses.execute import JobEnd, run_on_ray
from fedgrid.grids.ray_cluster import nodes
from fedgrid.grids.ray_cluster.local import STAND_INS
from tests.helpers.where_am_i import WhereAmI

GB = 10**9
JOBS = 8
WAIT = 60.0
VISIBLE = "CUDA_VISIBLE_DEVICES"


@contextmanager
def start_cluster() -> Iterator[None]:
    """Start Ray on two nodes and connect to it."""
    each: dict[str, Any] = {"num_cpus": 1, "memory": 4 * GB}
    first = {"num_gpus": 2, "env_vars": {VISIBLE: "5,3"}, "include_dashboard": False}
    stand_ins: dict[str, Any] = {**STAND_INS}
    with patch.multiple(Node, **stand_ins):
        machines = Cluster(initialize_head=True, head_node_args={**each, **first})
        machines.add_node(num_gpus=1, env_vars={VISIBLE: "2,1"}, **each)
    ray.init(machines.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()
        machines.shutdown()


@contextmanager
def reserve_bundles(bundles: list[dict[str, float]]) -> Iterator[dict[str, float]]:
    """Reserve resources, and yield by how much less is free; free them again.

    Ray counts what is free a little later.
    """
    bundle = bundles[-1]
    before = read_free(bundle)
    group = ray.util.placement_group(bundles)
    wait_until(lambda: read_free(bundle) != before)
    try:
        yield {name: before[name] - left for name, left in read_free(bundle).items()}
    finally:
        ray.util.remove_placement_group(group)
        wait_until(lambda: read_free(bundle) == before)


def read_free(names: Iterable[str]) -> dict[str, float]:
    """Read what of some resources is not reserved."""
    has = ray.available_resources()
    return {name: has.get(name, 0.0) for name in names}


def wait_until(is_so: Callable[[], bool]) -> None:
    """Check again and again, for at most a minute."""
    end = monotonic() + WAIT
    while not is_so():
        if monotonic() > end:
            raise TimeoutError("Ray does not reserve, or does not free")


def assume_memory(number: int) -> float:
    """Assume as many GB as the smallest number by which the environment names this node's first GPUs."""
    return GB * min(map(float, os.environ[VISIBLE].split(",")[:number]))


def list_job_gpus() -> dict[str, Any]:
    """List, by process, the GPUs on which it has done jobs."""
    run = complete_config({"algorithm": "fedavg"}, Path("nowhere"))
    jobs = [Job(run, None, f"where-{number}", 1) for number in range(JOBS)]
    ended: list[JobEnd] = []
    with TemporaryDirectory(prefix="gpus-on-ray-") as folder:
        storage, at_work = Path(folder, "storage"), Path(folder, "at-work")
        at_work.mkdir()
        runs: dict[str, Any] = {run.run_id: None}
        context = Context(Storage(storage), at_work, runs)
        run_on_ray(WhereAmI(), jobs, context, "token", lambda: None, ended.append)
    gpus: dict[str, list[str]] = defaultdict(list)
    for each in ended:
        process, gpu, device = str(each.cause).split()
        assert device == "cuda"
        gpus[process].append(gpu)
    return gpus


def main() -> None:
    """Print the results of all checks."""
    results: dict[str, Any] = {}
    with start_cluster():
        with reserve_bundles([{"CPU": 1}] * 2), patch.object(nodes, "find_smallest_gpu", assume_memory):
            results["memory of GPUs"] = sorted(
                (node.gpus, node.gpu_memory) for node in nodes.read_cluster_nodes()
            )
        nodes._read_gpu_memory.cache_clear()
        with reserve_bundles(Placement(1, 0.5, 0.25, 1e9).build_bundles()) as taken:
            results["a client actor reserves"] = taken
        results["jobs"] = list_job_gpus()
    print(json.dumps(results))

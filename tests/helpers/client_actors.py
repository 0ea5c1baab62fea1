"""Client actors on the session's Ray cluster, driven by the test itself."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.clients.ray_pool import RayPool

CPUS = 0.1
"""An actor's share: little, so that all processes fit on the session's four logical CPUs."""


@contextmanager
def start_client_actors(num_actors: int) -> Iterator[RayPool]:
    """Reserve a placement group and yield a pool of `num_actors` actors in it."""
    placement = Placement(num_actors, CPUS, 0.0)
    group = ray.util.placement_group(placement.build_bundles(), strategy="PACK")
    ray.get(group.ready())
    try:
        yield RayPool(group, placement)
    finally:
        ray.util.remove_placement_group(group)


def list_pids(pool: RayPool) -> list[int]:
    """List the process ids of a pool's actors."""
    return ray.get([actor.__ray_call__.remote(lambda _: os.getpid()) for actor in pool._actors])

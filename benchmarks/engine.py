"""Start one run on Ray without Tune: its client actors, and the server in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.runtime.clients.placement import PlacementRequest, plan_placement
from fedgrid.engine.runtime.clients.ray_pool import RayPool
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.ray_cluster.cluster import connect_to_ray
from fedgrid.grids.ray_cluster.nodes import read_cluster_nodes


@contextmanager
def start_run(run: RunConfig, storage: Path, data_dir: Path) -> Iterator[Callable[[], RoundRecord]]:
    """Start `run` on as many actors as fit; yield a function that runs its next round.

    Args:
        run: what to run.
        storage: folder for its files, made if missing.
        data_dir: folder with the images of data sets.
    """
    with connect_to_ray():
        placement = plan_placement(run.clients, read_cluster_nodes(), PlacementRequest())
        group = ray.util.placement_group(placement.build_bundles(), strategy="PACK")
        ray.get(group.ready())
        actors = RayPool(group, placement)
        # The options of a run under Tune (`grids.execution.executors`).
        session = Session(actors, data_dir, threads=placement.num_actors, write_behind=True)
        try:
            session.open(run, Storage.from_text(storage))
            yield session.next_round
        finally:
            ray.util.remove_placement_group(group)

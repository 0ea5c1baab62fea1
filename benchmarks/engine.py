"""One run on Ray without Tune: a server actor and its clients, for benchmarks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

from fedgrid.engine.clients.placement import Request, cluster_nodes, plan
from fedgrid.engine.records import RoundRecord
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.server import reserve, start_server
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.planning.cluster import connected


@contextmanager
def started(run: RunConfig, storage: Path, data_dir: Path) -> Iterator[Callable[[], RoundRecord]]:
    """Start `run` on as many actors as fit; yield a function that runs its next round."""
    with connected():
        placement = plan(run.clients, cluster_nodes(), Request())
        server = start_server(reserve(placement), placement, data_dir)
        ray.get(server.open.remote(run, Storage.of(storage)))
        yield lambda: ray.get(server.next_round.remote())

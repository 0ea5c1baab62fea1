"""The server of one run after another: drives the rounds, its client actors beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from fedgrid.engine.clients.placement import SERVER_CPUS, Placement
from fedgrid.engine.clients.ray_pool import RayPool
from fedgrid.engine.errors import RunError
from fedgrid.engine.plugins import active
from fedgrid.engine.plugins.source import Source
from fedgrid.engine.records import RoundRecord
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage

GROUP_TIMEOUT = 120.0


class Server:
    """A `Session` whose clients are Ray actors in the server's own placement group."""

    def __init__(
        self,
        group: PlacementGroup,
        placement: Placement,
        data_dir: Path,
        store: CacheOptions | None = None,
        plugins: Sequence[Source] = (),
    ) -> None:
        """Start the client actors; `plugins` are those that the runs to come may name."""
        active.know(plugins)
        self._pool = RayPool(group, placement)
        self._session = Session(
            self._pool, data_dir, threads=placement.num_actors, write_behind=True, store=store
        )

    def open(self, config: RunConfig, storage: Storage) -> int:
        """Start or continue a run; return the number of rounds it has already."""
        return self._session.open(config, storage)

    def next_round(self) -> RoundRecord:
        """Run and keep one round."""
        return self._session.next_round()

    def settle(self) -> None:
        """Wait until the last round is written."""
        self._session.settle()

    def client_pids(self) -> list[int]:
        """Return the process ids of the client actors."""
        return self._pool.pids()


def reserve(placement: Placement) -> PlacementGroup:
    """Reserve a server and its clients together, so that two runs never starve each other.

    Raises:
        RunError: if the cluster does not grant it in two minutes.
    """
    group: PlacementGroup = ray.util.placement_group(placement.bundles(), strategy="PACK")
    if not group.wait(GROUP_TIMEOUT):
        ray.util.remove_placement_group(group)
        raise RunError(
            f"waited {GROUP_TIMEOUT:g} s for {placement.num_actors} client actors with "
            f"{placement.cpus_per_actor:g} CPU and {placement.gpus_per_actor:g} GPU each: other jobs hold "
            "the cluster; wait for them or ask for less (--clients-per-actor)"
        )
    return group


def start_server(
    group: PlacementGroup, placement: Placement, data_dir: Path, plugins: Sequence[Source] = ()
) -> Any:
    """Start a server as an actor of its own in bundle 0 of `group`, for a notebook or a benchmark."""
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    actor = ray.remote(max_restarts=0, num_cpus=SERVER_CPUS, scheduling_strategy=strategy)(Server)
    return actor.remote(group, placement, data_dir, plugins=plugins)

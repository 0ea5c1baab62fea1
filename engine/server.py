"""The server of a run: drives its rounds, its training, clustering and aggregation, on a Ray cluster.

A server and its client actors share a placement group. Under Ray Tune the server is a trial's actor
(`grids.execution.server_trainable`); `start_server` makes an actor of it without Tune.
"""

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
from fedgrid.engine.plugins.source import PluginSource
from fedgrid.engine.round_cache.files import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage

GROUP_TIMEOUT = 120.0
"""Seconds."""


class Server(Session):
    """A session whose clients are Ray actors. It runs one run after another with the same actors."""

    def __init__(
        self,
        actors: RayPool,
        data_dir: Path,
        cache: CacheOptions | None = None,
        plugins: Sequence[PluginSource] = (),
        accept_changes: bool = False,
    ) -> None:
        """Serve the clients of `actors`.

        Args:
            cache: how rounds are taken from the round cache; None computes every round.
            plugins: those that the runs to come may name.
            accept_changes: as of `Session`.
        """
        active.know(plugins)
        self._actors = actors
        super().__init__(
            actors,
            data_dir,
            threads=actors.placement.num_actors,
            write_behind=True,
            cache=cache,
            accept_changes=accept_changes,
        )

    def open(self, config: RunConfig, storage: Storage) -> int:
        """Start or continue a run, as `Session.open`; the tasks of the client actors have its name and id."""
        self._actors.run = f"{config.name}-{config.run_id}"
        return super().open(config, storage)

    def client_pids(self) -> list[int]:
        """Return the process ids of the client actors."""
        return self._actors.pids()


class ServerActor(Server):
    """A server that starts its client actors in `group`, which is reserved for `placement`."""

    def __init__(
        self,
        group: PlacementGroup,
        placement: Placement,
        data_dir: Path,
        plugins: Sequence[PluginSource] = (),
    ) -> None:
        super().__init__(RayPool(group, placement), data_dir, plugins=plugins)


def reserve(placement: Placement) -> PlacementGroup:
    """Reserve one placement group for a server and its clients, so that two runs never starve each other.

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
    group: PlacementGroup, placement: Placement, data_dir: Path, plugins: Sequence[PluginSource] = ()
) -> Any:
    """Start a server as an actor in bundle 0 of `group`, for a notebook or a benchmark; return its handle."""
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    actor = ray.remote(max_restarts=0, num_cpus=SERVER_CPUS, scheduling_strategy=strategy)(ServerActor)
    return actor.remote(group, placement, data_dir, plugins=plugins)

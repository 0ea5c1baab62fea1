"""The server of a run: drives its rounds, its training, clustering and aggregation, on a Ray cluster.

A server and its client actors share a placement group. The server is the actor of a trial of Ray Tune
(`grids.execution.server_trainable`).
"""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.clients.ray_pool import RayPool
from fedgrid.engine.plugins import active
from fedgrid.engine.plugins.source import PluginSource
from fedgrid.engine.round_cache.files import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage


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

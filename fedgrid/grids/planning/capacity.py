"""How many runs fit on the nodes at once, and what each reserves."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.clients.placement import Node, Placement, Request, at_once, plan
from fedgrid.grids.ray_cluster.cluster import least_stacked, num_to_place

RoundsLeft = Sequence[tuple[RunConfig, int]]
"""Each run with its number of rounds still to compute, 0 if it is finished."""


@dataclass(frozen=True)
class Capacity:
    """How runs of a given number of clients fit on the nodes."""

    clients: int
    placement: Placement
    at_once: int
    """How many such runs the nodes hold at the same time, if that many are waiting."""
    workers: int
    """Cores, or GPUs, that these runs keep busy."""

    @property
    def reserves(self) -> str:
        """The resources of a run, in words."""
        actors = self.placement.num_actors
        resources = f"{self.placement.cpus_per_actor:g} CPU"
        if self.placement.gpus_per_actor:
            resources += f", {self.placement.gpus_per_actor:g} GPU"
        if self.placement.memory_per_actor:
            resources += f", {self.placement.memory_per_actor / 1e9:.1f} GB main memory"
        if self.placement.in_server:
            return f"server with {self.clients} clients, {self.placement.bundles()[0]['CPU']:g} CPU"
        if actors == self.clients:
            return f"server + {actors} clients x {resources}"
        fewest, most = self.clients // actors, -(-self.clients // actors)
        hosted = f"{most}" if most == fewest else f"{fewest} or {most}"
        if actors == 1:
            return f"server + 1 actor of {hosted} clients, {resources}"
        return f"server + {actors} actors of {hosted} clients, {resources} each"


def capacities_of(
    left: RoundsLeft, nodes: Sequence[Node], request: Request, *, by_shared_prefix: bool = False
) -> list[Capacity]:
    """Return how the runs fit, one entry a number of clients; `by_shared_prefix`: see `num_to_place`.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
    """
    waiting = max(1, num_to_place([run for run, rounds in left if rounds], by_shared_prefix=by_shared_prefix))
    capacities = []
    stacks = least_stacked(run for run, _ in left)
    for clients in sorted(stacks):
        placement = plan(clients, nodes, request, waiting, stacks[clients])
        runs = at_once(placement, nodes)
        # Actors that share a GPU, or a core, take turns on it.
        has = sum(int(node.gpus if placement.gpus_per_actor else node.cpus) for node in nodes)
        workers = min(max(1, has), min(runs, waiting) * placement.num_actors)
        capacities.append(Capacity(clients, placement, runs, workers))
    return capacities

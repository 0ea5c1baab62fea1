"""What a run asks of a cluster: counted before the first actor starts, so that nothing ever hangs."""

from dataclasses import dataclass
from math import floor

from engine.errors import ConfigError

SERVER_CPUS = 0.1
"""The server waits while clients train: its share is for bookkeeping only."""


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves the choice to `plan`."""

    clients_per_actor: int | None = None
    cpus_per_client: float | None = None
    gpus_per_client: float | None = None


@dataclass(frozen=True)
class Placement:
    """How many client actors there are and what each reserves."""

    num_actors: int
    cpus_per_actor: float
    gpus_per_actor: float

    @property
    def threads(self) -> int:
        """Threads of an actor: its whole CPUs, at least one."""
        return max(1, floor(self.cpus_per_actor))

    def bundles(self) -> list[dict[str, float]]:
        """Return the placement group's bundles: the server's, then one an actor."""
        actor = {"CPU": self.cpus_per_actor}
        if self.gpus_per_actor:
            actor["GPU"] = self.gpus_per_actor
        return [{"CPU": SERVER_CPUS}, *[actor] * self.num_actors]


def plan(num_clients: int, cpus: float, gpus: float, request: Request) -> Placement:
    """Fit a run of `num_clients` clients onto what the cluster has.

    A client trains on a fraction of a GPU if there is one (0.05 unless told), else on a CPU. An actor
    hosts as many clients as it must: its clients take turns, so it reserves one client's share.

    Raises:
        ConfigError: if it can never fit; says what was asked, what there is, and what would fit.
    """
    gpus_per_client = request.gpus_per_client
    if gpus_per_client is None:
        gpus_per_client = 0.05 if gpus else 0.0
    _check(num_clients, cpus, gpus, gpus_per_client, request)
    free = cpus - SERVER_CPUS
    slots = floor(gpus / gpus_per_client + 1e-9) if gpus_per_client else max(1, floor(cpus + 1e-9))
    if request.cpus_per_client:
        slots = min(slots, floor(free / request.cpus_per_client + 1e-9))
    actors = min(num_clients, slots)
    if request.clients_per_actor:
        actors = -(-num_clients // request.clients_per_actor)
    share = request.cpus_per_client or min(1.0, floor(100 * free / actors) / 100)
    if actors * share > free + 1e-9 or share <= 0 or actors * gpus_per_client > gpus + 1e-9:
        fit = max(1, min(slots, floor(free / (request.cpus_per_client or 0.01))))
        raise ConfigError(
            f"{actors} client actors with {share:g} CPU and {gpus_per_client:g} GPU each do not fit on "
            f"{cpus:g} CPUs and {gpus:g} GPUs; --clients-per-actor {-(-num_clients // fit)} would"
        )
    return Placement(actors, share, gpus_per_client)


def _check(num_clients: int, cpus: float, gpus: float, gpus_per_client: float, request: Request) -> None:
    if request.clients_per_actor is not None and request.clients_per_actor < 1:
        raise ConfigError(f"--clients-per-actor {request.clients_per_actor}: expected 1 to {num_clients}")
    if request.cpus_per_client is not None and not 0 < request.cpus_per_client <= cpus - SERVER_CPUS:
        raise ConfigError(
            f"--cpus-per-client {request.cpus_per_client:g}: expected more than 0, at most "
            f"{cpus - SERVER_CPUS:g} (the cluster has {cpus:g} CPUs, the server takes {SERVER_CPUS:g})"
        )
    if gpus_per_client < 0 or gpus_per_client > 1:
        raise ConfigError(f"--gpus-per-client {gpus_per_client:g}: expected 0 to 1")
    if gpus_per_client and not gpus:
        raise ConfigError(f"--gpus-per-client {gpus_per_client:g}, but the cluster has no GPU; leave it out")

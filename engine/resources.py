"""What a run asks of a cluster: counted before the first actor starts, so that nothing ever hangs."""

from dataclasses import dataclass
from math import floor

from engine.errors import ConfigError

SERVER_CPUS = 0.1
"""The server waits while clients train: its share is for bookkeeping only."""

SMALLEST_SHARE = 0.01
"""Of a CPU, for a client actor that is not told its share."""


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
    most = floor(free / (request.cpus_per_client or SMALLEST_SHARE) + 1e-9)
    if gpus_per_client:
        # An actor's share lies on one GPU: two GPUs hold four shares of 0.4, not five.
        most = min(most, floor(gpus) * floor(1 / gpus_per_client + 1e-9))
    slots = most if gpus_per_client or request.cpus_per_client else min(most, max(1, floor(cpus + 1e-9)))
    actors = min(num_clients, slots)
    if request.clients_per_actor:
        actors = -(-num_clients // request.clients_per_actor)
    if actors > most:
        raise ConfigError(
            f"{actors} client actors with {request.cpus_per_client or SMALLEST_SHARE:g} CPU and "
            f"{gpus_per_client:g} GPU each do not fit on {cpus:g} CPUs and {gpus:g} GPUs; "
            f"--clients-per-actor {-(-num_clients // slots)} would"
        )
    share = request.cpus_per_client or min(1.0, floor(100 * free / actors + 1e-9) / 100)
    return Placement(actors, share, gpus_per_client)


def _check(num_clients: int, cpus: float, gpus: float, gpus_per_client: float, request: Request) -> None:
    if cpus < SERVER_CPUS + SMALLEST_SHARE:
        raise ConfigError(f"the cluster has {cpus:g} CPUs; a run needs one at least")
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

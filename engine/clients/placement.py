"""What a run asks of a cluster: counted before the first actor starts, so that nothing ever hangs."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from fedgrid.engine.errors import ConfigError

SERVER_CPUS = 0.1
"""The server waits while clients train: its share is for bookkeeping only."""

SMALLEST_SHARE = 0.01
"""Of a CPU, for a client actor that is not told its share."""

GPU_SHARE = 0.05
"""Of a GPU, for a client actor that is not told its share."""

WORTHWHILE = 1.2
"""Times as long as the best number of actors that fewer of them may take: each costs seconds and memory."""

UNITS = 10_000
"""Ray counts resources in ten-thousandths; so do we, which keeps the sums exact."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, as Ray sees it."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Request:
    """What the user asked for; None leaves the choice to `plan`."""

    clients_per_actor: int | None = None
    cpus_per_client: float | None = None
    gpus_per_client: float | None = None


@dataclass(frozen=True)
class Placement:
    """How many client actors a run has and what each reserves."""

    num_actors: int
    cpus_per_actor: float
    gpus_per_actor: float

    def bundles(self) -> list[dict[str, float]]:
        """Return the placement group's bundles: the server's, then one an actor."""
        actor = {"CPU": self.cpus_per_actor}
        if self.gpus_per_actor:
            actor["GPU"] = self.gpus_per_actor
        return [{"CPU": SERVER_CPUS}, *[actor] * self.num_actors]


def local_nodes() -> tuple[Node, ...]:
    """Return what `ray.init()` would find on this machine, without starting Ray.

    GPUs are those that torch can use: a torch without CUDA has no use for the others.
    """
    import torch
    from ray._private.utils import get_num_cpus

    return (Node(float(get_num_cpus(override_docker_cpu_warning=True)), float(torch.cuda.device_count())),)


def cluster_nodes() -> tuple[Node, ...]:
    """Return the living nodes of the cluster that Ray is connected to."""
    import ray

    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return tuple(Node(has.get("CPU", 0.0), has.get("GPU", 0.0)) for has in resources)


def describe(nodes: Sequence[Node]) -> str:
    """Say what there is: `2 CPUs and 0 GPUs`; of several nodes the sum and the most that one of them has."""
    cpus, gpus = [node.cpus for node in nodes], [node.gpus for node in nodes]
    has = f"{_counted(sum(cpus), 'CPU')} and {_counted(sum(gpus), 'GPU')}"
    if len(nodes) == 1:
        return has
    return f"{len(nodes)} nodes with {has}, at most {max(cpus):g} and {max(gpus):g} on one"


def at_once(placement: Placement, nodes: Sequence[Node]) -> int:
    """Return how many runs placed so the nodes hold together.

    A run may spread over nodes; an actor's share lies on one node and on one GPU. One run counts if and
    only if it fits. Of several, Ray may hold a few less where nodes differ: it has its own order.
    """
    group = _units(SERVER_CPUS) + placement.num_actors * _units(placement.cpus_per_actor)
    most = sum(_units(node.cpus) for node in nodes) // group
    return bisect_left(range(1, most + 1), True, key=lambda runs: not _fit(runs, placement, nodes))


def most_at_once(placements: Iterable[Placement], nodes: Sequence[Node]) -> int:
    """Return how many runs the nodes hold together where all are placed like the smallest; 1 without any."""
    return max((at_once(placement, nodes) for placement in placements), default=1)


def plan(num_clients: int, nodes: Sequence[Node], request: Request, num_runs: int = 1) -> Placement:
    """Fit runs of `num_clients` clients, `num_runs` of which wait to be run, onto the nodes.

    With a GPU, a client has an actor of its own and 0.05 GPU where there is room; else as few clients as
    possible share an actor, in turns. Without one, an actor is worth a core, and actors of a run wait for
    one another in every round: the more runs there are, the more go at once, with fewer actors each
    (`_soonest`). Two CPUs have one run with two actors, or two of many runs with one actor each. From
    as many runs on as keep every core busy that is one actor, whatever the number of clients, so actors
    are handed on from runs with 15 clients to runs with 30. CPUs are shared out so that no run has to wait
    for want of them; an actor trains with one thread and reserves one CPU at most.

    Raises:
        ConfigError: if a run can never fit; says what was asked, what there is, and what would fit.
    """
    gpus = _gpus_per_client(nodes, request)
    _check(num_clients, nodes, gpus, request)
    least = request.cpus_per_client or SMALLEST_SHARE
    cores = max(1, sum(int(node.cpus) for node in nodes))

    def together(actors: int) -> int:
        holds = at_once(Placement(actors, least, gpus), nodes)
        return holds if gpus or request.cpus_per_client else min(holds, cores // actors)

    if request.clients_per_actor:
        actors = -(-num_clients // request.clients_per_actor)
    elif gpus:
        actors = max(count for count in _even_counts(num_clients) if together(count))
    else:
        actors = _soonest(num_clients, num_runs, together)
    placement = Placement(actors, least, gpus)
    if not at_once(placement, nodes):
        raise _too_many(num_clients, placement, nodes)
    if request.cpus_per_client:
        return placement
    return _with_largest_share(placement, min(num_runs, max(1, together(actors))), nodes)


def _soonest(num_clients: int, num_runs: int, together: Callable[[int], int]) -> int:
    """Return the number of actors a run with which all runs are over soonest, or nearly so.

    Were all clients and runs alike, the time would be (how often the cluster is filled) x (clients of the
    busiest actor). The fewest actors that are nearly as good are taken.
    """
    times = {}
    for actors in _even_counts(num_clients):
        if runs := together(actors):
            times[actors] = -(-num_runs // runs) * -(-num_clients // actors)
    return min(actors for actors, time in times.items() if time <= WORTHWHILE * min(times.values()))


def _even_counts(num_clients: int) -> list[int]:
    """Return the numbers of actors that are worth having: with one less, an actor would have more to do."""
    return sorted({-(-num_clients // each) for each in range(1, num_clients + 1)})


def _with_largest_share(placement: Placement, runs: int, nodes: Sequence[Node]) -> Placement:
    """Give each actor as much of a CPU, in hundredths, as lets `runs` go at once."""
    shares = (
        Placement(placement.num_actors, hundredths / 100, placement.gpus_per_actor)
        for hundredths in range(100, 0, -1)
    )
    return next(share for share in shares if at_once(share, nodes) >= runs)


def _fit(runs: int, placement: Placement, nodes: Sequence[Node]) -> bool:
    """Say whether `runs` fit together: servers in what actors leave over, then in the place of actors."""
    server, share = _units(SERVER_CPUS), _units(placement.cpus_per_actor)
    servers, actors = runs, 0
    rests = []
    for node in nodes:
        count = _actors_on(node, placement)
        more, rest = divmod(_units(node.cpus) - count * share, server)
        servers -= more
        actors += count
        rests.append((rest, count))
    for rest, count in sorted(rests, reverse=True):
        if servers <= 0:
            break
        if count * share + rest >= server:
            given_up = min(count, -(-(servers * server - rest) // share))
            servers -= (given_up * share + rest) // server
            actors -= given_up
    return servers <= 0 and actors >= runs * placement.num_actors


def _actors_on(node: Node, placement: Placement) -> int:
    """Return how many actors a node holds, were there no server."""
    by_cpus = _units(node.cpus) // _units(placement.cpus_per_actor)
    if not placement.gpus_per_actor:
        return by_cpus
    return min(by_cpus, int(node.gpus) * (UNITS // _units(placement.gpus_per_actor)))


def _units(amount: float) -> int:
    return round(amount * UNITS)


def _gpus_per_client(nodes: Sequence[Node], request: Request) -> float:
    if request.gpus_per_client is not None:
        return request.gpus_per_client
    return GPU_SHARE if any(node.gpus >= 1 and node.cpus >= SMALLEST_SHARE for node in nodes) else 0.0


def _check(num_clients: int, nodes: Sequence[Node], gpus: float, request: Request) -> None:
    """Refuse what no number of actors would make possible."""
    if not at_once(Placement(1, SMALLEST_SHARE, 0.0), nodes):
        cpus = sum(node.cpus for node in nodes)
        raise ConfigError(f"the cluster has {cpus:g} CPUs; a run needs one at least")
    if request.clients_per_actor is not None and request.clients_per_actor < 1:
        raise ConfigError(f"--clients-per-actor {request.clients_per_actor}: expected 1 to {num_clients}")
    if gpus and not 1 / UNITS <= gpus <= 1:
        raise ConfigError(f"--gpus-per-client {gpus:g}: expected 0, or 0.0001 to 1")
    able = [node for node in nodes if node.gpus >= 1] if gpus else list(nodes)
    if not able:
        raise ConfigError(f"--gpus-per-client {gpus:g}, but the cluster has no GPU; leave it out")
    largest = max(node.cpus for node in able)
    alone = sum(node.cpus >= SERVER_CPUS for node in nodes) == (largest >= SERVER_CPUS)
    most = largest - SERVER_CPUS if alone else largest
    if most < SMALLEST_SHARE:
        raise ConfigError(
            f"--gpus-per-client {gpus:g}, but no node with a GPU has a CPU to spare; "
            "--gpus-per-client 0 would fit"
        )
    wanted = request.cpus_per_client
    if wanted is not None and not 1 <= _units(wanted if isfinite(wanted) else 0) <= _units(most):
        where = "the cluster" if len(nodes) == 1 else f"the largest of {_counted(len(able), 'node')}"
        where += " with a GPU" if gpus and len(nodes) > 1 else ""
        server = f", the server takes {SERVER_CPUS:g}" if alone else ""
        raise ConfigError(
            f"--cpus-per-client {wanted:g}: expected more than 0, at most {most:g} "
            f"({where} has {_counted(largest, 'CPU')}{server})"
        )


def _too_many(num_clients: int, asked: Placement, nodes: Sequence[Node]) -> ConfigError:
    fitting = next(
        count
        for count in reversed(_even_counts(num_clients))
        if at_once(replace(asked, num_actors=count), nodes)
    )
    return ConfigError(
        f"{_counted(asked.num_actors, 'client actor')} with {asked.cpus_per_actor:g} CPU and "
        f"{asked.gpus_per_actor:g} GPU each do not fit on {describe(nodes)}; "
        f"--clients-per-actor {-(-num_clients // fitting)} would"
    )


def _counted(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"

"""Resources of a run: checked before the first actor starts, so that no run waits for ever.

Ray itself would queue an actor that no node can hold, without an error. So what can never fit is refused
here, with a setting that would.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from fedgrid.engine.federation.errors import ConfigError

SERVER_CPUS = 0.1
"""CPU share of the server actor, which is idle while clients train."""

SMALLEST_SHARE = 0.01
"""Smallest CPU share of a client actor, if the user sets none."""

GPU_SHARE = 0.05
"""GPU share of a client actor, if the user sets none."""

GPU_ACTOR_CPUS = 1 - SERVER_CPUS
"""CPU share of a client actor on a GPU, if the user sets none: starting kernels, one after another, keeps a
core busy. What is left of the core holds a server."""

GPU_PROCESS_MEMORY = 2_500_000_000
"""Bytes of main memory that a client actor on a GPU takes. Assumed, not measured: torch and CUDA take up to
2.06 GB (counted by `/usr/bin/time` in issue 113326 of PyTorch), Ray and the images the rest."""

WORTHWHILE_FACTOR = 1.2
"""Largest factor in run time that is accepted to save actors: each costs seconds to start, and memory."""

UNITS = 10_000
"""Units of one CPU or GPU: Ray counts resources in ten-thousandths, and counting in the same keeps sums
exact."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, as Ray sees it."""

    cpus: float
    gpus: float
    memory: float | None = None
    """Bytes of main memory that Ray deals out; None: not measured, or nothing there depends on it."""
    gpu_memory: float | None = None
    """Bytes of the smallest of its GPUs, including what others use; None: not measured, or it has none."""


@dataclass(frozen=True)
class PlacementRequest:
    """The user's settings; None leaves the choice to `plan_placement`."""

    clients_per_actor: int | None = None
    """Number of clients that share an actor."""
    cpus_per_client: float | None = None
    """CPU share of an actor."""
    gpus_per_client: float | None = None
    """GPU share of an actor."""
    least_gpu_share: float = GPU_SHARE
    """Smallest GPU share that holds a client, where the user gives none."""


@dataclass(frozen=True)
class Placement:
    """Number of client actors of a run, and the resources that each reserves."""

    num_actors: int
    cpus_per_actor: float
    gpus_per_actor: float
    memory_per_actor: float = 0.0
    """Bytes of main memory."""
    in_server: bool = False
    """Whether clients train in the server's process: of it and a single actor, one always waits."""

    def build_bundles(self) -> list[dict[str, float]]:
        """Build the placement group's bundles: one for the server, then one per client actor."""
        if self.in_server:
            return [{"CPU": (_to_units(SERVER_CPUS) + _to_units(self.cpus_per_actor)) / UNITS}]
        actor = {"CPU": self.cpus_per_actor}
        if self.gpus_per_actor:
            actor["GPU"] = self.gpus_per_actor
        if self.memory_per_actor:
            actor["memory"] = self.memory_per_actor
        return [{"CPU": SERVER_CPUS}, *[actor] * self.num_actors]


def describe_nodes(nodes: Sequence[Node]) -> str:
    """Describe `2 CPUs and 0 GPUs`; for several nodes the sum, and the largest node's number."""
    cpus = [node.cpus for node in nodes]
    gpus = [node.gpus for node in nodes]
    has = f"{_format_count(sum(cpus), 'CPU')} and {_format_count(sum(gpus), 'GPU')}"
    if len(nodes) == 1:
        return has
    return f"{len(nodes)} nodes with {has}, at most {max(cpus):g} and {max(gpus):g} on one"


def count_runs_at_once(placement: Placement, nodes: Sequence[Node]) -> int:
    """Count the runs with this placement that fit on the nodes at the same time.

    A run may spread over nodes; an actor is on one node and one GPU. The result for a single run (0 or more)
    is exact. On clusters of unequal nodes Ray may fit a few runs less, as it places bundles in another order.
    """
    group = _to_units(SERVER_CPUS) + placement.num_actors * _to_units(placement.cpus_per_actor)
    most = sum(_to_units(node.cpus) for node in nodes) // group
    # If n runs fit, so do n - 1; so the first number that does not fit can be found by bisection.
    return bisect_left(range(1, most + 1), True, key=lambda runs: not _has_room(runs, placement, nodes))


def count_most_at_once(placements: Iterable[Placement], nodes: Sequence[Node]) -> int:
    """Count the runs that fit at the same time if all are placed like the smallest; 1 without runs."""
    return max((count_runs_at_once(placement, nodes) for placement in placements), default=1)


def plan_placement(
    num_clients: int, nodes: Sequence[Node], request: PlacementRequest, num_runs: int = 1, stacked: int = 1
) -> Placement:
    """Plan the placement of runs of `num_clients` clients on the nodes.

    With GPUs, each client gets its own actor if resources allow: at least 0.05 GPU, a core and
    `GPU_PROCESS_MEMORY`. Otherwise as few clients as possible share one, in turns. Shares are the largest
    with which as many runs fit. If the user's number of actors exceeds cores or memory, it is what counts.

    Without GPUs an actor needs a core, and the actors of a run wait for each other in every round. So the
    more runs are pending, the more run at the same time, with fewer actors each (`_find_fastest_count`): on
    two CPUs a single run has two actors, but of many runs two run at once with one actor each. With enough
    runs to keep every core busy that is one actor per run, whatever the number of clients; Ray can then reuse
    actors of runs with 15 clients for runs with 30. On a single machine the server takes the place of that
    one actor, unless the request sets actors. CPU shares are such that no run waits. An actor trains with one
    thread.

    Args:
        num_clients: Clients of a run.
        nodes: The cluster.
        request: The user's settings.
        num_runs: Number of pending runs; 1 by default.
        stacked: Number of clients that train at once, and therefore share an actor; 1 by default.

    Raises:
        ConfigError: a run can never fit; with the request, the resources, and a setting that would fit.
    """
    # 1. Stacks cannot be divided, so they are placed as clients are.
    if stacked > 1:
        per_actor = request.clients_per_actor
        in_stacks = replace(request, clients_per_actor=per_actor and -(-per_actor // stacked))
        return plan_placement(-(-num_clients // stacked), nodes, in_stacks, num_runs)
    # 2. The least that one actor needs, and with it how many runs fit by their number of actors.
    gpus = _choose_gpu_share(nodes, request)
    _check_request(num_clients, nodes, gpus, request)
    least = _find_least_placement(num_clients, nodes, request, gpus)
    cores = max(1, sum(int(node.cpus) for node in nodes))

    def count_runs(actors: int) -> int:
        """Count the runs with this number of actors that fit and have a core for each actor."""
        runs = count_runs_at_once(replace(least, num_actors=actors), nodes)
        # Ray would fit a hundred actors with the smallest share on a core, where they only wait for each
        # other.
        return runs if gpus or request.cpus_per_client else min(runs, cores // actors)

    # 3. The number of actors: the user's, else the most that a GPU holds, else the fastest for all runs.
    if request.clients_per_actor:
        actors = -(-num_clients // request.clients_per_actor)
    elif gpus:
        actors = max(count for count in _list_even_counts(num_clients) if count_runs(count))
    else:
        actors = _find_fastest_count(num_clients, num_runs, count_runs)
    is_free_choice = not (gpus or request.clients_per_actor or request.cpus_per_client)
    placement = replace(least, num_actors=actors, in_server=is_free_choice and actors == len(nodes) == 1)
    if not count_runs_at_once(placement, nodes):
        raise _build_refusal(num_clients, placement, nodes)
    # 4. Larger shares, as long as equally many runs fit side by side: nothing that is free stays unused.
    side_by_side = min(num_runs, max(1, count_runs(actors)))
    if gpus and request.gpus_per_client is None:
        # Ray fills a GPU before it takes the next.
        most = UNITS // _to_units(gpus)
        parts = (replace(placement, gpus_per_actor=UNITS // actors / UNITS) for actors in range(1, most + 1))
        placement = _find_first_fit(parts, side_by_side, nodes) or placement
    if request.cpus_per_client:
        return placement
    hundredths = (replace(placement, cpus_per_actor=share / 100) for share in range(100, 0, -1))
    return _find_first_fit(hundredths, side_by_side, nodes) or placement


def _find_least_placement(
    num_clients: int, nodes: Sequence[Node], request: PlacementRequest, gpus: float
) -> Placement:
    """Find the least that an actor reserves, for the user's number of actors, or for one.

    On a GPU that is a core and main memory, or as much of them as a node has, if the user's number fits so.
    """
    actors = -(-num_clients // (request.clients_per_actor or num_clients))
    least = Placement(actors, request.cpus_per_client or SMALLEST_SHARE, gpus)
    if not gpus:
        return least
    room = [node.memory for node in nodes if node.gpus >= 1 and node.memory is not None]
    complete = replace(
        least,
        cpus_per_actor=request.cpus_per_client or min(GPU_ACTOR_CPUS, _find_most_cpus(nodes, gpus)[0]),
        memory_per_actor=min(GPU_PROCESS_MEMORY, max(room)) if room else 0.0,
    )
    return complete if count_runs_at_once(complete, nodes) else least


def _find_fastest_count(num_clients: int, num_runs: int, runs_at_once: Callable[[int], int]) -> int:
    """Find the smallest number of actors per run with which all runs finish in nearly the shortest time.

    With equal clients and runs, the time is (batches of runs that fill the cluster) x (clients of the busiest
    actor). "Nearly" is the factor `WORTHWHILE_FACTOR`.
    """
    times = {}
    for actors in _list_even_counts(num_clients):
        if runs := runs_at_once(actors):
            times[actors] = -(-num_runs // runs) * -(-num_clients // actors)
    return min(actors for actors, time in times.items() if time <= WORTHWHILE_FACTOR * min(times.values()))


def _list_even_counts(num_clients: int) -> list[int]:
    """List the useful numbers of actors: with one less, the busiest actor would have more clients."""
    return sorted({-(-num_clients // per_actor) for per_actor in range(1, num_clients + 1)})


def _find_first_fit(shares: Iterable[Placement], runs: int, nodes: Sequence[Node]) -> Placement | None:
    """Find the first placement with which so many runs fit, None if none does."""
    return next((share for share in shares if count_runs_at_once(share, nodes) >= runs), None)


def _has_room(runs: int, placement: Placement, nodes: Sequence[Node]) -> bool:
    """Check whether `runs` fit at the same time: servers in the CPUs left over, then in place of actors."""
    server = _to_units(SERVER_CPUS)
    share = _to_units(placement.cpus_per_actor)
    servers = runs
    actors = 0
    rests = []
    # 1. Each node holds as many actors as it can, and servers in what is left of it.
    for node in nodes:
        count = _count_actors(node, placement)
        more, rest = divmod(_to_units(node.cpus) - count * share, server)
        servers -= more
        actors += count
        rests.append((rest, count))
    # 2. Servers that have no place yet take that of actors, first where the most is left over.
    for rest, count in sorted(rests, reverse=True):
        if servers <= 0:
            break
        if count * share + rest >= server:
            displaced = min(count, -(-(servers * server - rest) // share))
            servers -= (displaced * share + rest) // server
            actors -= displaced
    # 3. What counts is whether enough actors are left.
    return servers <= 0 and actors >= runs * placement.num_actors


def _count_actors(node: Node, placement: Placement) -> int:
    """Count the actors that fit on a node."""
    most = _to_units(node.cpus) // _to_units(placement.cpus_per_actor)
    if placement.gpus_per_actor:
        # An actor is on one GPU, so shares of several GPUs do not add up.
        most = min(most, int(node.gpus) * (UNITS // _to_units(placement.gpus_per_actor)))
    if placement.memory_per_actor and node.memory is not None:
        most = min(most, int(node.memory // placement.memory_per_actor))
    return most


def _to_units(amount: float) -> int:
    """Convert an amount of a resource to Ray's units."""
    return round(amount * UNITS)


def _choose_gpu_share(nodes: Sequence[Node], request: PlacementRequest) -> float:
    """Choose the GPU share of a client: the user's, else the least that holds one where there are GPUs."""
    if request.gpus_per_client is not None:
        return request.gpus_per_client
    has_gpu = any(node.gpus >= 1 and node.cpus >= SMALLEST_SHARE for node in nodes)
    return request.least_gpu_share if has_gpu else 0.0


def _check_request(num_clients: int, nodes: Sequence[Node], gpus: float, request: PlacementRequest) -> None:
    """Refuse requests that no number of actors could satisfy."""
    if not count_runs_at_once(Placement(1, SMALLEST_SHARE, 0.0), nodes):
        cpus = sum(node.cpus for node in nodes)
        raise ConfigError(f"the cluster has {cpus:g} CPUs; a run needs at least one")
    if request.clients_per_actor is not None and request.clients_per_actor < 1:
        raise ConfigError(f"--clients-per-actor {request.clients_per_actor}: expected 1 to {num_clients}")
    if gpus and not 1 / UNITS <= gpus <= 1:
        raise ConfigError(f"--gpus-per-actor {gpus:g}: expected 0, or 0.0001 to 1")
    able = [node for node in nodes if node.gpus >= 1] if gpus else list(nodes)
    if not able:
        raise ConfigError(f"--gpus-per-actor {gpus:g}, but the cluster has no GPU; leave it out")
    most, largest = _find_most_cpus(nodes, gpus)
    if most < SMALLEST_SHARE:
        raise ConfigError(
            f"--gpus-per-actor {gpus:g}, but no node with a GPU has a CPU to spare; "
            "--gpus-per-actor 0 would fit"
        )
    share = request.cpus_per_client
    if share is not None and not 1 <= _to_units(share if isfinite(share) else 0) <= _to_units(most):
        where = "the cluster" if len(nodes) == 1 else f"the largest of {_format_count(len(able), 'node')}"
        where += " with a GPU" if gpus and len(nodes) > 1 else ""
        server = f", the server takes {SERVER_CPUS:g}" if most < largest else ""
        raise ConfigError(
            f"--cpus-per-actor {share:g}: expected more than 0, at most {most:g} "
            f"({where} has {_format_count(largest, 'CPU')}{server})"
        )


def _find_most_cpus(nodes: Sequence[Node], gpus: float) -> tuple[float, float]:
    """Find the largest CPU share that an actor can have, and the CPUs of the largest node for actors."""
    largest = max(node.cpus for node in nodes if node.gpus >= 1 or not gpus)
    # If the largest node is the only one that can hold the server, the server's share is missing there.
    alone = sum(node.cpus >= SERVER_CPUS for node in nodes) == (largest >= SERVER_CPUS)
    return largest - SERVER_CPUS if alone else largest, largest


def _build_refusal(num_clients: int, requested: Placement, nodes: Sequence[Node]) -> ConfigError:
    """Build the error of a placement that does not fit, with the most actors that would."""
    fitting = next(
        count
        for count in reversed(_list_even_counts(num_clients))
        if count_runs_at_once(replace(requested, num_actors=count), nodes)
    )
    return ConfigError(
        f"{_format_count(requested.num_actors, 'client actor')} with {requested.cpus_per_actor:g} CPU and "
        f"{requested.gpus_per_actor:g} GPU each do not fit on {describe_nodes(nodes)}; "
        f"--clients-per-actor {-(-num_clients // fitting)} would"
    )


def _format_count(number: float, what: str) -> str:
    """Format a number with its noun in singular or plural."""
    return f"{number:g} {what}{'' if number == 1 else 's'}"

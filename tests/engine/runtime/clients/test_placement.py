"""Resources that a run reserves, computed by hand; and requests that are refused."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import (
    SERVER_CPUS,
    Node,
    Placement,
    PlacementRequest,
    count_most_at_once,
    count_runs_at_once,
    plan_placement,
)

MANY = 280
"""Runs of the paper's grid: more than any of these clusters has cores."""


@pytest.mark.parametrize("num_clients", [15, 30])
@pytest.mark.parametrize(("nodes", "runs"), [([Node(2, 0)], 2), ([Node(2, 0)] * 3, 6), ([Node(64, 0)], 64)])
def test_each_of_many_runs_gets_one_core(num_clients, nodes, runs):
    """With one actor none waits for another, and runs of 30 clients can reuse actors of runs of 15.

    On one machine the server is that actor, unless the user has set how many clients one has.
    """
    placement = plan_placement(num_clients, nodes, PlacementRequest(), MANY)
    assert placement == Placement(1, 0.9, 0.0, in_server=len(nodes) == 1)
    assert not plan_placement(
        num_clients, nodes, PlacementRequest(clients_per_actor=num_clients), MANY
    ).in_server
    assert count_runs_at_once(placement, nodes) == runs


def test_fewer_runs_than_cores_have_several_cores_each():
    """64 cores, 40 runs of 30 clients. One actor each: all at once, 30 clients in turn: 30. Two: 32 at once,
    so twice 15. Three: 21 at once, twice 10 = 20, and no number takes less. 21 servers take 2.1 CPUs, the
    other 61.9 are 0.9825 for each of 63 actors. Seven runs of 15 clients on two cores. One actor each: four
    times 15 = 60. Two: seven times 8 = 56."""
    placement = plan_placement(30, [Node(64, 0)], PlacementRequest(), 40)
    assert placement == Placement(3, 0.98, 0.0)
    assert count_runs_at_once(placement, [Node(64, 0)]) == 21
    assert plan_placement(15, [Node(2, 0)], PlacementRequest(), 7).num_actors == 1


def test_most_runs_at_once():
    """Runs of 15 clients with three actors of 0.9 CPU take 2.8 CPUs each, runs with one actor take 1."""
    nodes = [Node(6, 0)]
    assert count_most_at_once([Placement(3, 0.9, 0.0), Placement(1, 0.9, 0.0)], nodes) == 6
    assert count_most_at_once([Placement(3, 0.9, 0.0)], nodes) == 2
    assert count_most_at_once([], []) == 1


ONE_RUN = {
    "two CPUs hold two actors; 1.9 CPUs are left beside the server's 0.1":
        (15, [Node(2, 0)], PlacementRequest(), Placement(2, 0.95, 0.0)),
    "one CPU is enough": (15, [Node(1, 0)], PlacementRequest(), Placement(1, 0.9, 0.0, in_server=True)),
    "with CPUs to spare every client has an actor and one CPU":
        (15, [Node(16, 0)], PlacementRequest(), Placement(15, 1.0, 0.0)),
    "14.9 CPUs for 15 actors are 0.99333 each, rounded down to hundredths":
        (15, [Node(15, 0)], PlacementRequest(), Placement(15, 0.99, 0.0)),
    "five actors with three clients each are done as soon as six":
        (15, [Node(2, 0)] * 3, PlacementRequest(), Placement(5, 1.0, 0.0)),
    "a GPU holds twenty clients: a fifteenth each, rounded down":
        (15, [Node(16, 1)], PlacementRequest(), Placement(15, 1.0, 0.0666)),
    "Ray fills a GPU first: with 0.05 all fifteen would lie on one of four, with a quarter at most four":
        (15, [Node(16, 4)], PlacementRequest(), Placement(15, 1.0, 0.25)),
    "three of 0.32 fit on a GPU, six on two: five actors of three clients have a third each":
        (15, [Node(16, 2)], PlacementRequest(least_gpu_share=0.32), Placement(5, 1.0, 0.3333)),
    "a user's share is not raised":
        (15, [Node(16, 2)], PlacementRequest(gpus_per_client=0.32), Placement(5, 1.0, 0.32)),
    "20 actors fit on a GPU; 15 with two clients each are as fast":
        (30, [Node(16, 1)], PlacementRequest(), Placement(15, 1.0, 0.0666)),
    "an actor on a GPU has a core: 7.9 CPUs for 8 actors":
        (15, [Node(8, 1)], PlacementRequest(), Placement(8, 0.98, 0.125)),
    "a node of less than a core": (15, [Node(0.5, 1)], PlacementRequest(), Placement(1, 0.4, 1.0)),
    "the user's number of actors: 3.9 / 10 CPUs each":
        (10, [Node(4, 1)], PlacementRequest(clients_per_actor=1), Placement(10, 0.39, 0.1)),
    "the user's share of a core: 3.9 are enough for 20 actors, of which 10 are useful":
        (10, [Node(4, 1)], PlacementRequest(cpus_per_client=0.19), Placement(10, 0.19, 0.1)),
    "a GPU on a node without CPUs is unused":
        (15, [Node(0, 1), Node(2, 0)], PlacementRequest(), Placement(2, 0.95, 0.0)),
    "one whole GPU a client: eight and seven":
        (15, [Node(16, 2)], PlacementRequest(gpus_per_client=1), Placement(2, 1.0, 1)),
    "an actor uses a single GPU: two hold two shares of 0.4 each":
        (15, [Node(16, 2)], PlacementRequest(gpus_per_client=0.4), Placement(4, 1.0, 0.4)),
    "an actor uses a single node: three of 1.5 CPUs hold three shares of 0.8":
        (15, [Node(1.5, 0)] * 3, PlacementRequest(cpus_per_client=0.8), Placement(3, 0.8, 0.0)),
    "a GPU machine trains on the CPU if the user says so":
        (15, [Node(2, 1)], PlacementRequest(gpus_per_client=0), Placement(2, 0.95, 0)),
    "1.9 / 15 = 0.1266 CPU, rounded down to hundredths":
        (15, [Node(2, 0)], PlacementRequest(clients_per_actor=1), Placement(15, 0.12, 0.0)),
    "seven shares of 0.25 fit: some with three clients, for which five are enough":
        (15, [Node(2, 0)], PlacementRequest(cpus_per_client=0.25), Placement(5, 0.25, 0.0)),
    "one share of all that the server leaves":
        (15, [Node(2, 0)], PlacementRequest(cpus_per_client=1.9), Placement(1, 1.9, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize(("num_clients", "nodes", "request_", "expected"), ONE_RUN.values(), ids=ONE_RUN)
def test_placement_of_one_run(num_clients, nodes, request_, expected):
    assert plan_placement(num_clients, nodes, request_) == expected


def test_runs_on_gpus_have_a_core_an_actor():
    """Not 150 processes on 32 cores: two runs of 15 have 31.8 CPUs for 30 actors."""
    placement = plan_placement(15, [Node(32, 8)], PlacementRequest(), MANY)
    assert (placement, count_runs_at_once(placement, [Node(32, 8)])) == (Placement(15, 1.0, 0.25), 2)


class TestMainMemory:
    """A process on a GPU takes 2.5 GB of main memory, which Ray deals out."""

    def test_an_actor_on_a_gpu_has_its_main_memory(self):
        """21 GB hold eight: two clients each, but for one."""
        assert plan_placement(15, [Node(64, 8, 21e9)], PlacementRequest()) == Placement(8, 1.0, 1.0, 2.5e9)

    def test_it_bounds_the_runs_that_go_side_by_side(self):
        """Ten actors of stacks: ten runs of one."""
        nodes = [Node(64, 8, 25e9)]
        placement = plan_placement(15, nodes, PlacementRequest(), MANY, stacked=15)
        assert (placement, count_runs_at_once(placement, nodes)) == (Placement(1, 1.0, 0.5, 2.5e9), 10)

    def test_it_is_counted_by_node(self):
        """Two processes on the first node and four on the second."""
        nodes = [Node(16, 1, 5e9), Node(16, 1, 12e9)]
        assert plan_placement(30, nodes, PlacementRequest()).num_actors == 6

    def test_one_actor_has_what_there_is(self):
        assert plan_placement(15, [Node(16, 1, 1e9)], PlacementRequest()) == Placement(1, 1.0, 1.0, 1e9)

    def test_the_users_number_of_actors_counts(self):
        assert plan_placement(15, [Node(16, 1, 5e9)], PlacementRequest(clients_per_actor=1)) == Placement(
            15, 1.0, 0.0666
        )

    def test_actors_on_the_cpu_reserve_none(self):
        assert plan_placement(15, [Node(2, 1, 1e9)], PlacementRequest(gpus_per_client=0)) == Placement(
            2, 0.95, 0
        )

    def test_it_is_in_the_bundles_of_actors(self):
        _, actor = Placement(1, 1.0, 0.5, 2.5e9).build_bundles()
        assert actor == {"CPU": 1.0, "GPU": 0.5, "memory": 2.5e9}


def test_head_node_without_gpu_hosts_servers_but_no_clients():
    """Two nodes with two GPUs each hold 80 actors: five runs of 15, their servers on the head. 64 CPUs for
    up to 40 actors on each node would be more than one each, one is enough."""
    nodes = [Node(1, 0), Node(64, 2), Node(64, 2)]
    placement = plan_placement(15, nodes, PlacementRequest(), MANY)
    assert (placement, count_runs_at_once(placement, nodes)) == (Placement(15, 1.0, 0.0526), 5)


def test_head_node_without_cpus_hosts_nothing():
    assert count_runs_at_once(Placement(1, 0.9, 0.0), [Node(0, 0), Node(2, 0)]) == 2


@pytest.mark.parametrize(("clients_per_actor", "actors"), [(1, 15), (2, 8), (5, 3), (15, 1), (100, 1)])
def test_clients_per_actor_decides_the_number_of_actors(clients_per_actor, actors):
    assert (
        plan_placement(15, [Node(4, 0)], PlacementRequest(clients_per_actor=clients_per_actor)).num_actors
        == actors
    )


def test_the_servers_bundle_comes_first():
    assert Placement(2, 0.5, 0.0).build_bundles() == [{"CPU": SERVER_CPUS}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert Placement(1, 1.0, 0.25).build_bundles() == [{"CPU": SERVER_CPUS}, {"CPU": 1.0, "GPU": 0.25}]


@pytest.mark.parametrize(
    ("nodes", "request_", "message"),
    [
        ([Node(2, 0)], PlacementRequest(clients_per_actor=0), "--clients-per-actor 0: expected 1 to 15"),
        ([Node(2, 0)], PlacementRequest(clients_per_actor=-2), "--clients-per-actor -2: expected 1 to 15"),
        (
            [Node(2, 0)],
            PlacementRequest(cpus_per_client=-1),
            "--cpus-per-actor -1: expected more than 0, at most 1.9",
        ),
        (
            [Node(2, 0)],
            PlacementRequest(cpus_per_client=float("nan")),
            "--cpus-per-actor nan: expected more than 0",
        ),
        (
            [Node(2, 0)],
            PlacementRequest(cpus_per_client=2),
            "expected more than 0, at most 1.9 (the cluster has 2 CPUs, the server takes 0.1)",
        ),
        (
            [Node(1, 0), Node(8, 0)],
            PlacementRequest(cpus_per_client=9),
            "--cpus-per-actor 9: expected more than 0, at most 8 (the largest of 2 nodes has 8 CPUs)",
        ),
        (
            [Node(4, 1), Node(4, 1), Node(8, 0)],
            PlacementRequest(cpus_per_client=5),
            "at most 4 (the largest of 2 nodes with a GPU has 4 CPUs)",
        ),
        (
            [Node(2, 1)],
            PlacementRequest(gpus_per_client=1.5),
            "--gpus-per-actor 1.5: expected 0, or 0.0001 to 1",
        ),
        (
            [Node(2, 0)],
            PlacementRequest(gpus_per_client=-1),
            "--gpus-per-actor -1: expected 0, or 0.0001 to 1",
        ),
        (
            [Node(2, 1)],
            PlacementRequest(gpus_per_client=1e-6),
            "--gpus-per-actor 1e-06: expected 0, or 0.0001 to 1",
        ),
        ([Node(2, 0)], PlacementRequest(gpus_per_client=0.5), "the cluster has no GPU; leave it out"),
        ([Node(0, 1), Node(2, 0)], PlacementRequest(gpus_per_client=0.5), "--gpus-per-actor 0 would fit"),
        ([Node(0, 0)], PlacementRequest(), "the cluster has 0 CPUs; a run needs at least one"),
        ([], PlacementRequest(), "the cluster has 0 CPUs; a run needs at least one"),
        ([Node(16, 1)], PlacementRequest(1, gpus_per_client=0.25), "--clients-per-actor 4 would"),
        (
            [Node(2, 0)],
            PlacementRequest(1, 0.5),
            "do not fit on 2 CPUs and 0 GPUs; --clients-per-actor 5 would",
        ),
        (
            [Node(4, 0), Node(2, 1)],
            PlacementRequest(1, 1, 0),
            "15 client actors with 1 CPU and 0 GPU each do not fit on 2 nodes with 6 CPUs and 1 GPU, at most "
            "4 and 1 on one; --clients-per-actor 3 would",
        ),
    ],
)
def test_impossible_requests_are_refused_with_a_setting_that_fits(nodes, request_, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan_placement(15, nodes, request_)


NODES = st.lists(
    st.builds(
        Node,
        st.sampled_from((0, 0.05, 0.1, 0.5, 1, 1.5, 2, 4, 16)),
        st.sampled_from((0, 0, 1, 2)),
        st.sampled_from((None, 1e9, 6e9, 1e12)),
    ),
    min_size=1,
    max_size=4,
)
REQUESTS = st.builds(
    PlacementRequest,
    st.sampled_from((None, 1, 2, 5)),
    st.sampled_from((None, 0.01, 0.04, 0.25, 1 / 3, 0.9, 1, 2)),
    st.sampled_from((None, None, 0, 0.05, 1 / 3, 0.4, 0.7, 1)),
)


@settings(max_examples=400, deadline=None)
@given(NODES, REQUESTS, st.sampled_from((1, 3, 15, 40)), st.sampled_from((1, 2, 7, 280)))
def test_planned_placements_and_advised_settings_fit(nodes, request_, num_clients, num_runs):
    placement = follow_advice(num_clients, nodes, request_, num_runs)
    if placement is None:
        return
    runs = count_runs_at_once(placement, nodes)
    assert 1 <= placement.num_actors <= num_clients
    assert runs >= 1
    assert can_pack(placement, 1, nodes)
    assert can_pack(placement, runs, nodes)


@settings(max_examples=300, deadline=None)
@given(
    NODES, st.integers(1, 5), st.sampled_from((0.04, 0.1, 0.33, 0.9, 1)), st.sampled_from((0, 0.05, 0.4, 1))
)
def test_at_once_is_exact_for_a_single_run(nodes, actors, cpus, gpus):
    placement = Placement(actors, cpus, gpus)
    assert (count_runs_at_once(placement, nodes) >= 1) == can_pack(placement, 1, nodes)


def follow_advice(num_clients, nodes, request, num_runs):
    """Return the placement, or that of the advised request if this one is refused; None without advice."""
    try:
        return plan_placement(num_clients, nodes, request, num_runs)
    except ConfigError as error:
        advice = re.search(r"--clients-per-actor (\d+) would$", str(error))
    if advice is None:
        return None
    advised = PlacementRequest(int(advice[1]), request.cpus_per_client, request.gpus_per_client)
    return plan_placement(num_clients, nodes, advised, num_runs)


def can_pack(placement, runs, nodes):
    """Try every way to spread the servers over the nodes, and put actors into what is left of each."""
    actors = runs * placement.num_actors
    room = [[actors_beside(servers, node, placement) for servers in range(runs + 1)] for node in nodes]
    best = {0: 0}
    for by_servers in room:
        reached = {}
        for (placed, held), (more, holds) in product(best.items(), enumerate(by_servers)):
            if holds is not None and placed + more <= runs:
                reached[placed + more] = max(reached.get(placed + more, 0), held + holds)
        best = reached
    return best.get(runs, -1) >= actors


def actors_beside(servers, node, placement):
    """Put actors on a node one by one, each on the first GPU with room; None if not even the servers fit."""
    cpus = round(node.cpus * 10000) - 1000 * servers
    if cpus < 0:
        return None
    share, gpu_share = round(placement.cpus_per_actor * 10000), round(placement.gpus_per_actor * 10000)
    gpus = [10000] * int(node.gpus)
    memory = float("inf") if node.memory is None else node.memory
    held = 0
    while cpus >= share and memory >= placement.memory_per_actor:
        if gpu_share:
            gpu = next((index for index, free in enumerate(gpus) if free >= gpu_share), None)
            if gpu is None:
                break
            gpus[gpu] -= gpu_share
        cpus -= share
        memory -= placement.memory_per_actor
        held += 1
    return held


@pytest.mark.parametrize(
    ("nodes", "request_", "expected"),
    [
        ([Node(16, 1)], PlacementRequest(), 2),
        ([Node(16, 1)], PlacementRequest(clients_per_actor=30), 1),
        ([Node(16, 1)], PlacementRequest(clients_per_actor=1), 2),
        ([Node(2, 0)], PlacementRequest(), 2),
    ],
)
def test_a_stack_of_clients_has_one_actor(nodes, request_, expected):
    assert plan_placement(30, nodes, request_, stacked=15).num_actors == expected

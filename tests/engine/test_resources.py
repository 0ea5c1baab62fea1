"""What a run reserves, worked out by hand; and what is refused before anything starts."""

import re
from itertools import product

import pytest

from engine.errors import ConfigError
from engine.resources import SERVER_CPUS, Placement, Request, plan


def test_a_laptop_hosts_several_clients_in_an_actor():
    """Two CPUs hold two actors; 1.9 CPUs are left beside the server's 0.1, so each has 0.95."""
    assert plan(15, 2, 0, Request()) == Placement(2, 0.95, 0.0)


def test_one_cpu_is_enough():
    assert plan(15, 1, 0, Request()) == Placement(1, 0.9, 0.0)


def test_with_cpus_to_spare_every_client_has_an_actor_and_one_cpu():
    assert plan(15, 16, 0, Request()) == Placement(15, 1.0, 0.0)


def test_as_many_cpus_as_clients_leave_each_a_little_less_than_one():
    """14.9 CPUs for 15 actors are 0.99333 each, rounded down to hundredths."""
    assert plan(15, 15, 0, Request()) == Placement(15, 0.99, 0.0)


def test_a_gpu_holds_twenty_clients():
    """0.05 GPU each; 15.9 CPUs for 15 actors are one each."""
    assert plan(15, 16, 1, Request()) == Placement(15, 1.0, 0.05)


def test_more_clients_than_a_gpu_holds_share_actors():
    """20 actors of 0.05 GPU; 15.9 / 20 = 0.795 CPU, rounded down to hundredths."""
    assert plan(30, 16, 1, Request()) == Placement(20, 0.79, 0.05)


def test_a_whole_gpu_each():
    assert plan(15, 16, 2, Request(gpus_per_client=1)) == Placement(2, 1.0, 1)


def test_an_actors_share_lies_on_one_gpu():
    """Two GPUs hold two shares of 0.4 each, though five times 0.4 is two."""
    assert plan(15, 16, 2, Request(gpus_per_client=0.4)).num_actors == 4


def test_a_gpu_machine_can_be_told_to_train_on_the_cpu():
    assert plan(15, 2, 1, Request(gpus_per_client=0)) == Placement(2, 0.95, 0)


@pytest.mark.parametrize(("clients_per_actor", "actors"), [(1, 15), (2, 8), (5, 3), (15, 1), (100, 1)])
def test_clients_per_actor_decides_the_number_of_actors(clients_per_actor, actors):
    assert plan(15, 4, 0, Request(clients_per_actor=clients_per_actor)).num_actors == actors


def test_many_actors_on_few_cpus_have_a_share_each():
    """1.9 / 15 = 0.1266 CPU, rounded down to hundredths."""
    assert plan(15, 2, 0, Request(clients_per_actor=1)) == Placement(15, 0.12, 0.0)


@pytest.mark.parametrize(("cpus_per_client", "actors"), [(0.25, 7), (0.5, 3), (1.9, 1)])
def test_cpus_per_client_decides_how_many_actors_fit(cpus_per_client, actors):
    """1.9 CPUs beside the server's share."""
    placement = plan(15, 2, 0, Request(cpus_per_client=cpus_per_client))
    assert placement == Placement(actors, cpus_per_client, 0.0)


def test_the_servers_bundle_comes_first():
    assert Placement(2, 0.5, 0.0).bundles() == [{"CPU": SERVER_CPUS}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert Placement(1, 1.0, 0.25).bundles() == [{"CPU": SERVER_CPUS}, {"CPU": 1.0, "GPU": 0.25}]


@pytest.mark.parametrize(
    ("cpus", "gpus", "request_", "message"),
    [
        (2, 0, Request(clients_per_actor=0), "--clients-per-actor 0: expected 1 to 15"),
        (2, 0, Request(cpus_per_client=-1), "--cpus-per-client -1: expected more than 0, at most 1.9"),
        (2, 0, Request(cpus_per_client=2), "--cpus-per-client 2: expected more than 0, at most 1.9"),
        (2, 1, Request(gpus_per_client=1.5), "--gpus-per-client 1.5: expected 0 to 1"),
        (2, 0, Request(gpus_per_client=0.5), "the cluster has no GPU; leave it out"),
        (0, 0, Request(), "the cluster has 0 CPUs; a run needs one at least"),
        (16, 1, Request(clients_per_actor=1, gpus_per_client=0.25), "--clients-per-actor 4 would"),
        (2, 0, Request(clients_per_actor=1, cpus_per_client=0.5), "--clients-per-actor 5 would"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(cpus, gpus, request_, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan(15, cpus, gpus, request_)


CLUSTERS = tuple(product((1, 2, 4, 16), (0, 1, 2)))
REQUESTS = tuple(
    Request(*choice)
    for choice in product((None, 1, 5), (None, 0.01, 0.25, 0.9), (None, 0, 0.05, 0.4, 0.7, 1))
)


@pytest.mark.parametrize(("cpus", "gpus"), CLUSTERS)
def test_what_is_planned_fits_and_so_does_what_is_advised(cpus, gpus):
    for num_clients, request in product((1, 15, 1000), REQUESTS):
        placement = follow_advice(num_clients, cpus, gpus, request)
        if placement is None:
            continue
        assert 1 <= placement.num_actors <= num_clients
        assert sum(bundle["CPU"] for bundle in placement.bundles()) <= cpus + 1e-9
        if placement.gpus_per_actor:
            assert placement.num_actors <= gpus * int(1 / placement.gpus_per_actor + 1e-9)


def follow_advice(num_clients, cpus, gpus, request):
    """Return the placement, of the advised request where this one is refused; None without advice."""
    try:
        return plan(num_clients, cpus, gpus, request)
    except ConfigError as error:
        advice = re.search(r"--clients-per-actor (\d+) would$", str(error))
    if advice is None:
        return None
    advised = Request(int(advice[1]), request.cpus_per_client, request.gpus_per_client)
    return plan(num_clients, cpus, gpus, advised)

"""What holds for every registered algorithm, on a federation small enough to see through.

A new algorithm is tested here by being registered. If its defaults do not act within six rounds, settings in
`ACTING` and `EAGER` that do test more of it.
"""

from functools import cache

import numpy as np
import pytest

from fedgrid.algorithms.averaging.fedopt import FedOptSettings
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from tests.helpers.small_cases import (
    Federation,
    build_layout,
    build_orders,
    build_replies,
    check_valid,
    clients,
    copy_state,
    freeze,
    frozen,
    has_same_bits,
    partition,
    rng,
    start,
    step,
)

NAMES = [name for name in ALGORITHMS if name not in ("fedem", "fesem", "fedsoft", "pacfl", "flexcfl")]
"""Algorithms for which fake replies do: the others need those of clients with data (tests/rivals)."""
ALONE = ("solo", "fedamp")
"""Algorithms whose clients are apart from the start."""
CHOOSING = ("ifca", "flis-dc", "flis-dc-as-published")
"""Algorithms whose clients choose among models in every round."""
RIGHT = [name for name in NAMES if not name.endswith("-as-published") and name not in (*ALONE, "ifca")]
"""Algorithms that keep clients with the same updates in one cluster."""

ACTING = {
    "sattler": {"epsilon_1": 1.0, "epsilon_2": 1.0, "cooldown": 3},
    "sattler-as-published": {"epsilon_1": 1.5, "epsilon_2": 1.0, "cooldown": 2},
    "briggs": {"round": 4},
    "ward-told": {"round": 4},
    "briggs-as-published": {"round": 4, "threshold": 0.5},
    "louvain": {"late": 4},
    "leiden": {"late": 4},
    "evident-groups": {"restarts": 1},
}
"""Settings with which an algorithm acts in round 3 or 4 of the federation's six."""
EAGER = {
    "sattler": {"epsilon_1": 1e6, "epsilon_2": 1e-6, "cooldown": 0},
    "sattler-as-published": {"epsilon_1": 1e6, "epsilon_2": 1e-6, "cooldown": 0},
    "briggs": {"round": 2},
    "ward-told": {"round": 1},
    "briggs-as-published": {"round": 2},
    "evident-groups": {"restarts": 1},
}
"""Settings with which an algorithm acts in round 1 if it can at all."""


EVERYBODY, TWO_THIRDS = 1.0, 2 / 3
"""Shares of the clients that are there in a round: twelve or eight."""


def acting(name, **overrides):
    """Return an algorithm with settings that make it act; `overrides` are the server's."""
    has_server = isinstance(ALGORITHMS[name].settings, FedOptSettings)
    return create_algorithm(name, {**ACTING.get(name, {}), **(overrides if has_server else {})})


@cache
def six_rounds(name, server_optimizer="none", participation=EVERYBODY):
    """Return the federation's six rounds of an algorithm with settings that make it act."""
    return Federation(participation=participation).play(acting(name, server_optimizer=server_optimizer))


def acted(name):
    """Return the rounds, from 0, in which an algorithm decides on a partition."""
    return [index for index, (_, diagnostics) in enumerate(six_rounds(name)) if diagnostics.clustered]


BY_UPDATES = (
    "sattler",
    "briggs",
    "ocfl-kmeans",
    "ocfl-meanshift",
    "evident-groups",
    "louvain",
    "leiden",
    "ward-told",
)


@pytest.mark.parametrize("name", BY_UPDATES)
def test_algorithm_that_clusters_by_updates_acts(name):
    assert min(acted(name)) > 0


@pytest.mark.parametrize("name", NAMES)
def test_algorithm_that_acts_later_is_fedopt_to_the_bit_until_then(name):
    first = min(acted(name), default=0)
    assert first != 1
    for (state, _), (reference, _) in zip(six_rounds(name)[:first], six_rounds("fedavg"), strict=False):
        assert partition(state) == {frozenset(range(12))}
        assert state.models[0].tobytes() == reference.models[0].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_algorithm_that_says_that_it_trains_plainly_sends_no_rule(name):
    algorithm = create_algorithm(name, {})
    orders = build_orders(algorithm, start(algorithm, 4), range(4)).values()
    assert not algorithm.traits.trains_plainly or {order.rule for order in orders} == {PLAIN}


@pytest.mark.parametrize("name", ["fedavg", "ocfl-kmeans", "ifca", "flis-dc", "flis-hc", "louvain"])
def test_algorithm_with_a_local_rule_does_not_train_plainly(name):
    assert not create_algorithm(name, {"local": {"name": "fedprox", "mu": 0.1}}).traits.trains_plainly
    assert create_algorithm(name, {"local": {"name": "fedprox", "mu": 0}}).traits.trains_plainly


@pytest.mark.parametrize("name", NAMES)
def test_partition_changes_only_in_rounds_reported_as_clustered(name):
    before = Federation().start(acting(name))
    for state, diagnostics in six_rounds(name):
        if partition(state) != partition(before):
            assert diagnostics.clustered
        before = state


@pytest.mark.parametrize(
    "name", ["briggs", "ocfl-kmeans", "ocfl-affinity", "ocfl-hdbscan", "louvain", "leiden"]
)
def test_the_hidden_groups_are_found(name):
    state, _ = six_rounds(name)[-1]
    assert partition(state) == {frozenset(range(group, 12, 3)) for group in range(3)}


@pytest.mark.parametrize(("server_optimizer", "participation"), [("none", EVERYBODY), ("adam", TWO_THIRDS)])
@pytest.mark.parametrize("name", NAMES)
def test_every_state_is_valid(name, server_optimizer, participation):
    check_valid(Federation().start(acting(name, server_optimizer=server_optimizer)), 12)
    for state, _ in six_rounds(name, server_optimizer, participation):
        check_valid(state, 12)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_a_function_that_leaves_its_arguments_alone(name):
    """A used object and a fresh one give the same; the arrays are read-only, and hold what they held."""
    federation, algorithm = Federation(), acting(name)
    for round_index, before in enumerate(
        [federation.start(algorithm), *(state for state, _ in six_rounds(name)[:5])]
    ):
        vectors = federation.vectors(round_index, before, algorithm)
        kept = {client: vector.tobytes() for client, vector in vectors.items()}
        given, copy = freeze(before), copy_state(before)
        (first, said), (second, said_again) = (
            one.step(
                given,
                round_index,
                build_replies(one, given, round_index, vectors, federation.num_buffers),
                rng(round_index),
            )
            for one in (algorithm, acting(name))
        )
        assert has_same_bits(first, second)
        assert said == said_again
        assert has_same_bits(given, copy)
        assert {client: vector.tobytes() for client, vector in vectors.items()} == kept


@pytest.mark.parametrize(("server_optimizer", "participation"), [("none", EVERYBODY), ("adam", TWO_THIRDS)])
@pytest.mark.parametrize("name", NAMES)
def test_run_resumed_after_any_round_continues_with_the_same_bits(name, server_optimizer, participation):
    """All that an algorithm knows is in its state: a fresh object and plain arrays are enough.

    It is resumed before each of the rounds: if each is the same, so are all that follow.
    """
    federation = Federation(participation=participation)
    whole = six_rounds(name, server_optimizer, participation)
    for done in range(1, 6):
        algorithm, before = acting(name, server_optimizer=server_optimizer), copy_state(whole[done - 1][0])
        [(state, diagnostics)] = federation.play(algorithm, [done], before)
        assert has_same_bits(state, whole[done][0])
        assert diagnostics == whole[done][1]


@pytest.mark.parametrize("participation", [EVERYBODY, TWO_THIRDS])
@pytest.mark.parametrize("name", NAMES)
def test_a_permutation_of_the_clients_permutes_the_partition_and_nothing_else(name, participation):
    order = tuple(int(client) for client in rng(11).permutation(12))
    algorithm = acting(name)
    usual = six_rounds(name, participation=participation)
    permuted = Federation(participation=participation, order=order).play(algorithm)
    for (state, said), (other, other_said) in zip(usual, permuted, strict=True):
        # Where a client goes that was never seen is decided by its id, if the largest clusters tie.
        unseen = state.arrays["classes_KM"][:, 0] < 0 if name.startswith("flis") else np.zeros(12, bool)
        renamed = {frozenset(order[client] for client in cluster) for cluster in partition(other)}
        nobody = frozenset(np.flatnonzero(unseen).tolist())
        assert {cluster - nobody for cluster in renamed} == {cluster - nobody for cluster in partition(state)}
        assert said.clustered == other_said.clustered
        assert set(said.placed) == {order[client] for client in other_said.placed}
        served, other_served = (algorithm.served(each, build_layout(16, 4)) for each in (state, other))
        assert served.choosing == {order[client] for client in other_served.choosing}
        for client in set(range(12)) - other_served.choosing:
            np.testing.assert_allclose(
                other_served.models[other_served.model_K[client]],
                served.models[served.model_K[order[client]]],
                rtol=1e-6,
                atol=1e-5,
            )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CHOOSING])
def test_clusters_without_an_update_stay_as_they_are(name):
    """After round 4 only the clients of client 0's cluster send anything."""
    federation, algorithm = Federation(), acting(name)
    before, _ = six_rounds(name)[4]
    present = before.members(int(before.labels_K[0]))
    vectors = federation.vectors(5, before, algorithm)
    after, _ = step(
        algorithm, before, 5, {client: vectors[client] for client in present}, federation.num_buffers
    )
    check_valid(after, 12)
    for client in set(range(12)) - set(present):
        old, new = int(before.labels_K[client]), int(after.labels_K[client])
        assert after.members(new) == before.members(old)
        assert after.models[new].tobytes() == before.models[old].tobytes()


SIX = [(3.0, 1.0), (3.0, 1.5), (-1.0, 2.0), (-1.0, 2.5), (-2.0, -3.0), (-2.0, -3.5)]
DEGENERATE = {
    "all identical": (6, clients(*[(1, 2)] * 6)),
    "all zero": (6, clients(*[(0, 0)] * 6)),
    "one zero": (6, clients((0, 0), *SIX[1:])),
    "all but one zero": (6, clients(*[(0, 0)] * 5, (1, 1))),
    "equal up to rounding": (6, clients(*[(1, 1 + 1e-7 * client) for client in range(6)])),
    "one client": (1, clients((1, 2))),
    "two clients": (2, clients((1, 0), (0, 1))),
    "two identical clients": (2, clients((1, 1), (1, 1))),
    "two opposite clients": (2, clients((1, 0), (-1, 0))),
    "three clients": (3, clients((1, 0), (0, 1), (-1, -1))),
    "half of the clients missing": (6, {0: SIX[0], 3: SIX[3], 5: SIX[5]}),
    "all but two clients missing": (6, {1: SIX[1], 4: SIX[4]}),
    "all but one client missing": (6, {4: SIX[4]}),
    "tiny updates": (6, clients(*[(1e-18 * x, 1e-18 * y) for x, y in SIX])),
    "huge updates": (6, clients(*[(1e15 * x, 1e15 * y) for x, y in SIX])),
    "one huge update": (6, clients((1e12, 1e12), *SIX[1:])),
}
ALIKE = ("all identical", "all zero", "one client", "two identical clients")


@pytest.mark.parametrize("name", NAMES)
def test_degenerate_rounds_raise_nothing_and_split_no_clients_that_are_alike(name):
    """Round 0 is cold (parallel updates), then the case comes four times, then the clients are back."""
    algorithm = create_algorithm(name, EAGER.get(name, {}))
    for case, (num_clients, vectors) in DEGENERATE.items():
        print(case)  # Shown with a failure.
        cold = clients(*[(1.0, 1.0)] * num_clients)
        state = start(algorithm, num_clients)
        for round_index, given in enumerate([cold, *[vectors] * 4, clients(*SIX[:num_clients])]):
            state, _ = step(algorithm, state, round_index, given)
            check_valid(state, num_clients)
            if case in ALIKE and name in RIGHT and round_index < 5:
                assert partition(state) == {frozenset(range(num_clients))}


@pytest.mark.parametrize("name", NAMES)
def test_clients_missing_from_the_first_round_on_are_in_a_cluster_and_in_no_mean(name):
    """Clients 1 and 8 are gone in every round: they are always in a cluster and never in a mean."""
    federation, algorithm = Federation(), acting(name)
    state = federation.start(algorithm)
    for round_index in range(6):
        vectors = federation.vectors(round_index, state, algorithm)
        loud = {**vectors, 1: frozen(np.full(20, 1e9)), 8: frozen(np.full(20, -1e9))}
        present = {client: vector for client, vector in loud.items() if client not in (1, 8)}
        state, _ = step(algorithm, state, round_index, present, federation.num_buffers)
        check_valid(state, 12)
        assert max(abs(model).max() for model in state.models) < 100


@pytest.mark.parametrize("name", NAMES)
def test_every_sampled_client_has_an_order_with_models_that_exist(name):
    algorithm = acting(name)
    for round_index, (state, _) in enumerate(six_rounds(name), start=1):
        for sampled in (range(12), (1, 5, 8)):
            orders = build_orders(algorithm, state, sampled, round_index)
            assert set(orders) == set(sampled)
            for order in orders.values():
                assert order.candidates
                assert set(order.candidates) <= set(range(len(state.models)))


@pytest.mark.parametrize("name", ["ocfl-kmeans", "ocfl-affinity", "ocfl-hdbscan"])
def test_the_hidden_groups_are_found_with_partial_participation(name):
    """Who was absent at the split, in round 3 or 4, has come since."""
    state, _ = Federation(participation=TWO_THIRDS).play(acting(name), range(8))[-1]
    assert partition(state) == {frozenset(range(group, 12, 3)) for group in range(3)}

"""Communities of models: attributions, newcomers, old models, `late`."""

import numpy as np
import pytest

from fedgrid.algorithms.clustered.while_training.communities import number_starts, weigh_nearest
from fedgrid.algorithms.contract.section import find_idle_keys
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from tests.helpers.small_cases import (
    Federation,
    build_orders,
    build_updates,
    check_valid,
    clients,
    copy_state,
    frozen,
    has_same_bits,
    partition,
    play,
    read_model,
    rng,
    sets,
    start,
    step,
)

LIBRARIES = ["louvain", "leiden"]
ATTRIBUTIONS = ["avg", "1nn", "wnn"]
FOUR = {0: 1, 1: 2, 2: 11, 3: 13}
"""Clients on a line. Similarities (12 - d) / 11: 1 and 0.91 within {0, 1} and {2, 3}, at most 0.27 across;
community models 1.5 and 12, global model 6.75."""


def euclidean(name="louvain", **settings):
    return create_algorithm(name, {"distance": "euclidean", **settings})


def sent(algorithm, state, client):
    """Return where on the line the model lies that `client` is sent."""
    (model,) = build_orders(algorithm, state, [client])[client].candidates
    return float(state.models[model][0])


def visit(algorithm, state, round_index, places):
    """Take a step in which each client of `places` trains to that place on the line, from its start."""
    updates = {client: (place - sent(algorithm, state, client), 0.0) for client, place in places.items()}
    return step(algorithm, state, round_index, updates)


def visits(algorithm, num_clients, *rounds):
    state, diagnostics = start(algorithm, num_clients), None
    for round_index, places in enumerate(rounds):
        state, diagnostics = visit(algorithm, state, round_index, places)
        check_valid(state, num_clients)
    return state, diagnostics


def places_of(state):
    return [float(model[0]) for model in state.models]


def test_avg_starts_everyone_from_the_mean_of_the_community_models():
    """Also where communities differ in size: (4/3 + 12) / 2, with a third client at 1."""
    algorithm = euclidean(attribution="avg")
    state, _ = visits(algorithm, 4, FOUR)
    assert places_of(state) == [1.5, 12, 6.75]
    assert [sent(algorithm, state, client) for client in range(4)] == [6.75] * 4
    state, _ = visits(algorithm, 5, {**FOUR, 4: 1})
    assert sent(algorithm, state, 0) == pytest.approx((4 / 3 + 12) / 2)


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
def test_global_model_is_the_mean_of_the_community_models_whatever_clients_start_from(attribution):
    """Before the first round it is the initial model."""
    algorithm = euclidean(attribution=attribution)
    assert algorithm.global_model(start(algorithm, 4, (3.0, 1.0))).tolist() == [3, 1]
    state, _ = visits(algorithm, 4, FOUR)
    assert algorithm.global_model(state).tolist() == [6.75, 0]


def test_1nn_starts_a_client_from_the_community_model_nearest_to_its_own():
    algorithm = euclidean(attribution="1nn")
    state, _ = visits(algorithm, 4, FOUR)
    assert [sent(algorithm, state, client) for client in range(4)] == [1.5, 1.5, 12, 12]
    assert len(state.models) == 2


def test_wnn_starts_a_client_from_a_mixture_of_the_nearest():
    """Client 0 is 0.5 and 11 away: with beta = ln 3 / 10.5 its weights are as 3 to 1, 0.75 * 1.5 + 3."""
    algorithm = euclidean(attribution="wnn", beta=np.log(3) / 10.5)
    state, _ = visits(algorithm, 4, FOUR)
    assert sent(algorithm, state, 0) == pytest.approx(4.125)
    assert len({sent(algorithm, state, client) for client in range(4)}) == 4
    assert read_model(state, 0) == [1.5, 0]


def test_wnn_weights_by_hand():
    """Distances 2, 1, 4 and beta = ln 2: the weights halve with each unit, 1/2, 1 and 1/8."""
    distances_NC = np.array([[2.0, 1.0, 4.0]])
    np.testing.assert_array_equal(weigh_nearest(distances_NC, 1, np.log(2)), [[0, 1, 0]])
    np.testing.assert_allclose(weigh_nearest(distances_NC, 2, np.log(2)), [[1 / 3, 2 / 3, 0]])
    for neighbours in (3, 10):
        weights_NC = weigh_nearest(distances_NC, neighbours, np.log(2))
        np.testing.assert_allclose(weights_NC, np.array([[4, 8, 1]]) / 13)


def test_each_mixture_is_made_once():
    models = [frozen([0.0]), frozen([8.0])]
    mixtures, start_K = number_starts(models, np.array([[0.5, 0.5], [0, 1], [0.25, 0.75], [0.5, 0.5]]))
    assert [float(model[0]) for model in mixtures] == [4, 6]
    assert start_K.tolist() == [2, 1, 3, 2]


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
def test_newcomers_start_from_the_global_model(attribution):
    """Client 4 was never there: (4/3 + 12) / 2 it is, and counted with the larger community."""
    algorithm = euclidean(attribution=attribution)
    state, _ = visits(algorithm, 6, {**FOUR, 5: 14})
    assert partition(state) == sets([0, 1], [2, 3, 4, 5])
    assert sent(algorithm, state, 4) == pytest.approx((1.5 + 38 / 3) / 2)
    state, _ = visit(algorithm, state, 1, {4: 0})
    assert partition(state) == sets([0, 1, 4], [2, 3, 5])


DRIFTED = ({0: 1, 1: 2, 2: 5, 3: 6, 4: -100}, {0: 1, 1: 2, 2: 5, 3: 6})
"""Client 4 is far off in round 1, and absent in round 2."""


def test_an_old_model_hides_the_others_differences():
    """Next to 106, all distances of at most 5 are similarities above 0.88: one community.

    Client 4 joins it: of 2m links in all its e gain e - e (2m - e) / 2m > 0, however few they are.
    """
    state, _ = visits(euclidean(), 5, *DRIFTED)
    assert partition(state) == sets([0, 1, 2, 3, 4])


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
def test_an_old_model_can_be_left_out(attribution):
    """Client 4 then has no part in graph and means, and is labelled with the nearest community, at 1.5.

    It starts from that one (1NN), from the mean of 1.5 and 5.5 (AVG), or from a mixture: it is 101.5 and
    105.5 away, weights as 1 to e^-4.
    """
    algorithm = euclidean(attribution=attribution, max_age=0)
    state, _ = visits(algorithm, 5, *DRIFTED)
    assert partition(state) == sets([0, 1, 4], [2, 3])
    assert places_of(state)[:2] == [1.5, 5.5]
    mixture = (1.5 + 5.5 * np.exp(-4)) / (1 + np.exp(-4))
    expected = {"1nn": 1.5, "avg": 3.5, "wnn": mixture}[attribution]
    assert sent(algorithm, state, 4) == pytest.approx(expected)


def test_a_model_is_too_old_after_max_age_rounds_and_back_with_its_client():
    algorithm = euclidean(max_age=1)
    state, _ = visits(algorithm, 5, *DRIFTED)
    assert partition(state) == sets([0, 1, 2, 3, 4])
    state, _ = visits(algorithm, 5, *DRIFTED, DRIFTED[1])
    assert partition(state) == sets([0, 1, 4], [2, 3])
    state, _ = visits(algorithm, 5, *DRIFTED, DRIFTED[1], DRIFTED[0])
    assert partition(state) == sets([0, 1, 2, 3, 4])


def test_nearness_is_relative_to_the_clients_own_model():
    """Client 4, at 2, is away from community models at 1 and 3.5.

    T is 1/2 and 1.5/2; relative to the communities' norms it would be 1/1 and 1.5/3.5.
    """
    algorithm = create_algorithm("louvain", {"max_age": 0})
    others = {0: 0.9, 1: 1.1, 2: 3.4, 3: 3.6}
    state, _ = visits(algorithm, 5, {**others, 4: 2}, others)
    assert partition(state) == sets([0, 1, 4], [2, 3])
    assert sent(algorithm, state, 4) == pytest.approx(1)


@pytest.mark.parametrize(
    ("distance", "groups"), [("euclidean", sets([0, 1], [2, 3])), ("cosine", sets([0, 2], [1, 3]))]
)
def test_other_distances_find_the_communities(distance, groups):
    """Two short and two long vectors, in two directions."""
    vectors = clients((3, 1), (3, -1), (30, 10), (30, -10))
    algorithm = create_algorithm("leiden", {"distance": distance})
    assert partition(step(algorithm, start(algorithm, 4), 0, vectors)[0]) == groups


def test_resolution_and_exponent_change_the_communities():
    """Pairs 1 apart, two pairs of a group 10 apart, two groups 60: similarities 1, 0.66 and 0.004.

    A client's links are 2.35, all of them 18.7. Two pairs gain 4 * 0.66 - r 4.7^2 / 18.7 by joining, at a
    resolution r up to 2.2, and the two of a pair 1 - r 2.35^2 / 18.7, up to 3.4. With exponent 20 the
    middle similarity is 0.06, and two pairs gain 0.25 - r 2.25^2 / 9 < 0.
    """
    places = dict(enumerate([0, 1, 10, 11, 60, 61, 70, 71]))

    def found(**settings):
        return partition(visits(euclidean(**settings), 8, places)[0])

    groups, pairs = sets([0, 1, 2, 3], [4, 5, 6, 7]), sets([0, 1], [2, 3], [4, 5], [6, 7])
    assert found() == groups
    assert found(resolution=2.7) == pairs
    assert found(exponent=20) == pairs


def test_the_silhouette_is_of_the_distances_between_models():
    """Mean distances to one's own and to the others: 1 and 11, 1 and 10, 2 and 9.5, 2 and 11.5."""
    _, diagnostics = visits(euclidean(), 4, FOUR)
    expected = (10 / 11 + 9 / 10 + 7.5 / 9.5 + 9.5 / 11.5) / 4
    assert diagnostics.silhouette == pytest.approx(expected, rel=1e-5)


def test_weights_count_in_community_models_also_for_a_client_that_is_absent():
    """(1 x 1 + 3 x 2) / 4 = 1.75 and (11 + 13) / 2; 13 is absent, its weight is not: (3 x 11 + 13) / 4."""
    algorithm = euclidean()
    state = start(algorithm, 4)
    for weights, ends, expected in (
        ({0: 1, 1: 3, 2: 1, 3: 1}, FOUR, [1.75, 12]),
        ({0: 1, 1: 1, 2: 3}, {0: 1, 1: 2, 2: 11}, [1.5, 11.5]),
    ):
        vectors = {client: (end - sent(algorithm, state, client), 0.0) for client, end in ends.items()}
        state, _ = algorithm.step(state, 0, build_updates(vectors, weights=weights), rng())
        assert places_of(state)[:2] == expected


@pytest.mark.parametrize("name", LIBRARIES)
def test_late_clusters_once(name):
    """One model in round 1, two from round 2 on: the mean of (0, 4) and three zeros is (0, 1) or (0, 2)."""
    across = clients((0, 4), (0, 0), (0, 0), (0, 0))
    apart = clients((2, 0), (2, 0.5), (-2, 0), (-2, 0.5))
    history = play(euclidean(name, late=2), [across, apart, across, across], 4)
    assert [diagnostics.clustered for _, diagnostics in history] == [False, True, False, False]
    assert [diagnostics.silhouette is None for _, diagnostics in history] == [True, False, True, True]
    assert [model.tolist() for model in history[0][0].models] == [[0, 1]]
    assert [model.tolist() for model in history[1][0].models] == [[2, 1.25], [-2, 1.25]]
    assert [model.tolist() for model in history[3][0].models] == [[2, 5.25], [-2, 1.25]]
    assert partition(history[3][0]) == sets([0, 1], [2, 3])


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
def test_late_knows_clients_that_are_not_there_in_its_round(attribution):
    """Clients 1 and 2 were there in round 1; client 5 never was, and joins the largest community.

    Too old for the graph, client 2 joins the community nearest to its model: 8.5 is nearer to 11 than 1.5.
    Of the equally large ones in that graph client 5 joins the first.
    """
    places = ({0: 3, 1: 2, 2: 11, 3: 8, 4: 8}, {0: 1, 1: 2, 3: 8, 4: 9})
    algorithm = euclidean(late=2, attribution=attribution)
    state, _ = visits(algorithm, 6, {**places[0], 1: 2, 2: 11}, {0: 1, 3: 8, 4: 9})
    assert partition(state) == sets([0, 1], [2, 3, 4, 5])
    assert not [name for name in state.arrays if name.startswith("client_model")]
    state, _ = visits(euclidean(late=2, max_age=0, attribution=attribution), 6, *places)
    assert partition(state) == sets([0, 1, 5], [2, 3, 4])


def test_the_server_optimizer_acts_with_late_only():
    settings = {"server_learning_rate": 0.5}
    usual = ALGORITHMS["louvain"].settings
    assert find_idle_keys(euclidean(**settings).settings, usual)["server_learning_rate"] == "late"
    assert "server_learning_rate" not in find_idle_keys(euclidean(late=5, **settings).settings, usual)
    state, _ = visits(euclidean(late=5, **settings), 4, FOUR)
    assert places_of(state) == [6.75 / 2]


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_hidden_groups_are_found_also_if_interrupted(name, attribution):
    settings = {"attribution": attribution, "max_age": 2}
    first = Federation().play(create_algorithm(name, settings), range(3))
    history = Federation().play(create_algorithm(name, settings), range(3, 6), copy_state(first[-1][0]))
    assert has_same_bits(history[-1][0], Federation().play(create_algorithm(name, settings))[-1][0])
    assert partition(history[-1][0]) == {frozenset(range(group, 12, 3)) for group in range(3)}
    assert history[-1][1].silhouette > 0.5


def test_latest_models_stay_in_the_graph_and_in_the_means():
    """In round 2 client 1 alone trains, from 1 to 3: the community is now at (1 + 3) / 2."""
    state, _ = visits(euclidean(), 4, FOUR, {1: 3})
    assert partition(state) == sets([0, 1], [2, 3])
    assert places_of(state) == [2, 12]


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_permutation_of_the_clients_permutes_the_partition(name, attribution):
    """Where the answer is clear: in rounds 0 and 1, of mere noise, both libraries depend on the order."""
    order = (4, 9, 0, 11, 7, 2, 5, 10, 1, 3, 8, 6)
    settings = {"attribution": attribution}
    usual = Federation().play(create_algorithm(name, settings), range(2, 6))
    permuted = Federation(order=order).play(create_algorithm(name, settings), range(2, 6))
    for (state, said), (other, other_said) in zip(usual, permuted, strict=True):
        renamed = {frozenset(order[client] for client in cluster) for cluster in partition(other)}
        assert renamed == partition(state)
        assert said.silhouette == pytest.approx(other_said.silhouette, rel=1e-3)

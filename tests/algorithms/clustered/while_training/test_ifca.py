"""IFCA: Ghosh et al. 2020, Algorithm 1."""

import numpy as np

from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import Layout
from fedgrid.algorithms.updates.updates import Updates
from tests.helpers.small_cases import Federation, build_orders, frozen, rng, start
from tests.helpers.small_runs import config, play, rows

TWO_LAYERS = Layout(("0.weight", "0.bias", "2.weight"), ((2,), (1,), (1,)), 4)


def ifca(**settings):
    return create_algorithm("ifca", settings)


def state_of(algorithm, models, num_clients, layout=TWO_LAYERS):
    return algorithm.init(layout, num_clients, lambda number: frozen(models[number]), rng())


def take(algorithm, state, replies, layout=TWO_LAYERS, **options):
    """Take a step; `replies` are by client the chosen model and the update."""
    vectors = {client: frozen(update) for client, (_, update) in replies.items()}
    chosen = {client: model for client, (model, _) in replies.items()}
    return algorithm.step(state, 0, Updates(vectors, layout, chosen=chosen, **options), rng())


class TestAveraging:
    """Three models 0, 10 and 20 of one entry; four clients."""

    ONE = Layout(("0.weight",), ((1,),), 1)

    def step(self, replies, **options):
        algorithm = ifca()
        state = state_of(algorithm, [[0.0], [10.0], [20.0]], 4, self.ONE)
        return take(algorithm, state, replies, self.ONE, **options)

    def test_each_model_takes_the_mean_of_those_that_chose_it_and_an_empty_one_stays(self):
        """Model 0: (1 + 3) / 2; model 1: 5; nobody chose model 2."""
        state, said = self.step({0: (0, [1.0]), 1: (1, [5.0]), 3: (0, [3.0])})
        assert [float(model[0]) for model in state.models] == [2.0, 15.0, 20.0]
        assert said.counts == (2, 1, 0)
        assert said.clustered

    def test_cluster_of_a_client_is_its_last_choice_and_of_one_never_asked_the_largest(self):
        state, _ = self.step({0: (1, [1.0]), 1: (2, [5.0]), 3: (1, [3.0])})
        assert state.labels_K.tolist() == [1, 2, 1, 1]

    def test_those_that_were_not_asked_choose_again_at_the_test(self):
        algorithm = ifca(choose_on="batch")
        state = state_of(algorithm, [[0.0], [10.0], [20.0]], 4, self.ONE)
        state, _ = take(algorithm, state, {0: (1, [1.0]), 3: (2, [3.0])}, self.ONE)
        served = algorithm.served(state, TWO_LAYERS)
        assert served.choosing == {1, 2}
        assert served.choose_on == "batch"
        assert [served.model_K[0], served.model_K[3]] == [1, 2]
        assert len(served.models) == 3

    def test_all_in_one_model_warns_with_the_counts_once(self):
        algorithm = ifca()
        state = state_of(algorithm, [[0.0], [10.0], [20.0]], 4, self.ONE)
        together = {client: (1, [1.0]) for client in range(4)}
        state, said = take(algorithm, state, together, self.ONE)
        assert len(said.warnings) == 1
        assert "0, 4, 0" in said.warnings[0]
        _, again = take(algorithm, state, together, self.ONE)
        assert again.warnings == ()
        assert again.counts == (0, 4, 0)


class TestShared:
    """Two models of two layers: entries 0 to 2 are the first layer, entry 3 the second."""

    def test_shared_layers_are_the_first_models_and_take_the_mean_over_everybody(self):
        """Updates 1, 2, 6; clients 0 and 1 chose model 0, client 2 model 1: shared 3, else 1.5 and 6."""
        algorithm = ifca(num_clusters=2, shared=1)
        state = state_of(algorithm, [[0, 0, 0, 0], [9, 9, 9, 9]], 3)
        assert [model.tolist() for model in state.models] == [[0, 0, 0, 0], [0, 0, 0, 9]]
        replies = {0: (0, [1] * 4), 1: (0, [2] * 4), 2: (1, [6] * 4)}
        state, _ = take(algorithm, state, replies)
        assert [model.tolist() for model in state.models] == [[3, 3, 3, 1.5], [3, 3, 3, 15]]

    def test_moments_of_a_server_optimizer_are_shared_likewise(self):
        algorithm = ifca(num_clusters=2, shared=1, server_optimizer="momentum")
        state = state_of(algorithm, [[0, 0, 0, 0], [9, 9, 9, 9]], 2)
        state, _ = take(algorithm, state, {0: (0, [1] * 4), 1: (1, [3] * 4)})
        assert state.arrays["cluster_first"].tolist() == [[2, 2, 2, 1], [2, 2, 2, 3]]

    def test_shared_layers_are_sent_once(self):
        """One entry of 4 bytes twice and three once: 20 bytes; nothing shared: 32."""
        for shared, expected in ((0, 32), (1, 20), (2, 16)):
            algorithm = ifca(num_clusters=2, shared=shared)
            state = state_of(algorithm, [[0] * 4, [1] * 4], 2)
            order = build_orders(algorithm, state, [0])[0]
            assert algorithm.traffic(order, TWO_LAYERS).down == expected


class TestStart:
    def test_dealt_models_are_trained_by_as_many_clients_each_in_round_1_only(self):
        algorithm = ifca(start="deal")
        state = start(algorithm, 9)
        dealt = [order.candidates for order in build_orders(algorithm, state, range(9)).values()]
        assert sorted(dealt) == [(0,)] * 3 + [(1,)] * 3 + [(2,)] * 3
        assert len(build_orders(algorithm, state, range(9), 1)[0].candidates) == 3

    def test_equal_losses_are_decided_at_random_and_the_same_again(self):
        """The first candidate wins a tie; each of three is first for some of 30 clients."""
        algorithm = ifca()
        state = start(algorithm, 30)
        first, again = (build_orders(algorithm, state, range(30)) for _ in range(2))
        assert {order.candidates[0] for order in first.values()} == {0, 1, 2}
        assert first == again

    def test_models_that_too_few_choose_are_drawn_again_and_at_most_so_often(self):
        """Ten clients, a least share of 0.3: counts 8, 2 are refused, twice; then they are taken."""
        algorithm = ifca(num_clusters=2, start="rejection", least_share=0.3, redraws=2)
        state = state_of(algorithm, [[1, 2, 3, 4], [5, 6, 7, 8]], 10)
        uneven = {client: (int(client > 7), [1.0] * 4) for client in range(10)}
        for left in (1, 0):
            before = state
            state, said = take(algorithm, state, uneven)
            assert said.counts == (8, 2)
            assert f"8, 2 clients: drawn again, {left} redraws left" in said.warnings[0]
            assert [sorted(model) for model in state.models] == [sorted(model) for model in before.models]
        assert [model[3] for model in state.models] == [4, 8], "entries stay in their tensor"
        after, said = take(algorithm, state, uneven)
        assert said.warnings == ()
        assert after.models[0].tolist() == (state.models[0] + 1).tolist()

    def test_models_that_enough_choose_are_kept(self):
        algorithm = ifca(num_clusters=2, start="rejection", least_share=0.2, redraws=2)
        state = state_of(algorithm, [[0] * 4, [9] * 4], 10)
        replies = {client: (int(client > 7), [1.0] * 4) for client in range(10)}
        state, said = take(algorithm, state, replies)
        assert [model.tolist() for model in state.models] == [[1] * 4, [10] * 4]
        assert said.warnings == ()
        state, said = take(algorithm, state, {client: (0, [1.0] * 4) for client in range(10)})
        assert "drawn again" not in said.warnings[0], "the start is over"


def test_one_model_is_fedavg():
    one, plain = (
        Federation().play(algorithm) for algorithm in (ifca(num_clusters=1), create_algorithm("fedavg"))
    )
    assert [state.models[0].tobytes() for state, _ in one] == [
        state.models[0].tobytes() for state, _ in plain
    ]


def recovers(seed, num_models, dimension=20, per_group=10, images=40, sigma=0.1, rounds=60):
    """Run IFCA on mixed linear regressions; return whether each true vector has a model next to it.

    Section 6.1 of the paper: y = <x, theta_j> + sigma noise, theta_j with entries 0 or 1, initial models with
    entries 0 or 1, one gradient step a round. Success: a distance of less than 0.6 sigma.
    """
    draw, count = rng(seed), num_models * per_group
    truth = draw.integers(0, 2, (num_models, dimension)).astype(float)
    inputs = draw.standard_normal((count, images, dimension))
    group_K = np.arange(count) % num_models
    outputs = np.einsum("knd,kd->kn", inputs, truth[group_K]) + sigma * draw.standard_normal((count, images))
    initial = draw.integers(0, 2, (num_models, dimension)).astype(np.float32)
    layout = Layout(("weight",), ((dimension,),), dimension)
    algorithm = ifca(num_clusters=num_models)
    state = algorithm.init(layout, count, lambda number: initial[number], rng())
    for _ in range(rounds):
        errors = np.einsum("knd,cd->ckn", inputs, np.stack(state.models)) - outputs
        chosen = (errors**2).mean(axis=2).argmin(axis=0)
        gradients = np.einsum("kn,knd->kd", errors[chosen, np.arange(count)], inputs) / images
        replies = {client: (int(chosen[client]), -0.1 * gradients[client]) for client in range(count)}
        state, _ = take(algorithm, state, replies, layout)
    distances = np.linalg.norm(truth[:, None] - np.stack(state.models), axis=2)
    return bool((distances.min(axis=1) < 0.6 * sigma).all())


def test_models_of_mixed_linear_regressions_are_recovered_for_nine_of_ten_seeds():
    assert sum(recovers(seed, 2) for seed in range(10)) >= 9


def test_counts_are_recorded_each_round(tmp_path):
    """Half of six clients are asked."""
    run = config({"name": "ifca", "num_clusters": 2}, participation=0.5)
    play(run, tmp_path)
    trained = [row for row in rows(run, tmp_path, "clients") if row["part"] == "trained"]
    for row in rows(run, tmp_path, "rounds"):
        labels = [each["cluster"] for each in trained if each["round"] == row["round"]]
        assert row["counts"] == [labels.count(0), labels.count(1)]

"""FLIS-HC: Morafah et al. 2022, Algorithm 3, and the two variants of the released code."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedgrid.algorithms.contract.orders import PREDICTIONS, Presence
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import InMemorySource
from fedgrid.algorithms.updates.updates import Updates
from tests.helpers.small_cases import build_layout, frozen, partition, rng, sets
from tests.helpers.small_runs import config, play

REFERENCES = {"reference_images": 20}
CLASSES = dict(
    enumerate([(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1), (0, 0, 0, 1)])
)
"""Of four images, clients 0, 2 and 5 predict class 0 on at least three, the others class 1."""


def hc(**settings):
    return create_algorithm("flis-hc", settings)


def begin(algorithm, num_clients=6):
    return algorithm.init(build_layout(1), num_clients, lambda number: frozen([10.0]), rng())


def orders(algorithm, state, joined, sampled):
    return {
        each.client: each
        for each in algorithm.orders(state, 1, Presence(joined, sampled), build_layout(1), rng())
    }


def take(algorithm, state, updates, sampled=None, weights=None, classes=None):
    """Take a step; `updates` are numbers by client, whose order the state decides."""
    asked = orders(algorithm, state, tuple(updates), tuple(updates))
    predictions = {
        client: frozen(np.eye(2)[list((classes or CLASSES)[client])])
        for client in updates
        if asked[client].infer
    }
    view = Updates(
        InMemorySource(
            {client: frozen([update]) for client, update in updates.items()}, {PREDICTIONS: predictions}
        ),
        build_layout(1),
        clients=updates,
        chosen={client: asked[client].candidates[0] for client in updates},
        sampled=sampled,
        weights=weights,
    )
    return algorithm.step(state, 0, view, rng())


def trained(state, client):
    """Return the model that a client is sent next, a number."""
    start_K = state.arrays.get("start_K", state.labels_K)
    return float(state.models[start_K[client]][0])


EVERYBODY = {client: float(client) for client in range(6)}


class TestText:
    def test_everybody_trains_in_round_1_and_then_those_that_are_sampled(self):
        algorithm = hc()
        state = begin(algorithm)
        first = orders(algorithm, state, tuple(range(6)), (1, 4))
        assert set(first) == set(range(6))
        assert all(order.infer for order in first.values())
        state, _ = take(algorithm, state, EVERYBODY)
        second = orders(algorithm, state, tuple(range(6)), (1, 4))
        assert set(second) == {1, 4}
        assert not any(order.infer for order in second.values())
        assert all(len(order.candidates) == 1 for order in second.values())

    def test_clusters_start_from_the_initial_model_and_take_the_updates_of_those_sampled(self):
        """0 and 2 are sampled in the first cluster: 10 + 1; none in the second: 10."""
        state, _ = take(hc(), begin(hc()), EVERYBODY, sampled=(0, 2))
        assert [trained(state, client) for client in range(6)] == [11, 10, 11, 10, 10, 11]

    def test_later_rounds_average_within_the_clusters_by_weight(self):
        """(0 + 2 + 5) / 3 = 7/3 first; then 2 with 1 image and 5 with 3: (2 + 15) / 4."""
        state, _ = take(hc(), begin(hc()), EVERYBODY)
        state, said = take(hc(), state, {2: 2.0, 5: 5.0}, weights={2: 1.0, 5: 3.0})
        assert trained(state, 0) == pytest.approx(10 + 7 / 3 + 17 / 4)
        assert not said.clustered

    @pytest.mark.parametrize(("threshold", "clusters"), [(0.0, 6), (0.25, 6 - 2), (2.0, 1)])
    def test_threshold_decides_the_number_of_clusters(self, threshold, clusters):
        """Below 0.25 only equal predictions merge, at distance 0: {0, 2} and {1, 4}."""
        state, _ = take(hc(threshold=threshold), begin(hc()), EVERYBODY)
        assert len(set(state.labels_K.tolist())) == clusters


class TestNewcomers:
    """Client 4 is not there in round 1."""

    PRESENT = {client: float(client) for client in range(6) if client != 4}

    def test_one_that_was_not_there_waits_with_the_initial_model(self):
        state, _ = take(hc(), begin(hc()), self.PRESENT)
        assert partition(state) == sets((0, 2, 5), (1, 3), (4,))
        assert trained(state, 4) == 10

    def test_it_trains_that_once_and_joins_those_it_agrees_with_most_on_average(self):
        """With 0, 2 and 5: 0, 0 and 1/4; with 1 and 3: 1 and 3/4. Its update 9 enters no mean."""
        state, _ = take(hc(), begin(hc()), self.PRESENT)
        before = trained(state, 1)
        state, said = take(hc(), state, {4: 9.0})
        assert partition(state) == sets((0, 2, 5), (1, 3, 4))
        assert said.placed == {4: "mean agreement 0: 0.083, 1: 0.875"}
        assert said.clustered
        assert trained(state, 4) == before
        assert len(state.models) == 2

    def test_with_a_server_optimizer_its_moments_lose_the_waiting_row_too(self):
        algorithm = hc(server_optimizer="momentum")
        state, _ = take(algorithm, begin(algorithm), self.PRESENT)
        assert len(state.arrays["cluster_first"]) == 3
        state, _ = take(algorithm, state, {4: 9.0, 1: 1.0})
        assert state.arrays["cluster_first"].shape == (2, 1)


class TestWard5:
    def test_rows_of_similarities_are_cut_into_five(self):
        """Six clients: the two pairs of equal rows are merged first; {0, 2} comes before {1, 4}, or after."""
        state, _ = take(hc(variant="ward5"), begin(hc()), EVERYBODY)
        assert len(state.models) == 5
        assert max(len(cluster) for cluster in partition(state)) == 2


class TestNeighbours:
    """Clients 0, 1 and 3 agree on 100, 96 and 92 of 100 images with 0: 1 is a neighbour of 0 and of 3."""

    CLASSES = {client: (0,) * (100 - 4 * step) + (1,) * 4 * step for step, client in enumerate((0, 1, 3))}
    CLASSES[2] = (1,) * 100
    ALGORITHM = create_algorithm("flis-hc-as-published")

    def first(self, sampled, weights=None):
        updates = {client: float(client + 1) for client in range(4)}
        return take(self.ALGORITHM, begin(self.ALGORITHM, 4), updates, sampled, weights, self.CLASSES)

    def test_each_client_trains_the_mean_of_its_neighbours_models(self):
        """Local models 11, 12, 13, 14 of clients 0 to 3."""
        state, said = self.first(sampled=range(4))
        assert said.members == {0: (0, 1), 1: (0, 1, 3), 2: (2,), 3: (1, 3)}
        assert [trained(state, client) for client in range(4)] == [11.5, pytest.approx(37 / 3), 13, 13]
        assert partition(state) == sets((0, 1, 3), (2,))

    def test_neighbours_that_were_not_sampled_hold_the_initial_model(self):
        """Only client 1 is sampled: (10 + 12) / 2, (10 + 12 + 10) / 3, 10, (12 + 10) / 2."""
        state, _ = self.first(sampled=(1,))
        assert [trained(state, client) for client in range(4)] == [11, pytest.approx(32 / 3), 10, 11]

    def test_old_models_stay_in_the_means(self):
        """Client 1 trains again, 12 becomes 37/3 + 3; client 0's model is of round 1."""
        state, _ = self.first(sampled=range(4))
        state, said = take(self.ALGORITHM, state, {1: 3.0}, classes=self.CLASSES)
        assert trained(state, 0) == pytest.approx((11 + 37 / 3 + 3) / 2)
        assert not said.clustered

    def test_clients_are_tested_with_what_they_train_next(self):
        state, _ = self.first(sampled=range(4))
        served = self.ALGORITHM.served(state, build_layout(1))
        found = [float(served.models[place][0]) for place in served.model_K]
        assert found == [trained(state, client) for client in range(4)]


def test_one_cluster_with_everybody_sampled_has_the_bytes_of_fedavg(tmp_path):
    folders = [
        play(config(algorithm, split=REFERENCES), tmp_path)
        for algorithm in ({"name": "flis-hc", "threshold": 2}, "fedavg")
    ]
    one, plain = (_model(folder / "state-000003.safetensors") for folder in folders)
    assert one == plain


def _model(path):
    tensors = load_file(path)
    [model] = [array.tobytes() for name, array in tensors.items() if name.startswith("model/")]
    return model

"""FLIS-DC: Morafah et al. 2022, Algorithm 1."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.orders import PREDICTIONS, Adaptation
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import InMemorySource
from fedgrid.algorithms.updates.updates import Updates
from tests.helpers.small_cases import build_layout, build_orders, frozen, rng, start
from tests.helpers.small_runs import config, play, rows

REFERENCES = {"reference_images": 20}


def take(state, replies, weights=None, **settings):
    """Take a step; `replies` are by client its chosen model, its update (a number) and its predictions."""
    vectors = {client: frozen([update]) for client, (_, update, _) in replies.items()}
    predictions = {client: frozen(np.eye(4)[list(classes)]) for client, (_, _, classes) in replies.items()}
    updates = Updates(
        InMemorySource(vectors, {PREDICTIONS: predictions}),
        build_layout(1),
        clients=vectors,
        chosen={client: chosen for client, (chosen, _, _) in replies.items()},
        weights=weights,
    )
    return create_algorithm("flis-dc", settings).step(state, 0, updates, rng())


def of_models(*models, num_clients=6):
    zeros = np.zeros(num_clients, np.int64)
    return State(tuple(frozen([model]) for model in models), zeros, {"model_K": zeros})


CHAIN = {0: (0, 1.0, (0, 0, 0, 0)), 2: (0, 3.0, (0, 0, 1, 1)), 4: (0, 5.0, (1, 1, 1, 1))}
"""Client 2 agrees with 0 and with 4 on half of the images, which agree on none."""


class TestStep:
    def test_each_participant_has_the_mean_of_those_that_agree_with_it(self):
        """beta 0.5: C_0 = {0, 2}: 2; C_2 = all: 3; C_4 = {2, 4}: 4."""
        state, said = take(of_models(0.0), CHAIN, beta=0.5)
        assert [float(model[0]) for model in state.models] == [2.0, 3.0, 4.0]
        assert said.members == {0: (0, 2), 2: (0, 2, 4), 4: (2, 4)}
        assert sum(len(members) for members in said.members.values()) > len(said.members)
        assert state.arrays["model_K"].tolist() == [0, -1, 1, -1, 2, -1]

    def test_means_are_of_local_models_whatever_they_started_from(self):
        """Local models 10 + 1 and 20 + 3: 17; the update alone is no model."""
        state, _ = take(of_models(10.0, 20.0), {0: (0, 1.0, (0,)), 2: (1, 3.0, (0,))})
        assert [float(model[0]) for model in state.models] == [17.0]

    def test_pairs_above_the_published_limit_are_joined_whatever_beta_is(self):
        alike = {
            0: (0, 1.0, (0,) * 100),
            2: (0, 3.0, (0,) * 96 + (1,) * 4),
            4: (0, 5.0, (0,) * 95 + (1,) * 5),
        }
        _, said = take(of_models(0.0), alike, beta=1.01, always_joined=0.96)
        assert said.members == {0: (0, 2), 2: (0, 2, 4), 4: (2, 4)}

    def test_partition_is_of_connected_components(self):
        assert take(of_models(0.0), CHAIN, beta=0.5)[0].labels_K.tolist() == [0] * 6
        state, _ = take(of_models(0.0), CHAIN, beta=0.6)
        assert state.labels_K[[0, 2, 4]].tolist() == [0, 1, 2]

    def test_client_that_was_not_asked_goes_with_the_one_that_it_agreed_with_most(self):
        """In the second round 4 is not asked; its predictions are nearer to those of 2. 1 was never asked."""
        state, _ = take(of_models(0.0), CHAIN, beta=0.6)
        two = {0: (0, 1.0, (0, 0, 0, 0)), 2: (0, 3.0, (0, 1, 1, 1))}
        state, _ = take(state, two, beta=0.6)
        assert state.labels_K[[0, 2, 4, 1]].tolist() == [0, 1, 1, 0]

    def test_next_round_sends_all_models_and_those_not_asked_choose_at_the_test(self):
        algorithm = create_algorithm(
            "flis-dc", {"choose_on": "batch", "choose_by": "accuracy", "fine_tune": 7}
        )
        state, _ = take(of_models(0.0), CHAIN, beta=0.5)
        [order] = build_orders(algorithm, state, [3], 1).values()
        assert (order.candidates, order.choose_on, order.choose_by) == ((0, 1, 2), "batch", "accuracy")
        assert order.infer
        served = algorithm.served(state, build_layout(1))
        assert served.choosing == {1, 3, 5}
        assert (served.choose_on, served.choose_by) == ("batch", "accuracy")
        assert served.adaptation == Adaptation(steps=7)
        assert [served.model_K[client] for client in (0, 2, 4)] == [0, 1, 2]


def test_published_version_chooses_by_accuracy_on_the_test_images():
    [order] = build_orders(
        create_algorithm("flis-dc-as-published"), start(create_algorithm("flis-dc"), 3), [1]
    ).values()
    assert (order.choose_on, order.choose_by) == ("test", "accuracy")
    assert create_algorithm("flis-dc-as-published").settings.always_joined == 0.96


def last_models(folder):
    """Return the distinct models of a run's last state, as bytes."""
    tensors = load_file(folder / "state-000003.safetensors")
    return {array.tobytes() for name, array in tensors.items() if name.startswith("model/")}


@pytest.mark.parametrize("weights", ["none", "images"])
def test_beta_0_has_the_bytes_of_fedavg(tmp_path, weights):
    folders = [
        play(config(algorithm, split=REFERENCES, weights=weights), tmp_path)
        for algorithm in ({"name": "flis-dc", "beta": 0}, "fedavg")
    ]
    [[one], [plain]] = map(last_models, folders)
    assert one == plain


class TestRecords:
    @pytest.fixture(scope="class")
    @classmethod
    def clients(cls, tmp_path_factory):
        root = tmp_path_factory.mktemp("flis")
        run = config({"name": "flis-dc", "beta": 0.3}, split=REFERENCES, participation=0.5)
        play(run, root)
        return rows(run, root, "clients")

    def test_members_are_those_that_took_part_with_oneself(self, clients):
        for number in (1, 2, 3):
            asked = {row["client"]: row["members"] for row in clients if row["round"] == number}
            trained = {client for client, members in asked.items() if members is not None}
            assert len(trained) == 3
            for client in trained:
                assert client in asked[client]
                assert set(asked[client]) <= trained


def test_run_by_the_printed_formula_finds_its_clusters_far_below_1(tmp_path):
    """With 20 images a model has the similarity 0.22 with itself: at 0.3 nobody has company."""
    for beta, alone in ((0.3, True), (0.0, False)):
        run = config({"name": "flis-dc", "similarity": "printed", "beta": beta}, split=REFERENCES)
        play(run, tmp_path)
        sizes = {len(row["members"]) for row in rows(run, tmp_path, "clients")}
        assert sizes == {1 if alone else 6}

"""FedProto: Tan et al. 2022; prototypes of classes travel, models stay with the clients."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import InMemorySource
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import FlatModule, draw_initial_vector, read_vector
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import Training
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.fedproto import ProtoRule
from tests.helpers.small_cases import build_layout, rng
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import WHOLE, build_network, descend, read_tensors


def step(state, prototypes, weights=None):
    """Take the server's step on the prototypes of clients 0, 1, ..."""
    outputs = {"prototypes": dict(enumerate(np.array(prototypes, np.float32)))}
    source = InMemorySource({client: np.zeros(2, np.float32) for client in outputs["prototypes"]}, outputs)
    updates = Updates(source, build_layout(2), clients=outputs["prototypes"], weights=weights)
    return create_algorithm("fedproto").step(state, 0, updates, rng())[0]


@pytest.mark.parametrize(("weights", "expected"), [(None, 2.0), ({0: 1.0, 1: 3.0}, 2.5)])
def test_prototype_is_the_mean_over_the_clients_that_have_the_class(weights, expected):
    """Class 0: of 1 and 3. Class 1: of client 1 alone. Class 2: nobody has it, it has none."""
    state = State((np.zeros(2, np.float32),), np.zeros(2, np.int64))
    state = step(state, [[[1.0], [0.0], [0.0]], [[3.0], [5.0], [0.0]]], weights)
    assert state.arrays["prototypes"].tolist() == [[expected], [5.0], [0.0]]
    # In a round without class 1 it keeps its prototype.
    state = step(state, [[[7.0], [0.0], [0.0]]])
    assert state.arrays["prototypes"].tolist() == [[7.0], [5.0], [0.0]]


class TestOneClient:
    """Two features x of an image, which are the head's inputs as they are; three classes."""

    IMAGES = torch.tensor([[[[255, 0]]], [[[255, 255]]], [[[0, 255]]]], dtype=torch.uint8)
    LABELS = torch.tensor([0, 0, 1])
    PAYLOAD = {"prototypes": np.array([[0, 0.1], [0, 0], [0.9, 0.9]], np.float32)}

    def play(self, rule, payload, **given):
        module = nn.Sequential(nn.Flatten(), nn.Linear(2, 2), nn.Linear(2, 3))
        # The first layer is the identity.
        model = np.array([1, 0, 0, 1, 0, 0, *[0.1] * 9], np.float32)
        training = Training(rounds=1, local_epochs=2, batch_size=3, optimizer="sgd", learning_rate=1e-6).local
        return train_client(
            FlatModule(module, "2"),
            model,
            self.IMAGES,
            self.LABELS,
            training,
            rng(),
            rule=rule,
            payload=payload,
            **given,
        )

    def test_sends_the_mean_features_of_its_classes_of_the_last_epoch(self):
        outputs = self.play(ProtoRule(pull=0), {}).outputs
        np.testing.assert_allclose(outputs["prototypes"], [[1, 0.5], [0, 1], [0, 0]], atol=1e-5)

    def test_without_pull_it_trains_plainly(self):
        plain = self.play(PLAIN, {})
        assert self.play(ProtoRule(pull=0), self.PAYLOAD).model.tobytes() == plain.model.tobytes()

    @pytest.mark.parametrize(
        ("payload", "expected"),
        [
            ({}, None),
            (PAYLOAD, [[-1.01, -1e9, -1e9]]),
        ],
    )
    def test_is_tested_by_its_own_classes_that_have_a_prototype(self, payload, expected):
        """Class 2 is none of the client's, class 1 has none; without any the head is tested."""
        tested = []
        self.play(
            ProtoRule(pull=1),
            payload,
            max_steps=0,
            test=lambda logits: tested.append(logits(torch.tensor([[[[1.0, 0.0]]]]))),
        )
        head = [[0.2] * 3]
        np.testing.assert_allclose(tested[0].detach(), head if expected is None else expected, atol=1e-6)


def test_two_rounds_are_algorithm_1(tmp_path):
    """Whole models stay with the clients; a batch is all of a client's images."""
    run = config("fedproto", training={"rounds": 2, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    initial = draw_initial_vector(run.model, image_inputs(1, 8, 8), 10, run.root_seed, 0)
    models = dict.fromkeys(range(run.clients), initial)
    prototypes, known = torch.zeros(10, 96), torch.zeros(10, dtype=torch.bool)

    def compute_loss(module: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        features = module[:-1](images)
        offsets = (features - prototypes[labels]) * known[labels][:, None]
        return cross_entropy(module[-1](features), labels) + offsets.square().mean()

    for _ in range(2):
        means = []
        for client, model in models.items():
            images, labels = read_tensors(setup.clients[client].train)
            module = build_network(model)
            features = module[:-1](images).detach()
            means.append({label: features[labels == label].mean(0) for label in labels.unique().tolist()})
            descend(compute_loss(module, images, labels), list(module.parameters()))
            models[client] = read_vector(module)
        for label in range(10):
            if having := [mean[label] for mean in means if label in mean]:
                prototypes[label], known[label] = torch.stack(having).mean(0), True
    stored = checkpoint.load_state(folder, 2)
    np.testing.assert_allclose(stored.state.arrays["prototypes"], prototypes, atol=1e-5)
    for row in rows(run, tmp_path, "clients")[run.clients :]:
        data, model = setup.clients[row["client"]], models[row["client"]]
        np.testing.assert_allclose(stored.memories[row["client"]]["personal"], model, atol=1e-5)
        images, labels = read_tensors(data.test)
        features = build_network(model)[:-1](images).detach()
        own = torch.from_numpy(np.unique(data.train.labels))
        nearest = own[torch.cdist(features, prototypes[own]).argmin(1)]
        assert row["personalised_accuracy"] == pytest.approx((nearest == labels).float().mean().item())
    sent = run.clients * 4 * 10 * 96
    assert [row["bytes_down"] for row in rows(run, tmp_path, "rounds")] == [0, sent]
    assert [row["bytes_up"] for row in rows(run, tmp_path, "rounds")] == [sent, sent]

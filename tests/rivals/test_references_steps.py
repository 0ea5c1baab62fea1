"""The references' common steps, their small problem, and what holds for many of them."""

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from fedgrid.rivals.references import (
    apfl,
    ditto,
    fedala,
    fedamp,
    fedbabu,
    fedbn,
    fedem,
    fedper,
    fedproto,
    fedrep,
    fedsoft,
    fesem,
    flexcfl,
    pacfl,
    pfedme,
    steps,
)

REFERENCES = (
    *(ditto, apfl, pfedme, fedrep, fedper, fedbabu, fedbn, fedamp, fedproto, fedala),
    *(fedem, fesem, fedsoft, pacfl, flexcfl),
)
NUM_CLASSES, SIZES = 3, (6, 7, 8, 10)


@dataclass
class Problem:
    """Four clients with random images in batches of 4, a layer of 5 features and a head of 3 classes."""

    settings: dict[str, Any]
    norms: bool = False
    rounds: int = 2
    epochs: int = 2
    learning_rate: float = 0.1
    num_clients: int = len(SIZES)
    weights: tuple[float, ...] = tuple(float(size) for size in SIZES)

    def __post_init__(self):
        self.clients = [self.deal(i, size) for i, size in enumerate(SIZES)]
        self.starts = [self.draw(number) for number in range(3)]

    def build(self):
        layers = [nn.Flatten(), nn.Linear(64, 5), *([nn.BatchNorm1d(5)] if self.norms else []), nn.Tanh()]
        return nn.Sequential(OrderedDict(body=nn.Sequential(*layers), head=nn.Linear(5, NUM_CLASSES)))

    def draw(self, number):
        generator, net = torch.Generator().manual_seed(number), self.build()
        for tensor in net.parameters():
            tensor.data = torch.randn(tensor.shape, generator=generator) / 4
        return net.state_dict()

    def deal(self, i, size):
        generator = torch.Generator().manual_seed(i)
        pixels = torch.randint(0, 256, (size, 1, 8, 8), generator=generator, dtype=torch.uint8)
        test_x = torch.randn(5, 1, 8, 8, generator=generator)
        y = (torch.arange(size) + i) % NUM_CLASSES
        return SimpleNamespace(x=pixels / 128 - 1, y=y, test_x=test_x, pixels=pixels)

    def batches_per_epoch(self, i):
        return -(-SIZES[i] // 4)

    def batches(self, i, round_index):
        generator = torch.Generator().manual_seed(100 * i + round_index)
        epochs = [torch.randperm(SIZES[i], generator=generator).split(4) for _ in range(self.epochs)]
        return [batch for epoch in epochs for batch in epoch]

    def adaptation_batches(self, i, round_index, num_steps):
        return self.batches(i, 1000 + round_index)[:num_steps]


def solve(reference, **settings):
    return reference.run(Problem({**reference.SETTINGS, **settings}, reference.NORMS))


def train(problem, i, round_index, start, centre=None, pull=0.0):
    """SGD on client i's batches of a round by torch's optimiser, with pull / 2 ||w - centre||^2."""
    net, client = problem.build(), problem.clients[i]
    net.load_state_dict(start)
    optimizer = torch.optim.SGD(net.parameters(), problem.learning_rate)
    for batch in problem.batches(i, round_index):
        optimizer.zero_grad()
        loss = cross_entropy(net(client.x[batch]), client.y[batch])
        if pull:
            loss = loss + pull / 2 * ((parameters_to_vector(net.parameters()) - centre) ** 2).sum()
        loss.backward()
        optimizer.step()
    return net.state_dict()


def average(models, weights):
    return {
        name: sum(n * model[name] for n, model in zip(weights, models, strict=True)) / sum(weights)
        for name in models[0]
    }


def train_fedavg(problem, weights=SIZES, first_round=0, state=None):
    """The averaged model after all rounds, and the clients' models before the last mean."""
    w = state or problem.starts[0]
    for round_index in range(first_round, problem.rounds):
        trained = [train(problem, i, round_index, w) for i in range(problem.num_clients)]
        w = average(trained, weights)
    return w, trained


def train_locally(problem):
    """The models of clients that never communicate."""
    models = [problem.starts[0]] * problem.num_clients
    for round_index in range(problem.rounds):
        models = [train(problem, i, round_index, model) for i, model in enumerate(models)]
    return models


def predict(problem, models):
    net, probabilities = problem.build(), []
    for client, model in zip(problem.clients, models, strict=True):
        net.load_state_dict(model)
        probabilities.append(net.eval()(client.test_x).softmax(1).detach())
    return probabilities


def flatten(state):
    return torch.cat([tensor.flatten() for tensor in state.values()])


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


FEDAVG, TRAINED = train_fedavg(Problem({}))
LOCAL = train_locally(Problem({}))


def name_parameter(value):
    return getattr(value, "__name__", str(value)).removeprefix("fedgrid.rivals.references.")


def test_mean_is_weighted():
    """(1 * 0 + 3 * 4) / 4 = 3."""
    models = [torch.tensor([0.0, 1.0]), torch.tensor([4.0, 1.0])]
    assert steps.average_models(models, [1, 3]).tolist() == [3, 1]


def test_partition_by_hand():
    """0, 1 | 5 costs 0.5, 0 | 1, 5 costs 8, 0, 5 | 1 costs 12.5."""
    labels = steps.find_partition(torch.tensor([[0.0], [5.0], [1.0]]), torch.ones(3), 2)
    assert labels[0] == labels[2] != labels[1]


def test_scatter_weighs_clients():
    """Weights 3 and 1 at 0 and 4: mean 1, 3 x 1 + 1 x 9 = 12."""
    points, weights = torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0])
    assert steps.compute_scatter(points, weights, torch.tensor([0, 0])) == pytest.approx(12)


def test_gradient_is_corrected_before_the_step():
    """With 5 w in place of the gradient and a rate of 0.1, each of two steps halves w."""
    problem = Problem({})
    w = steps.read_start(problem)
    trained = steps.train_model(problem, w, 0, problem.batches(0, 0)[:2], lambda gradient, w: 5 * w)
    assert_close(trained, w / 4)


@pytest.mark.parametrize("reference", REFERENCES, ids=name_parameter)
def test_served_are_probabilities_and_the_starts_stay(reference):
    problem = Problem(reference.SETTINGS, reference.NORMS)
    before = [{name: tensor.clone() for name, tensor in state.items()} for state in problem.starts]
    models, served = reference.run(problem)
    torch.testing.assert_close([dict(state) for state in problem.starts], before, rtol=0, atol=0)
    assert [tuple(each.shape) for each in served] == [(5, NUM_CLASSES)] * problem.num_clients
    for each in served:
        assert each.dtype == torch.float32
        assert not each.requires_grad
        assert_close(each.sum(dim=1), torch.ones(5))
    assert all(model.keys() == before[0].keys() for model in models)


@pytest.mark.parametrize(
    ("reference", "settings", "weights"),
    [
        (fedem, {"num_models": 1}, SIZES),
        (fesem, {"num_clusters": 1}, (1, 1, 1, 1)),
        (fesem, {"num_clusters": 1, "weigh": "images"}, SIZES),
        (pacfl, {"angle": 180.0}, SIZES),
        (fedala, {"rate": 0.0}, SIZES),
    ],
    ids=name_parameter,
)
def test_one_model_is_fedavg(reference, settings, weights):
    models, served = solve(reference, **settings)
    expected, _ = train_fedavg(Problem({}), weights)
    assert_close(models, [expected])
    assert_close(served, predict(Problem({}), [expected] * 4))


@pytest.mark.parametrize(
    ("reference", "settings"),
    [(ditto, {}), (ditto, {"pull": 3.0}), (apfl, {}), (apfl, {"alpha": 0.0, "adaptive": False})],
    ids=name_parameter,
)
def test_global_stream_is_fedavg(reference, settings):
    assert_close(solve(reference, **settings)[0], [FEDAVG])


@pytest.mark.parametrize(
    ("reference", "settings"),
    [
        (ditto, {"pull": 0.0}),
        (apfl, {"alpha": 1.0, "adaptive": False}),
        (fedamp, {"pull": 0.0}),
        (fedsoft, {"pull": 0.0}),
        (pacfl, {"angle": 0.0}),
    ],
    ids=name_parameter,
)
def test_without_pull_or_company_it_is_local_training(reference, settings):
    assert_close(solve(reference, **settings)[1], predict(Problem({}), LOCAL))


@pytest.mark.parametrize(
    ("reference", "setting", "value"),
    [
        (ditto, "pull", 1.0),
        (apfl, "alpha", 0.6),
        (apfl, "adaptive", False),
        (pfedme, "pull", 2.0),
        (pfedme, "inner_steps", 2),
        (pfedme, "inner_rate", 0.02),
        (fedrep, "head_epochs", 0),
        (fedrep, "together", True),
        (fedbabu, "fine_tune", 2),
        (fedamp, "alpha", 0.2),
        (fedamp, "pull", 0.2),
        (fedamp, "sigma", 3.0),
        (fedproto, "pull", 2.0),
        (fedala, "tensors", 1),
        (fedala, "rate", 0.1),
        (fedala, "batch", 8),
        (fedem, "num_models", 2),
        (fesem, "weigh", "images"),
        (fedsoft, "pull", 1.0),
        (fedsoft, "least", 0.5),
        (flexcfl, "pretrain_steps", 1),
        (flexcfl, "group_rate", 0.2),
    ],
    ids=name_parameter,
)
def test_every_setting_acts(reference, setting, value):
    served, changed = solve(reference)[1], solve(reference, **{setting: value})[1]
    gap = max((a - b).abs().max().item() for a, b in zip(served, changed, strict=True))
    assert gap > 1e-4

"""References of personalised methods, checked by hand on scalars and against FedAvg and local training.

The scalar loss of the hand-computed steps is f(x) = (x - 4)^2 / 2, with gradient x - 4.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from fedgrid.rivals.references import apfl, ditto, fedamp, fedbabu, fedbn, fedper, fedrep, pfedme

CLASSES = 3
REFERENCES = [ditto, apfl, pfedme, fedrep, fedper, fedbabu, fedbn, fedamp]


@dataclass
class Client:
    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor


@dataclass
class Problem:
    """Three clients of 6 to 10 random images, batches of 4."""

    settings: dict[str, Any]
    norms: bool = False
    rounds: int = 2
    epochs: int = 2
    learning_rate: float = 0.1
    num_clients: int = 3
    weights: list[float] = field(default_factory=lambda: [6.0, 8.0, 10.0])

    def __post_init__(self):
        generator = torch.Generator().manual_seed(0)
        self.clients = [
            Client(
                torch.rand(count, 1, 8, 8, generator=generator),
                torch.randint(CLASSES, (count,), generator=generator),
                torch.rand(5, 1, 8, 8, generator=generator),
            )
            for count in (6, 8, 10)
        ]
        net = self.build()
        for tensor in net.parameters():
            tensor.data = torch.randn(tensor.shape, generator=generator) / 4
        self.starts = [net.state_dict()]

    def build(self):
        layers = [nn.Flatten(), nn.Linear(64, 5), *([nn.BatchNorm1d(5)] if self.norms else []), nn.Tanh()]
        return nn.Sequential(OrderedDict(body=nn.Sequential(*layers), head=nn.Linear(5, CLASSES)))

    def batches_per_epoch(self, client):
        return -(-len(self.clients[client].y) // 4)

    def batches(self, client, round_index):
        generator = torch.Generator().manual_seed(100 * client + round_index)
        orders = [
            torch.randperm(len(self.clients[client].y), generator=generator) for _ in range(self.epochs)
        ]
        return [batch for order in orders for batch in order.split(4)]

    def adaptation_batches(self, client, round_index, steps):
        return self.batches(client, 1000 + round_index)[:steps]


def solve(reference, **settings):
    return reference.run(Problem({**reference.SETTINGS, **settings}, reference.NORMS))


def train(problem, client, round_index, start, center=None, pull=0.0):
    """Return a state after the round's batches of SGD, with pull / 2 ||w - center||^2 added to the loss."""
    net = problem.build()
    net.load_state_dict(start)
    optimizer = torch.optim.SGD(net.parameters(), problem.learning_rate)
    data = problem.clients[client]
    for batch in problem.batches(client, round_index):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(data.x[batch]), data.y[batch])
        for name, tensor in net.named_parameters() if pull else ():
            loss = loss + pull / 2 * ((tensor - center[name]) ** 2).sum()
        loss.backward()
        optimizer.step()
    return net.state_dict()


def train_fedavg(problem):
    """Return the averaged model after all rounds, and the clients' models before the last mean."""
    w = problem.starts[0]
    for round_index in range(problem.rounds):
        trained = [train(problem, i, round_index, w) for i in range(problem.num_clients)]
        w = {name: sum(n * m[name] for n, m in zip(problem.weights, trained, strict=True)) / 24 for name in w}
    return w, trained


def train_locally(problem):
    """Return the models of clients that never communicate."""
    models = [problem.starts[0]] * problem.num_clients
    for round_index in range(problem.rounds):
        models = [train(problem, i, round_index, model) for i, model in enumerate(models)]
    return models


def predict(problem, models):
    net, probabilities = problem.build(), []
    for client, model in zip(problem.clients, models, strict=True):
        net.load_state_dict(model)
        net.eval()
        probabilities.append(net(client.test_x).softmax(1).detach())
    return probabilities


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


FEDAVG, TRAINED = train_fedavg(Problem({}))
LOCAL = train_locally(Problem({}))


def name_parameter(value):
    return getattr(value, "__name__", str(value)).removeprefix("fedgrid.rivals.references.")


def number(value):
    return torch.tensor(float(value))


def test_ditto_step_by_hand():
    v, w = number(0), number(0)
    v = ditto.step_personal(v, v - 4, w, rate=0.1, pull=1)
    assert v == pytest.approx(0.4)
    assert ditto.step_personal(v, v - 4, w, rate=0.1, pull=1) == pytest.approx(0.72)


def test_ditto_with_rate_times_pull_of_one_steps_from_the_model_received():
    assert ditto.step_personal(number(7), number(2), number(3), rate=0.5, pull=2) == pytest.approx(
        3 - 0.5 * 2
    )


def test_apfl_step_by_hand():
    """w: 1 + 0.3; the mixture is 0.65, its gradient -3.35; v: 0.05 * 3.35; alpha: 0.5 - 0.1 * 1.3 * 3.35."""
    w, v = number(1.3), number(0)
    mixture = apfl.mix(0.5, v, w)
    assert mixture == pytest.approx(0.65)
    assert apfl.step_personal(v, mixture - 4, rate=0.1, alpha=0.5) == pytest.approx(0.1675)
    alpha = apfl.step_alpha(0.5, {"x": v}, {"x": w}, {"x": mixture - 4}, rate=0.1)
    assert alpha == pytest.approx(0.5 - 0.1 * 1.3 * 3.35)
    assert apfl.step_alpha(0.5, {"x": v}, {"x": w}, {"x": mixture - 4}, rate=9) == 0


def test_pfedme_step_by_hand():
    theta, w = number(0), number(0)
    for expected in (0.4, 0.72):
        theta = pfedme.step_personal(theta, theta - 4, w, inner_rate=0.1, pull=1)
        assert theta == pytest.approx(expected)
    assert pfedme.step_local(w, theta, rate=0.5, pull=1) == pytest.approx(0.36)


def test_fedamp_step_by_hand():
    """Squared distances 1 and 4: a = 0.3 / 2 * exp(-x / 2) = 0.0910, 0.0203; u = 0.0910 * 1 - 0.0203 * 2."""
    models = [{"x": number(0)}, {"x": number(1)}, {"x": number(-2)}]
    assert fedamp.mix_models(models, 0, alpha=0.3, sigma=2)["x"] == pytest.approx(0.0503791, abs=1e-6)
    w = fedamp.step_personal(number(1), number(-3), number(0.5), rate=0.1, pull=0.2, alpha=0.4)
    assert w == pytest.approx(1 - 0.1 * (-3 + 0.5 * 0.5))


def test_fedbn_keeps_every_tensor_of_a_norm_by_its_type():
    net = nn.Sequential(OrderedDict(shortcut=nn.BatchNorm1d(2), bn=nn.Linear(2, 2)))
    names = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    assert fedbn.find_norm_tensors(net) == {f"shortcut.{name}" for name in names}


@pytest.mark.parametrize(
    ("reference", "settings"),
    [(ditto, {}), (ditto, {"pull": 3.0}), (apfl, {}), (apfl, {"alpha": 0.0, "adaptive": False})],
)
def test_global_stream_is_fedavg(reference, settings):
    assert_close(solve(reference, **settings)[0], [FEDAVG])


@pytest.mark.parametrize(
    ("reference", "settings"),
    [(ditto, {"pull": 0.0}), (apfl, {"alpha": 1.0, "adaptive": False}), (fedamp, {"pull": 0.0})],
)
def test_without_pull_it_is_local_training(reference, settings):
    assert_close(solve(reference, **settings)[1], predict(Problem({}), LOCAL))


def test_ditto_adds_a_proximal_term_at_the_model_received():
    problem = Problem({"pull": 0.5})
    start = problem.starts[0]
    received, _ = train_fedavg(Problem({}, rounds=1))
    first = [train(problem, i, 0, start, start, 0.5) for i in range(3)]
    second = [train(problem, i, 1, v, received, 0.5) for i, v in enumerate(first)]
    assert_close(ditto.run(problem)[1], predict(problem, second))


def test_fedamp_adds_a_proximal_term_at_the_mixture_of_the_last_models():
    problem = Problem({"alpha": 0.1, "pull": 0.2, "sigma": 1.0})
    start = problem.starts[0]
    models = [train(problem, i, 0, start, start, 2.0) for i in range(3)]
    centers = [fedamp.mix_models(models, i, alpha=0.1, sigma=1.0) for i in range(3)]
    models = [train(problem, i, 1, model, centers[i], 2.0) for i, model in enumerate(models)]
    assert_close(fedamp.run(problem)[1], predict(problem, models))


def test_apfl_with_alpha_zero_serves_the_clients_trained_copy():
    served = solve(apfl, alpha=0.0, adaptive=False)[1]
    assert_close(served, predict(Problem({}), TRAINED))


def test_apfl_steps_along_the_gradients_of_the_mixtures_loss():
    """Autograd gives the gradients by v and alpha of the loss at alpha v + (1 - alpha) w, at the new w."""
    problem = Problem({"alpha": 0.3, "adaptive": True}, rounds=1)
    net, client, alpha, v = problem.build(), problem.clients[0], torch.tensor(0.3), problem.starts[0]
    net.load_state_dict(v)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in problem.batches(0, 0):
        net.zero_grad()
        nn.functional.cross_entropy(net(client.x[batch]), client.y[batch]).backward()
        optimizer.step()
        w = net.state_dict()
        alpha.requires_grad_()
        v = {name: tensor.clone().requires_grad_() for name, tensor in v.items()}
        mixture = {name: alpha * v[name] + (1 - alpha) * w[name] for name in v}
        logits = torch.func.functional_call(problem.build(), mixture, client.x[batch])
        nn.functional.cross_entropy(logits, client.y[batch]).backward()
        v = {name: (tensor - 0.1 * tensor.grad).detach() for name, tensor in v.items()}
        alpha = (alpha - 0.1 * alpha.grad).detach()
    mixture = {name: alpha * v[name] + (1 - alpha) * w[name] for name in v}
    assert_close(apfl.run(problem)[1][0], predict(problem, [mixture] * 3)[0])


def test_pfedme_without_pull_leaves_the_global_model():
    assert_close(solve(pfedme, pull=0.0)[0], [dict(Problem({}).starts[0])])


def test_pfedme_goes_on_from_theta_between_batches():
    problem = Problem({"pull": 5.0, "inner_steps": 2, "inner_rate": 0.05}, rounds=1)
    w, net, client = problem.starts[0], problem.build(), problem.clients[0]
    net.load_state_dict(w)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    for batch in problem.batches(0, 0):
        for _ in range(2):
            loss = nn.functional.cross_entropy(net(client.x[batch]), client.y[batch])
            for name, tensor in net.named_parameters():
                loss = loss + 5 / 2 * ((tensor - w[name]) ** 2).sum()
            net.zero_grad()
            loss.backward()
            optimizer.step()
        w = {name: w[name] - 0.1 * 5 * (w[name] - tensor) for name, tensor in net.state_dict().items()}
    assert_close(pfedme.run(problem)[1][0], net(client.test_x).softmax(1).detach())


def test_pfedme_with_rate_times_pull_of_one_averages_theta():
    """One inner step from theta = w_i is a step of SGD with the inner rate: FedAvg with that rate."""
    problem = Problem({"pull": 10.0, "inner_steps": 1, "inner_rate": 0.1})
    models, served = pfedme.run(problem)
    assert_close(models, [FEDAVG])
    assert_close(served, predict(problem, TRAINED))


def test_fedrep_without_head_epochs_is_fedbabu_without_fine_tuning():
    assert_close(solve(fedrep, head_epochs=0)[1], solve(fedbabu, fine_tune=0)[1])


def test_fedrep_with_head_epochs_only_keeps_the_common_body():
    """Then every client trains its head alone: the same in one round of four epochs as in two of two."""
    problem = Problem({"head_epochs": 2})
    net, served = problem.build(), []
    for i, client in enumerate(problem.clients):
        net.load_state_dict(problem.starts[0])
        optimizer = torch.optim.SGD(net.head.parameters(), 0.1)
        for batch in [*problem.batches(i, 0), *problem.batches(i, 1)]:
            net.zero_grad()
            nn.functional.cross_entropy(net(client.x[batch]), client.y[batch]).backward()
            optimizer.step()
        served.append(net(client.test_x).softmax(1).detach())
    assert_close(fedrep.run(problem)[1], served)


def test_fedper_of_one_round_serves_the_averaged_body_and_own_heads():
    problem = Problem({}, rounds=1)
    mean, trained = train_fedavg(problem)
    models = [{n: model[n] if n.startswith("head.") else mean[n] for n in mean} for model in trained]
    assert_close(fedper.run(problem)[1], predict(problem, models))


def test_fedbabu_keeps_the_head_bit_for_bit_and_tunes_a_copy():
    problem = Problem({"fine_tune": 0})
    (common,), served = fedbabu.run(problem)
    start = problem.starts[0]
    assert all(common[name].equal(start[name]) == name.startswith("head.") for name in start)
    assert_close(served, predict(problem, [common] * 3))
    (tuned_common,), tuned = solve(fedbabu, fine_tune=3)
    assert_close(tuned_common, common)
    assert not torch.allclose(tuned[0], served[0])


def test_fedbn_without_norms_is_fedavg():
    problem = Problem({})
    assert_close(fedbn.run(problem)[1], predict(problem, [FEDAVG] * 3))


def test_fedbn_of_one_round_serves_averaged_tensors_with_own_norms():
    problem = Problem({}, norms=True, rounds=1)
    mean, trained = train_fedavg(problem)
    models = [{n: model[n] if n.startswith("body.2.") else mean[n] for n in mean} for model in trained]
    assert_close(fedbn.run(problem)[1], predict(problem, models))


def test_fedamp_models_are_those_that_are_served():
    problem = Problem(fedamp.SETTINGS)
    models, served = fedamp.run(problem)
    assert_close(served, predict(problem, models))


@pytest.mark.parametrize("reference", REFERENCES, ids=name_parameter)
def test_served_are_probabilities_and_the_start_stays(reference):
    problem = Problem(reference.SETTINGS, reference.NORMS)
    before = {name: tensor.clone() for name, tensor in problem.starts[0].items()}
    models, served = reference.run(problem)
    assert_close(dict(problem.starts[0]), before)
    for client, probabilities in zip(problem.clients, served, strict=True):
        assert probabilities.shape == (len(client.test_x), CLASSES)
        assert probabilities.dtype == torch.float32
        assert not probabilities.requires_grad
        assert_close(probabilities.sum(1), torch.ones(len(client.test_x)))
    assert all(set(model) == set(before) for model in models)


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
        (fedbabu, "fine_tune", 2),
        (fedamp, "alpha", 0.2),
        (fedamp, "pull", 0.2),
        (fedamp, "sigma", 3.0),
    ],
    ids=name_parameter,
)
def test_every_setting_acts(reference, setting, value):
    served, changed = solve(reference)[1], solve(reference, **{setting: value})[1]
    gap = max((a - b).abs().max().item() for a, b in zip(served, changed, strict=True))
    assert gap > 1e-4

"""References of personalised methods, checked by hand on scalars and against FedAvg and local training.

The scalar loss of the hand-computed steps is f(x) = (x - 4)^2 / 2, with gradient x - 4.
"""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from fedgrid.rivals.references import (
    apfl,
    ditto,
    fedala,
    fedamp,
    fedbabu,
    fedbn,
    fedper,
    fedproto,
    fedrep,
    pfedme,
    steps,
)
from tests.rivals.test_references_steps import (
    FEDAVG,
    LOCAL,
    TRAINED,
    Problem,
    assert_close,
    flatten,
    predict,
    solve,
    train,
    train_fedavg,
)


def number(value):
    return torch.tensor(float(value))


def test_ditto_step_by_hand():
    v, w = number(0), number(0)
    for expected in (0.4, 0.72):
        v = v - 0.1 * ditto.add_pull(v - 4, v, w, pull=1)
        assert v == pytest.approx(expected)


def test_ditto_with_rate_times_pull_of_one_steps_from_the_model_received():
    """The step from v = 7 is one from w = 3 along the gradient at v: 3 - 0.5 x 2."""
    assert 7 - 0.5 * ditto.add_pull(number(2), number(7), number(3), pull=2) == 3 - 0.5 * 2


def test_apfl_step_by_hand():
    """w: 1 + 0.3; the mixture is 0.65, its gradient -3.35; v: 0.05 * 3.35; alpha: 0.5 - 0.1 * 1.3 * 3.35."""
    w, v = number(1.3), number(0)
    mixture = apfl.mix_models(0.5, v, w)
    assert mixture == pytest.approx(0.65)
    assert apfl.step_personal(v, mixture - 4, rate=0.1, alpha=0.5) == pytest.approx(0.1675)
    alpha = apfl.step_alpha(0.5, v[None], w[None], mixture[None] - 4, rate=0.1)
    assert alpha == pytest.approx(0.5 - 0.1 * 1.3 * 3.35)
    assert apfl.step_alpha(0.5, v[None], w[None], mixture[None] - 4, rate=9) == 0


def test_pfedme_step_by_hand():
    theta, w = number(0), number(0)
    for expected in (0.4, 0.72):
        theta = pfedme.step_personal(theta, theta - 4, w, inner_rate=0.1, pull=1)
        assert theta == pytest.approx(expected)
    assert pfedme.step_local(w, theta, rate=0.5, pull=1) == pytest.approx(0.36)


def test_fedamp_step_by_hand():
    """Squared distances 1 and 4: a = 0.3 / 2 * exp(-x / 2) = 0.0910, 0.0203; u = 0.0910 * 1 - 0.0203 * 2."""
    models = [torch.tensor([x]) for x in (0.0, 1.0, -2.0)]
    assert fedamp.mix_models(models, 0, alpha=0.3, sigma=2) == pytest.approx(0.0503791, abs=1e-6)
    gradient = fedamp.add_pull(number(-3), number(1), number(0.5), pull=0.2, alpha=0.4)
    assert gradient == pytest.approx(-3 + 0.5 * 0.5)


def test_fedbn_finds_norms_by_their_type():
    net = nn.Sequential(OrderedDict(shortcut=nn.BatchNorm1d(2), bn=nn.Linear(2, 2)))
    assert fedbn.mark_norms(net).tolist() == [True] * 4 + [False] * 6


def test_ditto_adds_a_proximal_term_at_the_model_received():
    problem = Problem({"pull": 0.5})
    start = problem.starts[0]
    received, _ = train_fedavg(Problem({}, rounds=1))
    models = [train(problem, i, 0, start, flatten(start), 0.5) for i in range(4)]
    models = [train(problem, i, 1, model, flatten(received), 0.5) for i, model in enumerate(models)]
    assert_close(ditto.run(problem)[1], predict(problem, models))


def test_fedamp_adds_a_proximal_term_at_the_mixture_of_the_last_models():
    problem = Problem({"alpha": 0.1, "pull": 0.2, "sigma": 1.0})
    start = problem.starts[0]
    models = [train(problem, i, 0, start, flatten(start), 2.0) for i in range(4)]
    vectors = [flatten(model) for model in models]
    centres = [fedamp.mix_models(vectors, i, alpha=0.1, sigma=1.0) for i in range(4)]
    models = [train(problem, i, 1, model, centres[i], 2.0) for i, model in enumerate(models)]
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
    assert_close(apfl.run(problem)[1][0], predict(problem, [mixture] * 4)[0])


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
    problem = Problem({"head_epochs": 2, "together": False})
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
    problem = Problem(fedper.SETTINGS, rounds=1)
    mean, trained = train_fedavg(problem)
    models = [{n: model[n] if n.startswith("head.") else mean[n] for n in mean} for model in trained]
    assert_close(fedper.run(problem)[1], predict(problem, models))


def test_fedbabu_keeps_the_head_bit_for_bit_and_tunes_a_copy():
    problem = Problem({"fine_tune": 0})
    (common,), served = fedbabu.run(problem)
    start = problem.starts[0]
    assert all(common[name].equal(start[name]) == name.startswith("head.") for name in start)
    assert_close(served, predict(problem, [common] * 4))
    (tuned_common,), tuned = solve(fedbabu, fine_tune=3)
    assert_close(tuned_common, common)
    assert not torch.allclose(tuned[0], served[0])


def test_fedbn_without_norms_is_fedavg():
    problem = Problem({})
    assert_close(fedbn.run(problem)[1], predict(problem, [FEDAVG] * 4))


def test_fedbn_of_one_round_serves_averaged_tensors_with_own_norms():
    problem = Problem({}, norms=True, rounds=1)
    mean, trained = train_fedavg(problem)
    models = [{n: model[n] if n.startswith("body.2.") else mean[n] for n in mean} for model in trained]
    assert_close(fedbn.run(problem)[1], predict(problem, models))


def test_fedamp_models_are_those_that_are_served():
    problem = Problem(fedamp.SETTINGS)
    models, served = fedamp.run(problem)
    assert_close(served, predict(problem, models))


def test_fedproto_pull_by_hand():
    """z - P = (1, 2), and no P for the second image: (1 + 4 + 0 + 0) / 4, slope 2 (z - P) / 4."""
    features = torch.tensor([[2.0, 2.0], [7.0, 7.0]], requires_grad=True)
    pull = fedproto.compute_pull(features, torch.tensor([0, 1]), {0: torch.tensor([1.0, 0.0])})
    (gradient,) = torch.autograd.grad(pull, features)
    assert pull.item() == 1.25
    assert gradient.tolist() == [[0.5, 1.0], [0.0, 0.0]]


def test_fedproto_prototypes_are_plain_means_over_clients_that_have_the_class():
    few = fedproto.average_by_class(torch.tensor([[1.0], [3.0], [9.0]]), torch.tensor([0, 0, 1]))
    many = fedproto.average_by_class(torch.tensor([[4.0]]), torch.tensor([0]))
    means = fedproto.average_prototypes([few, many], [1.0, 1.0])
    assert {c: float(mean) for c, mean in means.items()} == {0: 3.0, 1: 9.0}


def test_fedproto_only_own_classes_are_predicted():
    """z = 1, prototypes 0, 3, 1: scores -1 and -4 for the own classes 0 and 1, none for class 2."""
    prototypes = {0: torch.tensor([0.0]), 1: torch.tensor([3.0]), 2: torch.tensor([1.0])}
    probabilities = fedproto.compute_probabilities(torch.tensor([[1.0]]), prototypes, {0, 1}, 4)
    expected = torch.softmax(torch.tensor([-1.0, -4.0]), dim=0)
    torch.testing.assert_close(probabilities, torch.tensor([[*expected.tolist(), 0.0, 0.0]]))


def test_fedproto_without_pull_clients_train_alone():
    problem = Problem({"pull": 0.0})
    w = steps.read_start(problem)
    for t in range(2):
        w, _ = fedproto.train_client(problem, w, 1, t, {0: torch.zeros(5)})
    assert_close(w, flatten(LOCAL[1]))


def test_fedala_mixing_step_by_hand():
    """f = (x - 4)^2 / 2, w_i = 0, w = 6, A = 1: x = 6, slope 2, A = 1 - 0.05 x 2 x 6 = 0.4, x = 2.4."""
    own, w, slope = torch.zeros(1), torch.tensor([6.0]), torch.tensor([2.0])
    a = fedala.step_mixing(torch.ones(1), slope, own, w, rate=0.05)
    assert a == pytest.approx(0.4)
    assert fedala.mix_models(own, w, a) == pytest.approx(2.4)
    assert fedala.step_mixing(a, slope, own, w, rate=1.0) == 0


def test_fedala_mixes_only_the_last_weights():
    own, w, a = torch.zeros(3), torch.tensor([1.0, 6.0, 6.0]), torch.tensor([0.5, 1.0])
    assert fedala.mix_models(own, w, a).tolist() == [1, 3, 6]
    assert fedala.step_mixing(a, torch.ones(3), own, w, rate=0.05).tolist() == pytest.approx([0.2, 0.7])


def test_fedala_first_passes_stop_once_the_last_ten_losses_agree():
    """0.3 and 0 in turn deviate by 0.15 around their mean, 0.1 and 0 by 0.05."""
    assert not fedala.has_small_spread([1.0] * 10)
    assert fedala.has_small_spread([9.0] + [0.0, 0.1] * 5)
    assert not fedala.has_small_spread([0.0] + [0.0, 0.3] * 5)


def test_fedala_stops_by_the_loss_of_the_last_images(monkeypatch):
    """Slices of 5 of 6 images: the last one is the sixth image alone."""
    losses = []
    monkeypatch.setattr(fedala, "has_small_spread", lambda recorded: losses.extend(recorded))
    problem = Problem({**fedala.SETTINGS, "rate": 0.0})
    w, client = steps.read_start(problem), problem.clients[0]
    fedala.learn_mixing(problem, 0, w, w, torch.ones(len(w)), most_passes=2)
    expected = nn.functional.cross_entropy(steps.load_model(problem, w)(client.x[5:]), client.y[5:])
    assert losses == pytest.approx([expected.item()])

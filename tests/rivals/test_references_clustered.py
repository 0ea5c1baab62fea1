"""References of seven methods: steps by hand, and settings in which a method is a simpler one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedgrid.rivals.references import fedala, fedem, fedproto, fedsoft, fesem, flexcfl, pacfl

CLUSTERED = (fedem, fesem, fedsoft, pacfl, flexcfl)
ALL = (*CLUSTERED, fedproto, fedala)
NUM_CLASSES, SIZES = 3, (6, 7, 8, 10)


class Problem:
    """Four clients with random images, a linear layer of 4 features and a head of 3 classes."""

    num_clients, rounds, epochs, learning_rate = len(SIZES), 2, 2, 0.1
    weights = SIZES

    def __init__(self, reference, **settings):
        self.settings = reference.SETTINGS | settings
        self.starts = [self.build(k).state_dict() for k in range(8)]
        self.clients = [self.deal(i, size) for i, size in enumerate(SIZES)]

    def build(self, seed=9):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            module = torch.nn.Module()
            module.body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4), torch.nn.Tanh())
            module.head = torch.nn.Linear(4, NUM_CLASSES)
        module.forward = lambda x: module.head(module.body(x))
        return module

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


def train(problem, state, i, round_index):
    """Plain SGD on client i's batches of a round, by torch's own optimiser."""
    module, client = problem.build(), problem.clients[i]
    module.load_state_dict(state)
    optimiser = torch.optim.SGD(module.parameters(), lr=problem.learning_rate)
    for batch in problem.batches(i, round_index):
        optimiser.zero_grad()
        cross_entropy(module(client.x[batch]), client.y[batch]).backward()
        optimiser.step()
    return module.state_dict()


def average(states, weights):
    return {
        name: sum(state[name] * weight for state, weight in zip(states, weights, strict=True)) / sum(weights)
        for name in states[0]
    }


def run_fedavg(problem, weights, first_round=0, state=None):
    state = state or problem.starts[0]
    for round_index in range(first_round, problem.rounds):
        state = average([train(problem, state, i, round_index) for i in range(len(SIZES))], weights)
    return state


def run_alone(problem, i):
    state = problem.starts[0]
    for round_index in range(problem.rounds):
        state = train(problem, state, i, round_index)
    return state


def predict(problem, state, i):
    module = problem.build()
    module.load_state_dict(state)
    return torch.softmax(module(problem.clients[i].test_x), dim=1).detach()


def assert_serves(problem, served, states):
    for i, (probabilities, state) in enumerate(zip(served, states, strict=True)):
        torch.testing.assert_close(probabilities, predict(problem, state, i), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reference", ALL, ids=lambda reference: reference.__name__.rpartition(".")[2])
def test_probabilities_of_every_client_and_starts_that_stay(reference):
    problem = Problem(reference)
    before = [{name: weight.clone() for name, weight in state.items()} for state in problem.starts]
    models, served = reference.run(problem)
    assert [tuple(each.shape) for each in served] == [(5, NUM_CLASSES)] * 4
    assert all(each.dtype == torch.float32 and not each.requires_grad for each in served)
    for each in served:
        torch.testing.assert_close(each.sum(dim=1), torch.ones(5))
    assert all(state.keys() == problem.starts[0].keys() for state in models)
    torch.testing.assert_close(problem.starts, before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("reference", "settings", "weights"),
    [
        (fedem, {"num_models": 1}, SIZES),
        (fesem, {"num_clusters": 1}, (1, 1, 1, 1)),
        (fesem, {"num_clusters": 1, "weigh": "images"}, SIZES),
        (pacfl, {"angle": 180.0}, SIZES),
    ],
    ids=["fedem", "fesem", "wecfl", "pacfl"],
)
def test_one_model_is_fedavg(reference, settings, weights):
    problem = Problem(reference, **settings)
    models, served = reference.run(problem)
    expected = run_fedavg(problem, weights)
    torch.testing.assert_close(models, [expected], rtol=1e-5, atol=1e-6)
    assert_serves(problem, served, [expected] * 4)


class TestFedEM:
    def test_responsibilities_by_hand(self):
        """pi = (1/2, 1/2), losses (0.2, 1.0) and (0.7, 0.1): e^-0.2 / (e^-0.2 + e^-1) = 0.690, and so on."""
        q_NK = fedem.compute_responsibilities(
            torch.tensor([[0.2, 1.0], [0.7, 0.1]]), torch.tensor([0.5, 0.5])
        )
        torch.testing.assert_close(q_NK, torch.tensor([[0.690, 0.310], [0.354, 0.646]]), atol=5e-4, rtol=0)
        torch.testing.assert_close(q_NK.mean(dim=0), torch.tensor([0.522, 0.478]), atol=5e-4, rtol=0)

    def test_equal_starts_stay_equal(self):
        problem = Problem(fedem)
        problem.starts = [problem.starts[0]] * 8
        first, *others = fedem.run(problem)[0]
        torch.testing.assert_close(others, [first, first], rtol=0, atol=0)


class TestFeSEM:
    def test_partition_by_hand(self):
        """0, 1 | 5 costs 0.5, 0 | 1, 5 costs 8, 0, 5 | 1 costs 12.5."""
        labels = fesem.find_partition(torch.tensor([[0.0], [5.0], [1.0]]), torch.ones(3), 2)
        assert labels[0] == labels[2] != labels[1]

    def test_scatter_weighs_clients(self):
        """Weights 3 and 1 at 0 and 4: mean 1, 3 x 1 + 1 x 9 = 12."""
        points, a = torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0])
        assert fesem.compute_scatter(points, a, torch.tensor([0, 0])) == pytest.approx(12)

    def test_nearest_centre_takes_the_first_of_equals(self):
        centres = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
        assert [fesem.find_nearest(torch.tensor([x, 5.0]), centres) for x in (0.9, 1.0, 1.1)] == [0, 0, 1]


class TestFedSoft:
    def test_importance_by_hand(self):
        """Least losses under models 0, 0, 0, 1 of three: shares 3/4, 1/4 and 0, the last raised to 0.1."""
        losses_NK = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0], [0.0, 1.0, 2.0], [2.0, 1.0, 3.0]])
        assert fedsoft.compute_importance(losses_NK, 0.1).tolist() == pytest.approx([0.75, 0.25, 0.1])

    def test_personal_step_by_hand(self):
        """w = 2, gradient 1, centres 0 and 4 with u = 3/4 and 1/4: 2 - 0.1 (1 + 0.5 (1.5 - 0.5)) = 1.85."""
        weight, centres = torch.tensor(2.0), [torch.tensor(0.0), torch.tensor(4.0)]
        stepped = fedsoft.step_personal(weight, torch.tensor(1.0), centres, (0.75, 0.25), pull=0.5, rate=0.1)
        assert float(stepped) == pytest.approx(1.85)

    def test_without_pull_clients_train_alone_and_one_centre_is_their_mean(self):
        problem = Problem(fedsoft, pull=0.0, num_clusters=1)
        models, served = fedsoft.run(problem)
        own = [run_alone(problem, i) for i in range(4)]
        assert_serves(problem, served, own)
        torch.testing.assert_close(models, [average(own, SIZES)], rtol=1e-5, atol=1e-6)


class TestPACFL:
    def test_basis_of_one_image_is_the_image_of_length_1(self):
        basis = pacfl.compute_basis(np.array([[[3, 4]], [[0, 9]]], np.uint8), np.array([5, 2]), 3)
        np.testing.assert_allclose(np.abs(basis), [[0.0, 0.6], [1.0, 0.8]], atol=1e-12)

    def test_angle_is_the_least_and_ignores_signs(self):
        one, other = np.array([[1.0], [0.0]]), np.array([[0.0, -np.sqrt(3) / 2], [1.0, 0.5]])
        assert pacfl.compute_angle(one, other) == pytest.approx(30)
        assert pacfl.compute_angle(one, -one) == 0

    def test_linkage_weighs_clients_alike(self):
        """Client 3 joins {0, 1, 2} at the mean of 9, 9 and 3, which is 7; by rows it is (9 + 3) / 2 = 6."""
        angles = np.array([[0, 1, 2, 9], [1, 0, 2, 9], [2, 2, 0, 3], [9, 9, 3, 0]], float)
        assert len(set(pacfl.find_clusters(angles, 6.5, "average"))) == 2
        assert len(set(pacfl.find_clusters(angles, 7.0, "average"))) == 1
        assert len(set(pacfl.find_clusters(angles, 0.5, "average"))) == 4

    def test_angle_below_all_is_training_alone(self):
        problem = Problem(pacfl, angle=0.0)
        _, served = pacfl.run(problem)
        assert_serves(problem, served, [run_alone(problem, i) for i in range(4)])


class TestFlexCFL:
    def test_directions_of_orthogonal_deltas_are_their_axes(self):
        """The longest delta is along the first vector; lengths do not matter; half way is cos 45 degrees."""
        deltas = torch.tensor([[9.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -2.0, 0.0]])
        e_NK = flexcfl.compute_directions(deltas, 2)
        torch.testing.assert_close(e_NK.abs(), torch.tensor([[1.0, 0], [0, 1], [0, 1]], dtype=torch.float64))
        assert float(e_NK[1, 1] * e_NK[2, 1]) == pytest.approx(-1)
        assert flexcfl.find_partition(e_NK, 3) in ([0, 1, 2], [0, 2, 1])

    def test_groups_step_by_hand(self):
        """g = (3, 4), (1, 0), eta_g = 0.1: (3.1, 4) / 1.1 and (1.06, 0.08) / 1.02."""
        stepped = flexcfl.step_groups(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), 0.1)
        torch.testing.assert_close(stepped, torch.tensor([[3.1 / 1.1, 4 / 1.1], [1.06 / 1.02, 0.08 / 1.02]]))

    def test_one_group_is_fedavg_from_the_mean_of_the_pretrained_models(self):
        problem = Problem(flexcfl, num_clusters=1, pretrain_steps=99)
        models, served = flexcfl.run(problem)
        pretrained = average([train(problem, problem.starts[0], i, 0) for i in range(4)], (1, 1, 1, 1))
        expected = run_fedavg(problem, SIZES, first_round=1, state=pretrained)
        torch.testing.assert_close(models, [expected], rtol=1e-5, atol=1e-6)
        assert_serves(problem, served, [expected] * 4)


class TestFedProto:
    def test_pull_by_hand(self):
        """z - P = (1, 2), and no P for the second image: (1 + 4 + 0 + 0) / 4, slope 2 (z - P) / 4."""
        features = torch.tensor([[2.0, 2.0], [7.0, 7.0]], requires_grad=True)
        pull = fedproto.compute_pull(features, torch.tensor([0, 1]), {0: torch.tensor([1.0, 0.0])})
        (gradient,) = torch.autograd.grad(pull, features)
        assert pull.item() == 1.25
        assert gradient.tolist() == [[0.5, 1.0], [0.0, 0.0]]

    def test_prototypes_are_plain_means_over_clients_that_have_the_class(self):
        few = fedproto.average_by_class(torch.tensor([[1.0], [3.0], [9.0]]), torch.tensor([0, 0, 1]))
        many = fedproto.average_by_class(torch.tensor([[4.0]]), torch.tensor([0]))
        means = fedproto.average_prototypes([few, many], [1.0, 1.0])
        assert {c: float(mean) for c, mean in means.items()} == {0: 3.0, 1: 9.0}

    def test_only_own_classes_are_predicted(self):
        """z = 1, prototypes 0, 3, 1: scores -1 and -4 for the own classes 0 and 1, none for class 2."""
        prototypes = {0: torch.tensor([0.0]), 1: torch.tensor([3.0]), 2: torch.tensor([1.0])}
        probabilities = fedproto.compute_probabilities(torch.tensor([[1.0]]), prototypes, {0, 1}, 4)
        expected = torch.softmax(torch.tensor([-1.0, -4.0]), dim=0)
        torch.testing.assert_close(probabilities, torch.tensor([[*expected.tolist(), 0.0, 0.0]]))

    def test_without_pull_clients_train_alone(self):
        problem = Problem(fedproto, pull=0.0)
        state = problem.starts[0]
        for round_index in range(2):
            state, _ = fedproto.train_model(problem, state, 1, round_index, {0: torch.zeros(4)})
        torch.testing.assert_close(state, run_alone(problem, 1), rtol=1e-5, atol=1e-6)


class TestFedALA:
    def test_mixing_step_by_hand(self):
        """f = (x - 4)^2 / 2, w_i = 0, w = 6, A = 1: x = 6, slope 2, A = 1 - 0.05 x 2 x 6 = 0.4, x = 2.4."""
        own, received = torch.tensor(0.0), torch.tensor(6.0)
        a = fedala.step_mixing(torch.tensor(1.0), torch.tensor(2.0), own, received, rate=0.05)
        assert float(a) == pytest.approx(0.4)
        assert float(fedala.mix_tensors(own, received, a)) == pytest.approx(2.4)
        assert float(fedala.step_mixing(a, torch.tensor(2.0), own, received, rate=1.0)) == 0.0

    def test_first_passes_stop_once_the_last_ten_losses_agree(self):
        """0.3 and 0 in turn deviate by 0.15 around their mean, 0.1 and 0 by 0.05."""
        assert not fedala.is_settled([1.0] * 10)
        assert fedala.is_settled([9.0] + [0.0, 0.1] * 5)
        assert not fedala.is_settled([0.0] + [0.0, 0.3] * 5)

    def test_without_a_rate_it_is_fedavg(self):
        problem = Problem(fedala, rate=0.0)
        models, served = fedala.run(problem)
        expected = run_fedavg(problem, SIZES)
        torch.testing.assert_close(models, [expected], rtol=1e-5, atol=1e-6)
        assert_serves(problem, served, [expected] * 4)

    def test_only_the_last_tensors_are_mixed(self):
        problem = Problem(fedala)
        client, own, received = problem.clients[0], problem.starts[1], problem.starts[0]
        mixed, a = fedala.learn_mixture(problem, client, own, received, None)
        assert list(a) == ["head.weight", "head.bias"]
        torch.testing.assert_close(mixed["body.1.weight"], received["body.1.weight"], rtol=0, atol=0)
        expected = own["head.bias"] + (received["head.bias"] - own["head.bias"]) * a["head.bias"]
        torch.testing.assert_close(mixed["head.bias"], expected)
        assert not torch.equal(mixed["head.weight"], received["head.weight"])

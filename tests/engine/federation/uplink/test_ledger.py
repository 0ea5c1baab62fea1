"""Epsilons: opacus' figures, composition, and who is counted in which round."""

from math import exp, inf, log, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedgrid.algorithms.averaging.scaffold import ScaffoldRule
from fedgrid.algorithms.clustered.before_training.class_means import compute_bits_distance
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.uplink.ledger import ORDERS, Accountant, Ledger, compute_epsilon
from fedgrid.engine.federation.uplink.privacy import Privacy
from fedgrid.engine.federation.uplink.steps import Clip, Noise

OPACUS = (
    (1.0, 1, 1e-5, 4.728507067217623, 4.387413787977018),
    (1.0, 10, 1e-5, 19.05359753163139, 17.86730414930238),
    (0.5, 15, 1e-5, 65.42404047319577, 62.25243544717832),
    (2.0, 30, 1e-6, 17.16144010371158, 16.200983564293505),
    (4.0, 100, 1e-3, 11.26977960043034, 10.215530920141003),
    (10.0, 5, 1e-5, 0.8969598057188235, 0.82979179669525),
    (20.0, 1, 1e-5, 0.18161725121127972, 0.17009064852740674),
    (0.1, 20, 1e-5, 1211.7782575788603, None),
)
"""Noise multiplier, steps, delta -> epsilon of `RDPAccountant` and of `PRVAccountant` (to 0.01), of opacus
1.6.0 with `history = [(multiplier, 1.0, steps)]`."""


class TestEpsilon:
    @pytest.mark.parametrize(("multiplier", "steps", "delta", "expected", "_"), OPACUS)
    def test_is_that_of_opacus(self, multiplier, steps, delta, expected, _):
        assert compute_epsilon(steps / multiplier**2, delta) == pytest.approx(expected, abs=1e-6)

    def test_of_different_noises_is_that_of_opacus(self):
        """history = [(1.0, 1.0, 3), (2.0, 1.0, 4)]"""
        assert compute_epsilon(3 / 1 + 4 / 4, 1e-5) == pytest.approx(10.725509696418232, abs=1e-6)

    @pytest.mark.parametrize(("multiplier", "steps", "delta", "_", "numeric"), OPACUS[:-1])
    def test_is_an_upper_bound_of_the_exact_one(self, multiplier, steps, delta, _, numeric):
        """The exact one: Balle and Wang 2018, Theorem 8. opacus' PRV accountant bounds it to 0.01 above."""
        distance = sqrt(steps) / multiplier

        def excess(found):
            return (
                norm.cdf(distance / 2 - found / distance)
                - delta
                - exp(found + norm.logcdf(-distance / 2 - found / distance))
            )

        exact = brentq(excess, 0, 200)
        assert exact <= numeric <= exact + 0.02
        assert exact < compute_epsilon(distance**2, delta) < 1.15 * exact


def accountant_of(privacy, uplink, algorithm, encoder_updates=None):
    sends, message = algorithm.traits.sends_updates, algorithm.message()
    return Accountant(privacy, uplink, 0, sends, message, encoder_updates or {})


def accountant(multiplier=2.0, algorithm="fedavg", neighbours="absent"):
    uplink = (Clip(clip=1.0), Noise(noise=multiplier))
    return accountant_of(Privacy(neighbours=neighbours), uplink, create_algorithm(algorithm, {}))


def trusted():
    """Return the accountant of a server that adds the noise."""
    return Accountant(Privacy(central_noise=1.0), (Clip(clip=1.0),))


def orders(*clients, **given):
    return [Order(client, (0,), **given) for client in clients]


def of_embeddings(settings, encoder_updates=None, uplink=None, privacy=None, neighbours="absent"):
    uplink = uplink or (Clip(clip=1.0), Noise(noise=1.0))
    privacy = privacy or Privacy(neighbours=neighbours)
    return accountant_of(privacy, uplink, create_algorithm("embeddings", settings), encoder_updates)


def after(accountant, spent_K, num_clients, orders, replied):
    """Return what is spent after a round without messages."""
    ledger = Ledger(accountant, spent_K, num_clients, 0)
    ledger.charge_updates(orders, replied)
    return ledger.spent_K.tolist()


def warnings(accountant, spent_K, orders, messages=(), num_clients=3):
    """Return the warnings of a round."""
    ledger = Ledger(accountant, spent_K, num_clients, 0 if spent_K is None else 1)
    ledger.charge_messages(dict(messages), again=())
    return ledger.charge_updates(orders, [])


class TestRounds:
    def test_count_for_clients_that_replied_and_for_no_others(self):
        """Client 2 was asked and dropped out, client 3 was not asked. No amplification by sampling."""
        assert after(accountant(), None, 4, orders(0, 1, 2), [0, 1]) == [1 / 4, 1 / 4, 0, 0]
        spent_K = np.array([1 / 4, 1 / 4, 0, 0])
        assert after(accountant(), spent_K, 4, orders(1, 3), [1, 3]) == [1 / 4, 1 / 2, 0, 1 / 4]
        assert spent_K.tolist() == [1 / 4, 1 / 4, 0, 0], "the state of an earlier round stays"

    def test_cost_four_times_as_much_where_data_are_replaced(self):
        assert after(accountant(neighbours="replaced"), None, 1, orders(0), [0]) == [1.0]

    def test_count_twice_with_an_array_beside_the_update(self):
        both = orders(0, rule=ScaffoldRule())
        assert after(accountant(), None, 1, both, [0]) == pytest.approx([1 / 2])

    @pytest.mark.parametrize(("rule", "spent"), [(PLAIN, 0.0), (ScaffoldRule(), 1 / 4)])
    def test_client_that_only_answers_pays_for_its_answers_alone(self, rule, spent):
        asked = orders(0, rule=rule, steps=0)
        assert after(accountant(), None, 1, asked, [0]) == pytest.approx([spent])

    def test_without_noise_count_nothing_and_have_no_column(self):
        ledger = Ledger(accountant(multiplier=0), None, 2, 0)
        ledger.charge_messages({0: {}}, again=())
        assert ledger.charge_updates(orders(0, 1), [0, 1]) == ()
        assert ledger.spent_K is None
        assert ledger.build_round_columns() == {}
        assert ledger.build_client_columns(np.zeros(2, np.int64)) == [{}, {}]
        assert ledger.select_payers([0, 1]) == [0, 1]
        assert ledger.select_affordable(orders(0, 1)) == orders(0, 1)


class TestWhatNoNoiseCovers:
    TELLING = Order(1, (0, 1))

    @pytest.mark.parametrize("telling", [TELLING, Order(1, (0,), losses=True)])
    def test_choices_and_losses_on_own_images_have_no_finite_epsilon(self, telling):
        ledger = Ledger(accountant(), None, 3, 0)
        ledger.charge_updates([*orders(0), telling], [0, 1])
        assert ledger.spent_K.tolist() == [1 / 4, inf, 0]
        assert ledger.build_round_columns() == {"epsilon": inf}

    def test_those_on_the_servers_images_tell_nothing(self):
        order = Order(0, (0, 1), choose_on="reference", losses=True)
        assert after(accountant(), None, 1, [order], [0]) == [1 / 4]

    def test_the_warning_comes_once(self):
        assert warnings(accountant(), np.zeros(3), [self.TELLING]) == (
            "clients tell how models fit their images, which no noise covers: their epsilon is infinite",
        )
        assert warnings(accountant(), np.array([0, inf, 0]), [self.TELLING]) == ()
        assert warnings(accountant(), None, orders(0)) == ()
        assert warnings(accountant(multiplier=0), None, [self.TELLING]) == ()

    def test_the_warning_of_the_partition_of_a_trusted_server_comes_once(self):
        [warning] = warnings(trusted(), None, orders(0))
        assert "not which clients share one" in warning
        assert not warnings(trusted(), np.zeros(3), orders(0))

    def test_a_message_without_noise_has_no_finite_epsilon(self):
        telling = of_embeddings({"quantise": False, "encoder": "pixels"})
        ledger = Ledger(telling, None, 2, 0)
        ledger.charge_messages({1: {}}, again=())
        assert ledger.spent_K.tolist() == [0, inf]
        assert "describe their data" in warnings(telling, None, orders(0), {1: {}})[0]

    def test_nor_has_an_encoder_that_clients_train_without_noise_even_where_the_server_is_trusted(self):
        """Every client gets it."""
        settings = {"encoder": {"federated": 3}}
        central = (Clip(clip=1.0),), Privacy(central_noise=1.0)
        for training in (of_embeddings(settings, {2: 1}), of_embeddings(settings, {2: 1}, *central)):
            assert training.compute_charges({}, 0) == {2: inf}
            assert "algorithm.encoder.noise" in warnings(training, None, [])[-1]


class TestMessages:
    def test_under_noise_count_like_one_update_and_updates_of_the_encoder_like_as_many(self):
        """1 / 0.5^2 for the message, 2 / 4^2 for the encoder; the first round alone pays for the latter."""
        noisy = {"quantise": False, "clip": 3.0, "noise": 0.5}
        telling = of_embeddings({**noisy, "encoder": {"federated": 3, "clip": 1.0, "noise": 4.0}}, {1: 2})
        assert telling.compute_charges({0: {}, 1: {}}, 0) == {0: 4.0, 1: 4.0 + 2 / 16}
        assert telling.compute_charges({0: {}, 1: {}}, 5, again=[1]) == {0: 4.0, 1: 4.0}
        assert not warnings(telling, None, orders(0), {0: {}})

    def test_of_flipped_bits_cost_what_each_bit_costs_however_far_data_move(self):
        """16 bits at 0.25: 16 x 2 x 0.5 x ln 3. Of several flips the least protects least."""
        message = {0: {"bits": np.zeros(2, np.uint8)}}
        for flip in (0.25, [0.25, 0.5]):
            telling = of_embeddings({"flip": flip, "encoder": "pixels"}, neighbours="replaced")
            assert telling.compute_charges(message, 0) == {0: pytest.approx(16 * log(3))}
        coins = of_embeddings({"flip": 0.5, "encoder": "pixels"})
        assert coins.compute_charges(message, 0) == {0: 0.0}

    def test_of_bits_that_are_flipped_alike_every_time_are_covered_once(self):
        message = {0: {"bits": np.zeros(1, np.uint8)}}
        assert of_embeddings({"encoder": "pixels"}).compute_charges(message, 4, again=[0]) == {0: inf}
        noisy = of_embeddings({"encoder": "pixels", "flip": 0.0, "clip": 1.0, "noise": 2.0})
        assert noisy.compute_charges(message, 4, again=[0]) == {0: 0.25}

    def test_a_coins_divergence_of_every_order_is_within_its_bound(self):
        for flip in (0.001, 0.05, 0.1, 0.25, 0.4, 0.49):
            exact = np.log(
                flip**ORDERS * (1 - flip) ** (1 - ORDERS) + (1 - flip) ** ORDERS * flip ** (1 - ORDERS)
            )
            assert (exact / (ORDERS - 1) <= ORDERS * compute_bits_distance(1, flip) / 2 + 1e-12).all()


class TestBudgets:
    """Updates cost 1, messages 4, of clients that have spent 0, 4 and 9."""

    SPENT_K = np.array([0.0, 4.0, 9.0])

    def ledger(self, spent):
        noisy = {"quantise": False, "encoder": "pixels", "clip": 1.0, "noise": 0.5}
        limit = compute_epsilon(spent, 1e-5) * 1.001
        return Ledger(of_embeddings(noisy, privacy=Privacy(epsilon=limit)), self.SPENT_K, 3, 1)

    def test_leave_out_the_orders_of_clients_that_cannot_pay(self):
        assert [order.client for order in self.ledger(5).select_affordable(orders(0, 1, 2))] == [0, 1]
        assert self.ledger(0.5).select_affordable(orders(0, 1, 2)) == []

    def test_leave_out_the_messages_of_clients_that_cannot_pay(self):
        assert self.ledger(8).select_payers([0, 1, 2]) == [0, 1]
        assert self.ledger(7).select_payers([0, 1, 2]) == [0]

    def test_messages_count_before_updates(self):
        ledger = self.ledger(8)
        ledger.charge_messages({1: {}}, again=[1])
        assert [order.client for order in ledger.select_affordable(orders(0, 1))] == [0]

    def test_the_last_round_of_a_client_is_named(self):
        [warning] = self.ledger(5).charge_updates(orders(0, 1), [0, 1])
        assert warning.startswith("1 of the 2 sampled clients have spent their budget")


class TestColumns:
    LABELS_K = np.array([0, 1, 0])
    SPENT_K = np.array([1.0, 4.0, 9.0])

    def test_members_that_each_add_noise_spend_the_sum_as_a_cluster(self):
        rows = Ledger(accountant(), self.SPENT_K, 3, 1).build_client_columns(self.LABELS_K)
        assert [row["epsilon"] for row in rows] == [compute_epsilon(spent, 1e-5) for spent in (1, 4, 9)]
        assert [row["cluster_epsilon"] for row in rows] == [
            compute_epsilon(spent, 1e-5) for spent in (10, 4, 10)
        ]

    def test_under_the_servers_noise_distances_of_members_add_up(self):
        """Members 0 and 2 together move a mean by 1 + 3 deviations, which is 16 squared."""
        rows = Ledger(trusted(), self.SPENT_K, 3, 1).build_client_columns(self.LABELS_K)
        assert [row["cluster_epsilon"] for row in rows] == [
            compute_epsilon(spent, 1e-5) for spent in (16, 4, 16)
        ]

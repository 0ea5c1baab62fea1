"""Epsilons: opacus' figures, composition, and who is counted in which round."""

from math import exp, inf, log, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedgrid.algorithms.contract.base import Diagnostics
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.embeddings.private import of_bits
from fedgrid.algorithms.local.scaffold import ScaffoldRule
from fedgrid.algorithms.registry import create
from fedgrid.engine.uplink.accountant import ORDERS, Accountant, epsilon
from fedgrid.engine.uplink.privacy import Privacy
from fedgrid.engine.uplink.steps import Clip, Noise

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
        assert epsilon(steps / multiplier**2, delta) == pytest.approx(expected, abs=1e-6)

    def test_of_different_noises_is_that_of_opacus(self):
        """history = [(1.0, 1.0, 3), (2.0, 1.0, 4)]"""
        assert epsilon(3 / 1 + 4 / 4, 1e-5) == pytest.approx(10.725509696418232, abs=1e-6)

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
        assert exact < epsilon(distance**2, delta) < 1.15 * exact

    def test_of_nothing_is_zero_and_of_everything_infinite(self):
        assert epsilon(0.0, 1e-5) == 0
        assert epsilon(inf, 1e-5) == inf


def accountant(multiplier=2.0, algorithm="fedavg", neighbours="absent"):
    uplink = (Clip(clip=1.0), Noise(noise=multiplier))
    return Accountant.of(Privacy(neighbours=neighbours), uplink, create(algorithm, {}), 0)


def orders(*clients, **given):
    return [Order(client, (0,), **given) for client in clients]


def of_embeddings(settings, encoder_updates=None, uplink=None, privacy=None, neighbours="absent"):
    uplink = uplink or (Clip(clip=1.0), Noise(noise=1.0))
    privacy = privacy or Privacy(neighbours=neighbours)
    return Accountant.of(privacy, uplink, create("embeddings", settings), 0, encoder_updates)


class TestRounds:
    def test_count_for_clients_that_replied_and_for_no_others(self):
        """Client 2 was asked and dropped out, client 3 was not asked. No amplification by sampling."""
        spent_K = accountant().after(None, 4, orders(0, 1, 2), [0, 1], None)
        assert spent_K.tolist() == [1 / 4, 1 / 4, 0, 0]
        assert accountant().after(spent_K, 4, orders(1, 3), [1, 3], None).tolist() == [1 / 4, 1 / 2, 0, 1 / 4]
        assert spent_K.tolist() == [1 / 4, 1 / 4, 0, 0], "progress of an earlier round stays"

    def test_cost_four_times_as_much_where_data_are_replaced(self):
        replaced = accountant(neighbours="replaced")
        assert replaced.after(None, 1, orders(0), [0], None).tolist() == [1.0]

    def test_count_twice_with_an_array_beside_the_update(self):
        both = orders(0, rule=ScaffoldRule())
        assert accountant().after(None, 1, both, [0], None).tolist() == pytest.approx([1 / 2])

    def test_are_not_counted_where_nothing_is_sent(self):
        assert accountant(algorithm="solo").after(None, 2, orders(0, 1), [0, 1], None).tolist() == [0, 0]

    def test_have_no_column_without_noise(self):
        plain = accountant(multiplier=0)
        assert plain.after(None, 2, orders(0, 1), [0, 1], None) is None
        row, rows = {"round": 1}, [{"cluster": 0}]
        assert plain.of_round(row, None) is row
        assert plain.of_clients(rows, None) is rows


class TestWhatNoNoiseCovers:
    TOLD = Order(1, (0, 1))

    def test_a_choice_on_own_images_has_no_finite_epsilon(self):
        spent_K = accountant().after(None, 3, [*orders(0), self.TOLD], [0, 1], None)
        assert spent_K.tolist() == [1 / 4, inf, 0]
        assert accountant().of_round({}, spent_K) == {"epsilon": inf}

    def test_a_choice_on_the_servers_images_tells_nothing(self):
        order = Order(0, (0, 1), choose_on="reference")
        assert accountant().after(None, 1, [order], [0], None).tolist() == [1 / 4]

    def test_it_is_said_once(self):
        before = Diagnostics(warnings=("other",))
        said = accountant().warned(before, np.zeros(2), [self.TOLD])
        assert said.warnings == (
            "other",
            "clients tell which model they chose, which no noise covers: their epsilon is infinite",
        )
        assert accountant().warned(before, np.array([0, inf]), [self.TOLD]) is before
        assert accountant().warned(before, None, orders(0)) is before
        assert accountant(multiplier=0).warned(before, None, [self.TOLD]) is before

    def test_the_partition_of_a_trusted_server_is_said_once(self):
        central = Accountant(Privacy(central_noise=1.0), (Clip(clip=1.0),))
        [warning] = central.warned(Diagnostics(), None, orders(0)).warnings
        assert "not which clients share one" in warning
        assert not central.warned(Diagnostics(), np.zeros(1), orders(0)).warnings

    def test_a_message_without_noise_has_no_finite_epsilon(self):
        telling = of_embeddings({"quantise": False, "encoder": "pixels"})
        charges = telling.charges({1: {}}, 0)
        assert telling.with_charges(None, 2, charges).tolist() == [0, inf]
        assert "describe their data" in telling.warned(Diagnostics(), None, orders(0), charges).warnings[0]

    def test_nor_has_an_encoder_that_clients_train_without_noise_even_where_the_server_is_trusted(self):
        """Every client gets it."""
        settings = {"encoder": {"federated": 3}}
        central = (Clip(clip=1.0),), Privacy(central_noise=1.0)
        for training in (of_embeddings(settings, {2: 1}), of_embeddings(settings, {2: 1}, *central)):
            charges = training.charges({}, 0)
            assert charges == {2: inf}
            assert "algorithm.encoder.noise" in training.warned(Diagnostics(), None, [], charges).warnings[-1]


class TestMessages:
    def test_under_noise_count_like_one_update_and_updates_of_the_encoder_like_as_many(self):
        """1 / 0.5^2 for the message, 2 / 4^2 for the encoder; the first round alone pays for the latter."""
        noisy = {"quantise": False, "clip": 3.0, "noise": 0.5}
        telling = of_embeddings({**noisy, "encoder": {"federated": 3, "clip": 1.0, "noise": 4.0}}, {1: 2})
        assert telling.charges({0: {}, 1: {}}, 0) == {0: 4.0, 1: 4.0 + 2 / 16}
        assert telling.charges({0: {}, 1: {}}, 5, again=[1]) == {0: 4.0, 1: 4.0}
        assert not telling.warned(Diagnostics(), None, orders(0), telling.charges({0: {}}, 0)).warnings

    def test_of_flipped_bits_cost_what_each_bit_costs_however_far_data_move(self):
        """16 bits at 0.25: 16 x 2 x 0.5 x ln 3. Of several flips the least protects least."""
        said = {0: {"bits": np.zeros(2, np.uint8)}}
        for flip in (0.25, [0.25, 0.5]):
            telling = of_embeddings({"flip": flip, "encoder": "pixels"}, neighbours="replaced")
            assert telling.charges(said, 0) == {0: pytest.approx(16 * log(3))}
        coins = of_embeddings({"flip": 0.5, "encoder": "pixels"})
        assert coins.charges(said, 0) == {0: 0.0}

    def test_of_bits_that_are_flipped_alike_every_time_are_covered_once(self):
        said = {0: {"bits": np.zeros(1, np.uint8)}}
        assert of_embeddings({"encoder": "pixels"}).charges(said, 4, again=[0]) == {0: inf}
        noisy = of_embeddings({"encoder": "pixels", "flip": 0.0, "clip": 1.0, "noise": 2.0})
        assert noisy.charges(said, 4, again=[0]) == {0: 0.25}

    def test_a_coins_divergence_of_every_order_is_within_its_bound(self):
        for flip in (0.001, 0.05, 0.1, 0.25, 0.4, 0.49):
            exact = np.log(
                flip**ORDERS * (1 - flip) ** (1 - ORDERS) + (1 - flip) ** ORDERS * flip ** (1 - ORDERS)
            )
            assert (exact / (ORDERS - 1) <= ORDERS * of_bits(1, flip) / 2 + 1e-12).all()


class TestColumns:
    ROWS = ({"cluster": 0}, {"cluster": 1}, {"cluster": 0})
    SPENT_K = np.array([1.0, 4.0, 9.0])

    def test_members_that_each_add_noise_spend_the_sum_as_a_cluster(self):
        rows = accountant().of_clients(self.ROWS, self.SPENT_K)
        assert [row["epsilon"] for row in rows] == [epsilon(spent, 1e-5) for spent in (1, 4, 9)]
        assert [row["cluster_epsilon"] for row in rows] == [epsilon(spent, 1e-5) for spent in (10, 4, 10)]

    def test_under_the_servers_noise_distances_of_members_add_up(self):
        """Members 0 and 2 together move a mean by 1 + 3 deviations, which is 16 squared."""
        central = Accountant(Privacy(central_noise=1.0), (Clip(clip=1.0),))
        rows = central.of_clients(self.ROWS, self.SPENT_K)
        assert [row["cluster_epsilon"] for row in rows] == [epsilon(spent, 1e-5) for spent in (16, 4, 16)]

    def test_a_round_has_the_largest_of_its_clients(self):
        assert accountant().of_round({"round": 3}, self.SPENT_K) == {"round": 3, "epsilon": epsilon(9, 1e-5)}


def test_epsilon_falls_with_delta_and_with_noise():
    found = [epsilon(1 / noise**2, delta) for noise in (1, 2, 4) for delta in (1e-3,)]
    assert found == sorted(found, reverse=True)
    assert epsilon(1.0, 1e-3) < epsilon(1.0, 1e-5)

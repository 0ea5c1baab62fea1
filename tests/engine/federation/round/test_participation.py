"""Present, sampled and dropped clients depend on the run's seed only."""

from collections import Counter

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.round.participation import Participation, draw_held_out

ROUNDS = range(200)


def dropped(participation, round_index):
    """Return the sampled clients that send nothing back."""
    found = participation.draw_attendance(round_index)
    return frozenset(filter(found.drops_out, found.sampled))


def orders(clients):
    """Return an order for each client."""
    return [Order(client, (0,)) for client in clients]


@pytest.mark.parametrize(
    ("num_clients", "share", "asked"),
    [
        (30, 0.5, 15),
        (30, 0.1, 3),
        (15, 0.5, 8),
        (5, 0.5, 3),
        (5, 0.3, 2),
        (5, 0.29, 1),
        (10, 0.05, 1),
        (10, 0.001, 1),
        (1, 0.5, 1),
        (3, 0.999, 3),
        (10, 0.94, 9),
    ],
)
def test_the_share_is_rounded_half_up_and_is_at_least_one(num_clients, share, asked):
    """5 x 0.5 = 2.5 gives 3, 5 x 0.3 = 1.5 gives 2, 5 x 0.29 = 1.45 gives 1."""
    participation = Participation(num_clients, seed=0, participation=share)
    for round_index in range(20):
        clients = participation.draw_attendance(round_index).sampled
        assert len(clients) == asked
        assert clients == tuple(sorted(set(clients)))
        assert set(clients) <= set(range(num_clients))
        assert {type(client) for client in clients} == {int}


def test_sample_depends_only_on_seed_and_round():
    """Another object draws the same, in any order; another seed draws others."""
    settings = {"participation": 0.5, "dropout": 0.3}
    one, same, other = (Participation(20, seed, **settings) for seed in (3, 3, 4))
    sampled = [one.draw_attendance(round_index).sampled for round_index in range(10)]
    first = [dropped(one, round_index) for round_index in range(10)]
    assert [same.draw_attendance(round_index).sampled for round_index in reversed(range(10))] == sampled[::-1]
    assert [dropped(same, round_index) for round_index in range(10)] == first
    assert [other.draw_attendance(round_index).sampled for round_index in range(10)] != sampled
    assert [dropped(other, round_index) for round_index in range(10)] != first


def test_dropout_does_not_change_the_sample():
    """Common random numbers: runs that differ only in dropout sample the same clients."""
    plain = Participation(20, 0, participation=0.5)
    shaky = Participation(20, 0, participation=0.5, dropout=0.5)
    assert [plain.draw_attendance(index).sampled for index in range(10)] == [
        shaky.draw_attendance(index).sampled for index in range(10)
    ]


class TestDropout:
    def test_dropout_of_a_client_does_not_depend_on_the_others_asked(self):
        """Draws are by client: an algorithm that asks others changes nothing for this one."""
        participation = Participation(20, 0, dropout=0.5)
        for round_index in range(20):
            found = participation.draw_attendance(round_index)
            everybody = {order.client for order in found.select_reached(orders(range(20)))}
            for asked in (range(10), [3], []):
                reached = [order.client for order in found.select_reached(orders(asked))]
                assert reached == [client for client in asked if client in everybody]

    def test_a_client_that_drops_out_at_one_rate_does_so_at_any_higher_one(self):
        rarely, often = (Participation(20, 0, dropout=rate) for rate in (0.2, 0.6))
        for round_index in range(20):
            assert dropped(rarely, round_index) <= dropped(often, round_index)

    @pytest.mark.parametrize("rate", [0.1, 0.5])
    def test_dropout_rate_is_as_configured(self, rate):
        """200 rounds of 20 clients: the deviation is at most sqrt(4000 x 0.25) = 32, 0.008 of 4000."""
        participation = Participation(20, 0, dropout=rate)
        total = sum(len(dropped(participation, round_index)) for round_index in ROUNDS)
        assert total / 4000 == pytest.approx(rate, abs=0.03)

    def test_all_sampled_clients_may_drop_out(self):
        """Half of 200 rounds with one sampled client have no reply."""
        participation = Participation(1, 0, dropout=0.5)
        assert 60 < sum(bool(dropped(participation, round_index)) for round_index in ROUNDS) < 140


class TestHeldOut:
    def test_they_are_never_present_and_the_share_is_of_the_others(self):
        """Half of three clients is two, rounded up."""
        found = Participation(5, 0, participation=0.5, held_out=frozenset({1, 3})).draw_attendance(0)
        assert found.present == (0, 2, 4)
        assert len(found.sampled) == 2

    @pytest.mark.parametrize("seed", range(5))
    def test_each_group_keeps_a_client_that_trains_if_that_can_be(self, seed):
        truth_K = np.array([0, 0, 1, 2, 2, 2])
        drawn = draw_held_out(truth_K, seed, 3)
        assert len(drawn) == 3
        assert set(truth_K[[client for client in range(6) if client not in drawn]]) == {0, 1, 2}
        assert 2 not in drawn
        assert drawn == draw_held_out(truth_K, seed, 3)
        assert draw_held_out(truth_K, seed, 3, others=(0, 1, 4)) == {2, 3, 5}


class TestNewcomers:
    JOINS = {1: 3, 4: 2, 0: 1}

    def test_rounds_are_counted_from_one_as_in_the_records(self):
        """Round 3 has index 2."""
        participation = Participation(5, 0, joins=self.JOINS)
        present = [participation.draw_attendance(round_index).present for round_index in range(4)]
        assert present == [(0, 2, 3), (0, 2, 3, 4), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)]
        assert [participation.draw_attendance(round_index).sampled for round_index in range(4)] == present

    def test_clients_are_not_sampled_before_they_join(self):
        participation = Participation(6, 0, participation=0.5, dropout=0.3, joins={5: 100, 2: 50})
        for round_index in ROUNDS:
            asked = set(participation.draw_attendance(round_index).sampled)
            assert asked
            assert asked <= set(participation.draw_attendance(round_index).present)
            assert not (round_index < 99 and 5 in asked)
            assert not (round_index < 49 and 2 in asked)
        assert any(5 in participation.draw_attendance(round_index).sampled for round_index in ROUNDS)

    def test_the_share_is_of_those_that_have_joined(self):
        """Half of 3 is 2 (rounded up), half of 4 is 2, half of 5 is 3."""
        participation = Participation(5, 0, participation=0.5, joins=self.JOINS)
        assert [len(participation.draw_attendance(round_index).sampled) for round_index in range(3)] == [
            2,
            2,
            3,
        ]


def test_all_clients_are_equally_likely_to_be_sampled():
    """Of 200 rounds of 3 in 10 each client is expected in 60, with deviation sqrt(200 x 0.21) = 6.5."""
    participation = Participation(10, seed=0, participation=0.3)
    times = Counter(
        client for round_index in ROUNDS for client in participation.draw_attendance(round_index).sampled
    )
    assert sum(times.values()) == 600
    assert all(35 <= times[client] <= 85 for client in range(10))

"""What clients report as named arrays and back: nothing is lost but clock and memory readings."""

import pickle
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Order, Served
from fedgrid.engine.federation.clients import client_round
from fedgrid.engine.federation.clients.messages import (
    EvaluateReport,
    Reply,
    RoundTests,
    TrainReport,
    TrainTask,
)
from fedgrid.engine.federation.clients.process import PeakMemory
from fedgrid.engine.federation.clients.stopwatch import Stopwatch
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.runtime.round_cache.files import CacheEntry, decode_entry, encode_entry
from fedgrid.engine.runtime.round_cache.packing import (
    pack_replies,
    pack_reports,
    pack_tests,
    unpack_replies,
    unpack_reports,
    unpack_tests,
)


def counts(*numbers, loss=1.5):
    """A test of two classes."""
    return Counts(np.array(numbers).reshape(2, 2), loss)


def report(client, **changes):
    return replace(
        TrainReport(
            client=client,
            chosen=0,
            train_loss=0.1,
            train_accuracy=0.9,
            update_norm=1 / 3,
            usable=True,
            local=counts(5, 1, 2, client, loss=0.7),
            local_server=counts(10, 0, 3, client, loss=0.3),
            seconds=4.0,
            peak_memory=PeakMemory("another process", 1e6),
        ),
        **changes,
    )


def task(client, candidates=(0,)):
    return TrainTask(Order(client, candidates), 2, evaluate=True)


def through_the_cache(arrays):
    """Return arrays as another run finds them."""
    return decode_entry(encode_entry(CacheEntry(arrays, "one", 0.0, 0.0), "name"), "name").arrays


def returned(reports, tasks=None, remembers=(), asked=None):
    """Return what becomes of reports as arrays and back, for those who `asked`."""
    tasks = tasks or [task(each.client) for each in reports]
    return unpack_reports(through_the_cache(pack_reports(reports, tasks, set(remembers))), asked or tasks)


def plain(each):
    """Return all of a report that is not read from a clock, NaN equal to NaN."""
    tests = [
        None if test is None else (test.confusion.tolist(), test.confusion.dtype, repr(test.loss_sum))
        for test in (each.local, each.local_server)
    ]
    return repr(replace(each, seconds=0.0, peak_memory=None, local=None, local_server=None)), tests


def test_replies_come_back_with_the_arrays_of_each_client():
    """Client 1 has another candidate in the run that reads; names of outputs may hold slashes."""
    sent = [
        Reply(report(11), np.ones(3, np.float32), {"a/b": np.arange(4)}, {"momentum": np.zeros(3)}),
        Reply(report(1), np.zeros(3, np.float32)),
    ]
    arrays = through_the_cache(pack_replies(sent, [task(11), task(1)]))
    back = unpack_replies(arrays, {1: task(1, (5,)), 11: task(11), 2: task(2)})
    assert list(back) == [11, 1]
    assert plain(back[11].report) == plain(sent[0].report)
    assert back[1].report.chosen == 5
    for client, reply in ((11, sent[0]), (1, sent[1])):
        assert back[client].update.tolist() == reply.update.tolist()
        for kind in ("outputs", "memory"):
            found, expected = getattr(back[client], kind), getattr(reply, kind)
            assert {name: array.tolist() for name, array in found.items()} == {
                name: array.tolist() for name, array in expected.items()
            }


class TestReports:
    def test_reports_come_back_as_they_were(self):
        reports = [report(3), report(0, train_accuracy=0.0, usable=False), report(7, train_loss=1e-300)]
        assert [plain(each) for each in returned(reports)] == [plain(each) for each in reports]

    def test_unpacked_numbers_are_plain_python(self):
        """As those that clients send: records and log print them."""
        (back,) = returned([report(3)])
        kinds = {name: type(value) for name, value in vars(back).items()}
        assert kinds == {name: type(value) for name, value in vars(report(3)).items()}
        assert type(back.local.loss_sum) is float

    @pytest.mark.parametrize("value", [nan, inf, -inf, -0.0, 5e-324])
    def test_every_float_is_kept(self, value):
        reports = [
            report(0, train_loss=value, update_norm=value, local=counts(1, 2, 3, 4, loss=value)),
            report(1),
        ]
        assert [plain(each) for each in returned(reports)] == [plain(each) for each in reports]

    def test_reports_without_tests_come_back_without(self):
        reports = [report(client, local=None, local_server=None) for client in (0, 1)]
        assert [(back.local, back.local_server) for back in returned(reports)] == [(None, None)] * 2

    def test_times_and_peak_memory_are_not_packed(self):
        """And in this process, not the one that trained, which may be gone."""
        (back,) = returned([report(0)])
        assert back.seconds == 0
        assert back.peak_memory.process != "another process"
        arrays = pack_reports([report(0)], [task(0)], set())
        later = pack_reports([report(0, seconds=9.0, peak_memory=PeakMemory("", 0.0))], [task(0)], set())
        assert pickle.dumps(arrays) == pickle.dumps(later)

    def test_choice_is_kept_by_place_among_the_candidates(self):
        """Client 0 took the second model it was sent, client 1 the first."""
        reports = [report(0, chosen=5), report(1, chosen=2)]
        tasks = [task(0, candidates=(2, 5)), task(1, candidates=(2, 5, 7))]
        asked = [task(0, candidates=(1, 0)), task(1, candidates=(4, 3, 0))]
        assert [back.chosen for back in returned(reports, tasks)] == [5, 2]
        assert [back.chosen for back in returned(reports, tasks, asked=asked)] == [0, 4]

    @pytest.mark.parametrize("remembers", [(), (3,), (0, 3)])
    def test_clients_with_a_memory_are_marked(self, remembers):
        arrays = pack_reports([report(3), report(0)], [task(3), task(0)], set(remembers))
        assert arrays["client_N"][arrays["remembers_N"]].tolist() == [c for c in (3, 0) if c in remembers]

    def test_counts_up_to_the_largest_int32_are_kept(self):
        many = counts(2**31 - 1, 0, 0, 0)
        (back,) = returned([report(0, local=many)])
        assert back.local.confusion[0, 0] == 2**31 - 1


class KnownTests:
    """A pool whose clients' tests are known."""

    def __init__(self, reports):
        self._reports = reports

    def evaluate(self, tasks, models, memories):
        return self._reports


def known_tests(reports):
    """Return the tests of a round in which clients test like this."""
    served = Served((), np.zeros(len(reports), np.int64))
    return client_round.ClientRound([], (), {}, KnownTests(reports), 0, Stopwatch()).test_models(
        served, {}, range(9)
    )


class TestTestsOfAggregatedModels:
    def test_parts_of_the_servers_set_are_added_up_by_model(self):
        """Two models, three clients, of which each has a part of the server's set."""
        reports = [
            EvaluateReport(
                client, counts(client, 0, 0, 1), (counts(1, 0, 0, 0), counts(0, client, 0, 0, loss=0.5))
            )
            for client in (0, 2, 1)
        ]
        tests = unpack_tests(through_the_cache(pack_tests(known_tests(reports))))
        assert {client: own.confusion.tolist() for client, own in tests.own.items()} == {
            0: [[0, 0], [0, 1]],
            1: [[1, 0], [0, 1]],
            2: [[2, 0], [0, 1]],
        }
        first, second = tests.server
        assert (first.confusion.tolist(), first.loss_sum) == ([[3, 0], [0, 0]], 4.5)
        assert (second.confusion.tolist(), second.loss_sum) == ([[0, 3], [0, 0]], 1.5)

    def test_nan_and_infinite_losses_are_kept(self):
        given = RoundTests({1: counts(1, 0, 0, 0, loss=inf)}, (counts(1, 0, 0, 0, loss=nan),), {1: 0})
        tests = unpack_tests(pack_tests(given))
        assert {client: own.loss_sum for client, own in tests.own.items()} == {1: inf}
        assert np.isnan(tests.server[0].loss_sum)
        assert tests.chosen == {1: 0}

    def test_losses_are_added_in_the_order_of_the_clients(self):
        """The last bit depends on it: (1 + 1e-16) + 1e-16 is 1, 1e-16 + 1e-16 + 1 is more."""
        losses = (1.0, 1e-16, 1e-16)
        for ordered in (losses, losses[::-1]):
            reports = [
                EvaluateReport(client, counts(0, 0, 0, 0), (counts(0, 0, 0, 0, loss=loss),))
                for client, loss in enumerate(ordered)
            ]
            (server,) = unpack_tests(pack_tests(known_tests(reports))).server
            assert server.loss_sum == sum(ordered)

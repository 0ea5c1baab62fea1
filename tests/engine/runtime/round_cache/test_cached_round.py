"""Runs of one storage share rounds: which run trains what, and no number changes."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import Reply, TrainReport, TrainTask
from fedgrid.engine.federation.clients.process import PeakMemory
from fedgrid.engine.federation.clients.stopwatch import Stopwatch
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.round_cache import cached_round
from fedgrid.engine.runtime.round_cache.cached_round import CachedRound
from fedgrid.engine.runtime.round_cache.files import FOLDER, CacheOptions, RoundCache, list_entries
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.small_runs import (
    CACHE,
    CLIENTS,
    NOWHERE,
    ROUNDS,
    CountingPool,
    UnusedPool,
    build_all_runs,
    build_early_run,
    config,
    count_trained,
    find_differing,
    locks,
    log,
    play,
    rows,
    warnings,
)

ALL, NOBODY = CLIENTS, 0
PARTING = ("fedavg", "ocfl-kmeans")
"""Two whose rounds part in the second."""


def ids(run):
    """Return a run's algorithm, for the names of tests."""
    return run.algorithm.name


FORGETFUL = """
from typing import ClassVar, Literal
import numpy as np
from fedgrid import Finished, LocalMethod, LocalRule, LocalSteps

class Forgetful(LocalRule):
    remembers: ClassVar[tuple[str, ...]] = ("note",)

    def start(self, local):
        return Steps()

class Steps(LocalSteps):
    def finish(self, local, num_steps):
        return Finished(memory={} if local.memory else {"note": np.ones(1)})

class Method(LocalMethod):
    name: Literal["forgetful"] = "forgetful"

    def rule(self):
        return Forgetful()

LOCAL_METHODS = [Method]
"""


class TestNoNumberChanges:
    """All files but timings and log are, byte by byte, those of a run without a cache."""

    @pytest.mark.parametrize("order", [1, -1], ids=["as listed", "backwards"])
    def test_every_algorithm_after_every_other_leaves_the_same_files(self, tmp_path, order):
        for run in build_all_runs()[::order]:
            play(run, tmp_path)
            assert find_differing(run, tmp_path) == [], ids(run)
            assert [line for line in warnings(run, tmp_path) if "no BatchNorm layer" not in line] == []
            assert locks(tmp_path) == []

    def test_server_optimizer_leaves_the_same_files(self, tmp_path):
        """The clients' work of round 1 is that of plain averaging, the model that comes of it is not."""
        play(config(), tmp_path)
        run = config({"name": "fedavg", "server_optimizer": "adam", "server_learning_rate": 0.01})
        play(run, tmp_path)
        assert find_differing(run, tmp_path) == []
        assert count_trained(run, tmp_path) == [NOBODY, ALL, ALL]

    def test_weights_share_the_first_round_and_leave_the_same_files(self, tmp_path):
        """The second run needs another mean than the first: the clients train for it again."""
        for weights in ("none", "images"):
            run = config(weights=weights)
            play(run, tmp_path)
            assert find_differing(run, tmp_path) == []
        assert run.shared_prefix == config().shared_prefix
        assert rows(run, tmp_path)[0]["trained_clients"] == CLIENTS
        assert rows(run, tmp_path, "rounds")[0] == rows(config(), tmp_path, "rounds")[0]
        assert rows(run, tmp_path, "rounds")[1] != rows(config(), tmp_path, "rounds")[1]

    SETTINGS = {
        "kept momentum of clients that come and go": {
            "training": {
                "keep_optimizer_state": True,
                "optimizer": "sgd",
                "momentum": 0.5,
                "learning_rate": 0.05,
            },
            "participation": 0.5,
            "dropout": 0.2,
            "joins": {5: 2},
        },
        "AUC of all tests every other round": {
            "evaluation": {"every": 2, "probabilities": True, "local_server": True}
        },
    }

    @pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
    def test_settings_leave_the_same_files(self, tmp_path, settings):
        shared = 0
        for algorithm in PARTING:
            run = build_early_run(algorithm, **settings)
            play(run, tmp_path)
            assert find_differing(run, tmp_path) == [], algorithm
            shared += count_trained(run, tmp_path).count(0)
        assert shared

    def test_runs_resumed_after_each_round_leave_the_same_files(self, tmp_path):
        """And take turns."""
        runs = [build_early_run(algorithm) for algorithm in PARTING]
        for number in range(1, ROUNDS + 1):
            for run in runs:
                play(run, tmp_path, until=number)
        for run in runs:
            assert find_differing(run, tmp_path) == [], ids(run)
            assert f"continues after round {ROUNDS - 1}" in log(run, tmp_path)

    def test_memory_that_a_rule_leaves_out_is_forgotten_in_each_run(self, tmp_path):
        """Clients have a note after rounds 1 and 3; the second run takes the memories from the cache."""
        (tmp_path / "mine.py").write_text(FORGETFUL)
        active.use_plugins([tmp_path / "mine.py"])
        for name in PARTING:
            run = config({"name": name, "local": "forgetful"})
            folder = play(run, tmp_path)
            notes = [
                [list(memory) for memory in checkpoint.load_state(folder, number).memories.values()]
                for number in (2, 3)
            ]
            assert notes == [[[]] * CLIENTS, [["note"]] * CLIENTS]
            assert find_differing(run, tmp_path) == []
        active.use_plugins()

    @pytest.mark.parametrize("limit", [0, 250_000])
    def test_small_limits_leave_the_same_files(self, tmp_path, limit):
        """A state of this model takes 90 kB."""
        for algorithm in PARTING:
            run = build_early_run(algorithm)
            play(run, tmp_path, cache=CacheOptions(limit))
            assert find_differing(run, tmp_path) == [], algorithm
            assert sum(entry.size for entry in list_entries(Storage.from_text(tmp_path))) <= limit


class TestWhoTrains:
    def test_first_run_trains_all_and_the_next_nothing_until_it_deviates(self, tmp_path):
        """Sattler and Briggs act in round 21 at the earliest."""
        first = config()
        play(first, tmp_path)
        assert count_trained(first, tmp_path) == [ALL] * ROUNDS
        for algorithm in ("sattler", "briggs"):
            run = config(algorithm)
            play(run, tmp_path, UnusedPool())
            assert find_differing(run, tmp_path) == []
            for row in rows(run, tmp_path):
                assert (row["trained_clients"], row["computed_by"]) == (0, first.run_id)
                assert row["uncached_seconds"] > row["seconds"]

    def test_run_trains_from_the_round_in_which_it_deviates(self, tmp_path):
        """Rounds 2 and 3; those after it share all that is left."""
        play(config(), tmp_path)
        run = config("ocfl-kmeans")
        play(run, tmp_path)
        assert count_trained(run, tmp_path) == [NOBODY, ALL, ALL]
        assert [row["clusters"] for row in rows(run, tmp_path, "rounds")] == [1, 3, 3]

    def test_runs_that_come_to_the_same_partition_share_all_that_follows(self, tmp_path):
        """Six clients in three hidden groups, which all of these find in round 2."""
        first = config("ocfl-kmeans")
        play(first, tmp_path)
        for algorithm in ("ocfl-affinity", "ocfl-hdbscan"):
            run = config(algorithm)
            play(run, tmp_path, UnusedPool())
            assert {row["computed_by"] for row in rows(run, tmp_path)} == {first.run_id}

    def test_only_clients_of_clusters_without_a_cached_mean_train(self, tmp_path):
        """k-means finds {0, 1}, {2, 3}, {4, 5}; mean-shift {0, 1}, {2, 3} and one of 4 and 5 each.

        In the round after it, too: the first four go on from the same models in both runs.
        """
        play(config("ocfl-kmeans", seed=3), tmp_path)
        run, pool = config("ocfl-meanshift", seed=3), CountingPool()
        play(run, tmp_path, pool)
        second = [row["cluster"] for row in rows(run, tmp_path, "clients") if row["round"] == 2]
        assert second == [0, 0, 1, 1, 2, 3]
        assert pool.trained == [(2, 4), (2, 5), (3, 4), (3, 5)]
        assert count_trained(run, tmp_path) == [NOBODY, 2, 2]
        assert rows(run, tmp_path)[1]["computed_by"] == run.run_id

    def test_deviating_run_caches_the_plain_mean_of_that_round(self, tmp_path):
        """Plain averaging gets its next model without training, and trains from the round after."""
        departed, run, pool = config("ocfl-kmeans"), config(), CountingPool()
        play(departed, tmp_path)
        play(run, tmp_path, pool)
        assert count_trained(run, tmp_path) == [NOBODY, NOBODY, ALL]
        assert [row["computed_by"] for row in rows(run, tmp_path)] == [departed.run_id] * 2 + [run.run_id]
        assert {number for number, _ in pool.trained} == {3}

    def test_deviating_run_caches_the_median_of_that_round_for_runs_that_take_medians(self, tmp_path):
        departed = config({"name": "briggs", "round": 2, "aggregate": "median"})
        run = config({"name": "fedavg", "aggregate": "median"})
        play(departed, tmp_path)
        [acted] = [row["round"] for row in rows(departed, tmp_path, "rounds") if row["clustered"]]
        play(run, tmp_path)
        assert acted == 2
        assert count_trained(run, tmp_path)[:acted] == [NOBODY] * acted

    @pytest.mark.parametrize(("before", "after"), [(3, 5), (5, 3)])
    def test_runs_of_other_lengths_share_what_both_have(self, tmp_path, before, after):
        play(config(training={"rounds": before}), tmp_path)
        run = config("sattler", training={"rounds": after})
        play(run, tmp_path)
        assert count_trained(run, tmp_path) == [NOBODY] * 3 + [ALL] * (after - 3)
        assert find_differing(run, tmp_path) == []

    def test_a_session_hands_its_clients_the_data_of_the_run_that_trains(self, tmp_path):
        """Not those of an earlier run, whose rounds were all cache hits."""
        play(config(), tmp_path)
        opened = Session(InProcessPool(), NOWHERE, cache=CACHE)
        for run in (config(seed=1), config("sattler"), config("briggs", seed=2), config("ocfl-kmeans")):
            for _ in range(opened.open(run, Storage.from_text(tmp_path)), ROUNDS):
                opened.next_round()
            assert find_differing(run, tmp_path) == []

    def test_a_session_that_writes_behind_has_shared_all_once_it_has_settled(self, tmp_path):
        """When another run is opened, say, after two rounds."""
        opened = Session(InProcessPool(), NOWHERE, write_behind=True, cache=CACHE)
        opened.open(config(), Storage.from_text(tmp_path))
        for _ in range(2):
            opened.next_round()
        opened.open(config("sattler"), Storage.from_text(tmp_path))
        assert locks(tmp_path) == []
        for _ in range(ROUNDS):
            opened.next_round()
        assert count_trained(config("sattler"), tmp_path) == [NOBODY, NOBODY, ALL]
        play(config("briggs"), tmp_path, UnusedPool())
        for algorithm in ("sattler", "briggs"):
            assert find_differing(config(algorithm), tmp_path) == []

    def test_without_a_cache_nothing_is_written_or_read(self, tmp_path):
        play(config(), tmp_path, cache=None)
        assert list_entries(Storage.from_text(tmp_path)) == []
        assert not (tmp_path / FOLDER).exists()
        play(config(), tmp_path)
        run = config("sattler")
        play(run, tmp_path, cache=None)
        assert count_trained(run, tmp_path) == [ALL] * ROUNDS


class TestTimings:
    def test_timings_of_rounds_that_this_run_trained(self, tmp_path):
        run = config()
        play(run, tmp_path)
        for row in rows(run, tmp_path):
            assert (row["computed_by"], row["trained_clients"]) == (run.run_id, ALL)
            assert row["waited_seconds"] == 0
            assert row["uncached_seconds"] == row["seconds"] > row["train_seconds"] > 0
            assert row["slowest_client"] in range(ALL)

    def test_timings_of_rounds_that_another_run_trained(self, tmp_path):
        play(config(), tmp_path)
        run = config("sattler")
        play(run, tmp_path, UnusedPool())
        for row in rows(run, tmp_path):
            assert row["train_seconds"] == row["waited_seconds"] == 0
            assert (row["slowest_client"], row["slowest_client_seconds"]) == (None, None)
            assert row["peak_memory_mb"] > 0

    def test_saved_seconds_are_what_the_round_cost_the_run_that_trained(self, tmp_path):
        """With its training; without the time for preparing the clients and writing to the cache."""
        first, second = config(), config("sattler")
        play(first, tmp_path)
        play(second, tmp_path, UnusedPool())
        for done, taken in zip(rows(first, tmp_path), rows(second, tmp_path), strict=True):
            saved = taken["uncached_seconds"] - taken["seconds"]
            assert done["slowest_client_seconds"] < saved < done["seconds"]

    def test_timings_of_rounds_in_which_no_client_is_reached(self, tmp_path):
        run = config(dropout=0.999)
        play(run, tmp_path)
        assert {row["part"] for row in rows(run, tmp_path, "clients")} == {"dropped"}
        assert find_differing(run, tmp_path) == []
        for row in rows(run, tmp_path):
            assert (row["computed_by"], row["reached_clients"]) == (run.run_id, 0)
            assert row["uncached_seconds"] >= row["seconds"] > 0
        other = config("ocfl-kmeans", dropout=0.999)
        play(other, tmp_path, UnusedPool())
        assert find_differing(other, tmp_path) == []
        assert all(row["uncached_seconds"] > row["seconds"] for row in rows(other, tmp_path))


class TestFailures:
    HOPELESS = {"training": {"learning_rate": 1e30}}

    def test_round_with_only_unusable_updates_fails_every_run_with_the_same_message(self, tmp_path):
        """The lock is released; the second run finds the clients' reports in the cache."""
        for algorithm, pool in (("fedavg", InProcessPool()), ("sattler", UnusedPool())):
            run = config(algorithm, **self.HOPELESS)
            with pytest.raises(RunError, match=r"^clients 0, 1, 2, 3, 4, 5, round 1: every update is NaN"):
                play(run, tmp_path, pool)
            assert locks(tmp_path) == []
            assert any(line.startswith("failed: clients 0, 1") for line in log(run, tmp_path))

    def test_failed_test_keeps_the_training_cached(self, tmp_path):
        """The training of that round is in the cache, its test is not."""
        with pytest.raises(ZeroDivisionError):
            play(config(), tmp_path, FailingTests())
        assert locks(tmp_path) == []
        pool = CountingPool()
        play(config("sattler", training={"rounds": 1}), tmp_path, pool)
        assert (pool.trained, pool.tests) == ([], 1)


class Chooser:
    """Clients that choose the model whose only entry is largest and move it by their number."""

    def __init__(self):
        self.trained = []

    def train(self, tasks, models, memories):
        self.trained += [task.client for task in tasks]
        return [self._train(task, models) for task in tasks]

    def _train(self, task, models):
        chosen = max(task.order.candidates, key=lambda candidate: models[candidate][0])
        update = np.array([task.client], np.float32)
        peak = PeakMemory("process", 1e6)
        report = TrainReport(task.client, chosen, 0.5, 0.5, float(task.client), True, None, None, 1.0, peak)
        return Reply(report, update)


class TestWhatARoundIs:
    """Two clients, each sent two models."""

    SENT = ((3, (0, 1)), (4, (1, 0)))

    @pytest.fixture
    def shared(self, tmp_path):
        return lambda setup="setup": RoundCache(
            Storage.from_text(tmp_path), "shared_prefix", "one", CACHE, setup
        )

    def reports(self, shared, sent=SENT, models=(7, 8), rounds_done=2, evaluate=False, memories=None):
        """Return which clients trained, and what the clients chose."""
        tasks = [TrainTask(Order(client, candidates), rounds_done, evaluate) for client, candidates in sent]
        models = tuple(np.array([value], np.float32) for value in models)
        pool = Chooser()
        with CachedRound(tasks, models, memories or {}, pool, rounds_done, Stopwatch(), shared) as work:
            reports = work.collect_reports()
        shared.wait_for_writes()
        return pool.trained, [report.chosen for report in reports]

    def test_same_models_to_the_same_clients_are_the_same_round(self, shared):
        assert self.reports(shared()) == ([3, 4], [1, 1])
        assert self.reports(shared()) == ([], [1, 1])

    def test_positions_of_the_models_do_not_matter(self, shared):
        """Model 8 is the second here and the first of five there."""
        self.reports(shared())
        sent = ((3, (4, 0)), (4, (0, 4)))
        assert self.reports(shared(), sent, models=(8, 1, 2, 3, 7)) == ([], [0, 0])

    @pytest.mark.parametrize(
        ("change", "who"),
        [
            ({"models": (7, 9)}, [3, 4]),
            ({"models": (8, 7)}, [3, 4]),
            ({"sent": ((3, (1, 0)), (4, (0, 1)))}, [3, 4]),
            ({"sent": ((3, (0, 1)), (4, (1,)))}, [4]),
            ({"sent": ((3, (0, 1)), (2, (1, 0)))}, [2]),
            ({"rounds_done": 3}, [3, 4]),
            ({"evaluate": True}, [3, 4]),
            ({"memories": {3: {"optimizer": np.zeros(1, np.float32)}}}, [3]),
        ],
        ids=str,
    )
    def test_anything_else_is_another_round(self, shared, change, who):
        """Only the clients whose own inputs changed train again."""
        self.reports(shared())
        trained, _ = self.reports(shared(), **change)
        assert trained == who

    def test_single_replies_are_not_kept_where_all_clients_get_the_same_models(self, shared):
        """A shared prefix's round would take as many models as there are clients."""
        alike = ((3, (0, 1)), (4, (0, 1)))
        self.reports(shared(), alike)
        assert self.reports(shared(), alike[:1])[0] == [3]

    def test_large_replies_are_not_kept(self, shared, monkeypatch):
        monkeypatch.setattr(cached_round, "SMALL_UPDATE_BYTES", 3)
        self.reports(shared())
        assert self.reports(shared(), ((3, (0, 1)), (2, (1, 0))))[0] == [3, 2]

    def test_memory_of_an_absent_client_is_no_part_of_the_round(self, shared):
        self.reports(shared())
        assert self.reports(shared(), memories={0: {"optimizer": np.zeros(1, np.float32)}})[0] == []


def test_lock_is_released_if_writing_fails(tmp_path, monkeypatch):
    def fail(files, name, entry):
        raise MemoryError

    monkeypatch.setattr(RoundCache, "write", fail)
    with pytest.raises(MemoryError):
        play(config(), tmp_path)
    assert locks(tmp_path) == []


class FailingTests(InProcessPool):
    """Tests nothing."""

    def evaluate(self, tasks, models, memories):
        raise ZeroDivisionError

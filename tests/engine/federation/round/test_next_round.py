"""A round as a function, on clients that are arithmetic: no model is trained, every number by hand."""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, Settings, State
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import Layout
from fedgrid.engine.federation.clients.messages import EvaluateReport, Reply, TrainReport
from fedgrid.engine.federation.clients.process import PeakMemory
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.record_names import TESTS
from fedgrid.engine.federation.round.federation import Federation
from fedgrid.engine.federation.round.next_round import next_round
from fedgrid.engine.federation.round.participation import Attendance, Participation
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.settings import Evaluation
from fedgrid.record_columns import build_schemas

LAYOUT = Layout(("weight",), ((2,),), 2)
MODEL_BYTES = 8


def vector(*entries):
    array = np.array(entries, np.float32)
    array.setflags(write=False)
    return array


def counts(right, wrong):
    """A test of two classes in which all images are of class 0; each is worth a loss of one half."""
    return Counts(np.array([[right, wrong], [0, 0]]), (right + wrong) / 2)


@dataclass
class FakePool:
    """Clients whose updates are a function of (client, round, model); they note what they are asked for.

    A client that is sent several models takes the one nearest to its update's end.
    """

    update: object
    memory: object = lambda client, round_index: None
    calls: list = field(default_factory=list)

    def prepare(self, setup):
        raise NotImplementedError

    def train(self, tasks, models, memories):
        self.calls.append(("train", list(tasks), [model.tolist() for model in models], dict(memories)))
        return [self._train(task, models) for task in tasks]

    def _train(self, task, models):
        updates = {
            c: vector(*self.update(task.client, task.round_index, models[c])) for c in task.order.candidates
        }
        chosen = min(task.order.candidates, key=lambda c: np.nan_to_num(np.abs(updates[c])).sum())
        report = TrainReport(
            client=task.client,
            chosen=chosen,
            train_loss=0.5,
            train_accuracy=0.25,
            update_norm=float(np.linalg.norm(updates[chosen])),
            usable=bool(np.isfinite(updates[chosen]).all()),
            local=counts(3, 1) if task.evaluate else None,
            local_server=counts(1, 3) if task.local_server else None,
            seconds=float(task.client),
            peak_memory=PeakMemory(f"process {task.client}", 1e6),
            bytes_up=updates[chosen].nbytes,
        )
        kept = self.memory(task.client, task.round_index)
        return Reply(report, updates[chosen], {}, {} if kept is None else {"optimizer": kept})

    def evaluate(self, tasks, models, memories):
        """Client k's part of the server's test set is two images; it gets min(k, 2) of them right."""
        self.calls.append(("evaluate", list(tasks), [model.tolist() for model in models]))
        parts = {task.client: counts(min(task.client, 2), 2 - min(task.client, 2)) for task in tasks}
        return [
            EvaluateReport(
                task.client,
                None if task.own is None else counts(1, 1),
                (parts[task.client],) * len(models),
            )
            for task in tasks
        ]


EVERYTHING = Evaluation(local_server=True)


def federation(algorithm=None, num_clients=3, rounds=5, evaluation=EVERYTHING, participation=None):
    return Federation(
        algorithm=algorithm or FedOpt(FedOptSettings()),
        layout=LAYOUT,
        seed=0,
        rounds=rounds,
        evaluation=evaluation,
        truth_K=np.arange(num_clients) % 2,
        participation=participation or Participation(num_clients, 0),
        train_images_K=[10 + client for client in range(num_clients)],
        test_images_K=[4] * num_clients,
    )


def play(run, pool, rounds, model=(0, 0)):
    """Return (progress, record) after each round."""
    progress, history = run.create_first_state(lambda number: vector(*model)), []
    for _ in range(rounds):
        progress, record = next_round(run, progress, pool)
        history.append((progress, record))
    return history


def axis(client, round_index, model):
    """Client 0 goes along the first axis, client 1 along the second, client 2 along both."""
    return ((2, 0), (0, 2), (1, 1))[client]


class Recorder(FedOpt):
    """Notes in the pool's own list when it is asked to step, and what it sees and draws."""

    def __init__(self, pool):
        super().__init__(FedOptSettings())
        vars(self).update(pool=pool, draws=[])

    def step(self, state, round_index, updates, rng):
        self.pool.calls.append(("step", round_index, updates.clients, updates.absent))
        self.draws.append(rng.integers(2**63))
        return super().step(state, round_index, updates, rng)


def test_a_round_trains_then_aggregates_then_tests_the_new_models():
    """The mean of (2, 0), (0, 2) and (1, 1) is (1, 1)."""
    pool = FakePool(axis)
    [(progress, _), _] = play(federation(Recorder(pool)), pool, 2, model=(5, 5))
    train, step, evaluate, later, *_ = pool.calls
    assert (later[0], later[2], later[1][0].round_index) == ("train", [[6, 6]], 1)
    assert (train[0], train[2]) == ("train", [[5, 5]])
    assert step == ("step", 0, (0, 1, 2), set())
    assert (evaluate[0], evaluate[2]) == ("evaluate", [[6, 6]])
    assert progress.rounds_done == 1
    assert [model.tolist() for model in progress.state.models] == [[6, 6]]


@pytest.mark.parametrize(
    ("local_server", "tested", "untrained"),
    [(True, [1, 1, 1], [1, 0, 0]), (False, [0, 0, 0], [0, 0, 0]), ("last", [0, 0, 1], [0, 0, 0])],
)
def test_only_round_one_tests_the_untrained_model_on_the_servers_set(local_server, tested, untrained):
    pool = FakePool(axis)
    play(federation(evaluation=Evaluation(local_server=local_server), rounds=3), pool, 3)
    trained = [call[1] for call in pool.calls if call[0] == "train"]
    assert [{task.local_server for task in tasks} for tasks in trained] == [{bool(there)} for there in tested]
    assert [{task.untrained for task in tasks} for tasks in trained] == [{bool(there)} for there in untrained]


def test_records_of_a_round_have_every_number():
    """The cluster's model on the server's test set: 0 + 1 + 2 right of three parts of two images."""
    [(_, record)] = play(federation(), FakePool(axis), 1)
    assert record.round["round"] == 1
    assert record.round["clusters"] == 1
    assert record.round["clustered"] is False
    assert (record.round["excluded"], record.round["warnings"], record.warnings) == (0, 0, ())
    assert [row["client"] for row in record.clients] == [0, 1, 2]
    last = record.clients[2]
    assert (last["round"], last["cluster"], last["true_cluster"], last["excluded"]) == (1, 0, 0, False)
    assert (last["train_images"], last["test_images"]) == (12, 4)
    assert (last["train_loss"], last["train_accuracy"]) == (0.5, 0.25)
    assert last["update_norm"] == pytest.approx(np.sqrt(2))
    assert [last[f"{test}_accuracy"] for test in TESTS] == [0.75, 0.25, 0.5, 0.5]
    assert last["generalised_loss"] == 0.5
    assert (last["part"], last["placed"]) == ("trained", None)
    assert set(record.round) == set(build_schemas()["rounds"].names)
    assert {frozenset(row) for row in record.clients} == {frozenset(build_schemas()["clients"].names)}
    assert (record.timing["slowest_client"], record.timing["slowest_client_seconds"]) == (2, 2.0)
    assert record.timing["peak_memory_mb"] >= 3e6, "three clients and the server"
    assert not [name for name in [*record.round, *record.clients[0]] if "seconds" in name]


def test_tests_are_made_in_every_second_round_and_in_the_last():
    pool = FakePool(axis)
    history = play(federation(rounds=5, evaluation=Evaluation(every=2)), pool, 5)
    tested = [record.round["round"] for _, record in history if record.clients[0]["local_own_loss"]]
    assert tested == [2, 4, 5]
    assert [call[0] for call in pool.calls].count("evaluate") == 3
    untested = history[0][1].clients[0]
    assert {untested[f"{test}_{score}"] for test in TESTS for score in ("loss", "recall")} == {None}
    assert [record.round["temperature"] for _, record in history] == pytest.approx(
        [history[0][1].round["temperature"]] * 5
    )


class Odd(FedOpt):
    """Clients with odd numbers have a model of their own; the one for all is the sum of both."""

    def recluster(self, state, round_index, updates, rng):
        return (split(state, 0, [[0, 2], [1]]) if round_index == 0 else state), Diagnostics(clustered=True)

    def global_model(self, state):
        return state.models[0] + state.models[1]


class TestGlobalModel:
    ON = Evaluation(global_model=True)

    def test_is_tested_beside_the_clusters_models_in_columns_of_its_own(self):
        """Clusters end at the mean of (2, 0) and (1, 1), and at (0, 2)."""
        pool = FakePool(axis)
        [(_, record)] = play(federation(Odd(FedOptSettings()), evaluation=self.ON), pool, 1)
        tested = [call[2] for call in pool.calls if call[0] == "evaluate"]
        assert tested == [[[1.5, 0.5], [0, 2]], [[1.5, 2.5]]]
        assert [row["global_own_accuracy"] for row in record.clients] == [0.5] * 3
        assert [row["global_accuracy"] for row in record.clients] == [0.5] * 3
        assert set(record.clients[0]) == set(build_schemas({"global_model"})["clients"].names)

    def test_that_all_clients_are_served_is_tested_once(self):
        pool = FakePool(axis)
        [(_, record)] = play(federation(evaluation=self.ON), pool, 1)
        assert [call[0] for call in pool.calls] == ["train", "evaluate"]
        for row in record.clients:
            assert row["global_own_accuracy"] == row["personalised_accuracy"] == 0.5

    def test_is_missing_where_an_algorithm_has_none(self):
        [(_, record)] = play(federation(create_algorithm("solo"), evaluation=self.ON), FakePool(axis), 1)
        assert {row["global_own_accuracy"] for row in record.clients} == {None}


def test_with_every_update_broken_the_run_stops_and_its_state_is_good():
    run = federation()
    start = run.create_first_state(lambda number: vector(0, 0))
    message = "clients 0, 1, 2, round 1: every update is NaN or infinite"
    with pytest.raises(RunError, match=f"^{re.escape(message)}.*Lower training.learning_rate"):
        next_round(run, start, FakePool(lambda *_: (np.nan, np.inf)))
    progress, _ = next_round(run, start, FakePool(axis))
    assert progress.state.models[0].tolist() == [1, 1]


def test_client_with_an_unusable_update_keeps_its_earlier_memory():
    """What led to NaN once would lead there again."""
    pool = FakePool(
        lambda client, round_index, _: (np.nan, 0) if (client, round_index) == (1, 1) else (1, 0),
        memory=lambda client, round_index: vector(client, round_index),
    )
    [_, (progress, _)] = play(federation(), pool, 2)
    assert {client: kept["optimizer"].tolist() for client, kept in progress.memories.items()} == {
        0: [0, 1],
        1: [1, 0],
        2: [2, 1],
    }


def test_a_round_is_a_function_of_the_progress():
    """Twice from the same read-only progress: the same rows, the same random numbers, other ones later."""
    pool = FakePool(axis)
    algorithm = Recorder(pool)
    run = federation(algorithm)
    start = run.create_first_state(lambda number: vector(0, 0))
    (one, record), (other, again) = next_round(run, start, pool), next_round(run, start, pool)
    assert one.state.models[0].tobytes() == other.state.models[0].tobytes()
    assert record.round == again.round
    assert repr(record.clients) == repr(again.clients), "as text, in which NaN equals NaN"
    next_round(run, one, pool)
    assert algorithm.draws[0] == algorithm.draws[1] != algorithm.draws[2]


class Grumbler(FedOpt):
    """Has something to say about every round."""

    def step(self, state, round_index, updates, rng):
        state, _ = super().step(state, round_index, updates, rng)
        return state, Diagnostics(clustered=True, mean_norm=0.5, max_norm=2.0, warnings=("too cold",))


def test_diagnostics_and_warnings_of_an_algorithm_are_recorded():
    [(_, record)] = play(federation(Grumbler(FedOptSettings())), FakePool(axis), 1)
    assert record.round["clustered"] is True
    assert (record.round["mean_norm"], record.round["max_norm"]) == (0.5, 2.0)
    assert (record.round["warnings"], record.warnings) == (1, ("round 1: too cold",))


class ToyIfca(Algorithm):
    """IFCA in a few lines: every client is sent every model and moves to the one it fits best."""

    def init(self, layout, num_clients, fresh, rng):
        return State((fresh(0), fresh(0) + 10), np.zeros(num_clients, np.int64))

    def orders(self, state, round_index, present, layout, rng):
        return [Order(client, tuple(range(len(state.models)))) for client in present.sampled]

    def step(self, state, round_index, updates, rng):
        labels_K = state.labels_K.copy()
        labels_K[list(updates.chosen)] = list(updates.chosen.values())
        state = replace(state, labels_K=labels_K)
        parts = [updates.select(state.members(cluster)) for cluster in range(len(state.models))]
        models = [
            model + part.mean() if part.clients else model
            for model, part in zip(state.models, parts, strict=True)
        ]
        return replace(state, models=tuple(models)), Diagnostics(clustered=True)


TARGETS = ((1, 1), (9, 9), (3, 3), (7, 9))


def to_target(client, round_index, model):
    return np.array(TARGETS[client]) - model


def test_clients_choose_among_several_models():
    """Clients 0 and 2 are nearer to (0, 0), 1 and 3 to (10, 10); each moves all the way to its target.

    The means of the targets, ((1, 1) + (3, 3)) / 2 and ((9, 9) + (7, 9)) / 2, are the new models.
    """
    pool = FakePool(to_target)
    [(progress, record)] = play(federation(ToyIfca(Settings()), num_clients=4), pool, 1)
    assert [task.order.candidates for task in pool.calls[0][1]] == [(0, 1)] * 4
    assert progress.state.labels_K.tolist() == [0, 1, 0, 1]
    assert [model.tolist() for model in progress.state.models] == [[2, 2], [8, 9]]
    assert record.round["clusters"] == 2
    assert record.round["bytes_down"] == 4 * 2 * MODEL_BYTES
    assert record.round["bytes_up"] == 4 * MODEL_BYTES
    assert [task.own for task in pool.calls[-1][1]] == [0, 1, 0, 1]


def test_a_model_that_nobody_chooses_is_kept_and_not_counted():
    pool = FakePool(lambda client, round_index, model: np.array((1, 1)) - model)
    [(progress, record)] = play(federation(ToyIfca(Settings())), pool, 1)
    assert [model.tolist() for model in progress.state.models] == [[1, 1], [10, 10]]
    assert record.round["clusters"] == 1


@dataclass(frozen=True)
class Told:
    """Participation by hand: by round the clients that joined, are sampled, drop out; None: all."""

    rounds: tuple
    num_clients: int = 3
    held_out: frozenset = frozenset()

    def draw_attendance(self, round_index):
        present, before = self._present(round_index), set()
        if round_index:
            before = set(self._present(round_index - 1))
        _, sampled, dropped = self.rounds[round_index]
        newcomers = tuple(client for client in present if client not in before)
        sampled = present if sampled is None else sampled
        return Attendance(present, newcomers, sampled, drops_out=set(dropped).__contains__)

    def _present(self, round_index):
        joined = self.rounds[round_index][0]
        return tuple(range(self.num_clients)) if joined is None else joined


FULL = (None, None, ())
TRAINING = ("train_loss", "train_accuracy", "update_norm", "local_own_loss", "local_server_recall")
CLUSTER_TESTS = ("personalised_accuracy", "generalised_accuracy", "generalised_recall")


def given(row, columns):
    return [row[column] is not None for column in columns]


def attended(*rounds, algorithm=None, pool=None):
    """Return the pool and (progress, record) of each round, clients coming and going as told."""
    pool = pool or FakePool(axis)
    return pool, play(federation(algorithm, participation=Told(rounds)), pool, len(rounds))


def test_every_role_of_a_client_in_a_round():
    """Of six clients 0 and 5 train, 1 sends NaN, 2 drops out, 3 is not asked, 4 has not joined.

    The mean of (2, 0) and (1, 1) is (1.5, 0.5), of cosine 0.70711. Who got a model, four clients, costs bytes
    down, whose update came, three, bytes up. All parts of the server's test set count: nine of twelve.
    """
    pool = FakePool(lambda client, *_: {0: (2, 0), 1: (np.nan, 0), 5: (1, 1)}[client])
    algorithm = Recorder(pool)
    participation = Told((((0, 1, 2, 3, 5), (0, 1, 2, 5), {2}),), num_clients=6)
    run = federation(algorithm, num_clients=6, participation=participation)
    [(progress, record)] = play(run, pool, 1)
    assert [task.client for task in pool.calls[0][1]] == [0, 1, 5]
    assert pool.calls[1] == ("step", 0, (0, 5), {2, 3, 4})
    assert progress.state.models[0].tolist() == [1.5, 0.5]
    assert progress.state.labels_K.tolist() == [0] * 6
    assert record.round["temperature"] == pytest.approx((1 - np.sqrt(0.5)) / 2)
    assert (record.round["bytes_down"], record.round["bytes_up"]) == (4 * MODEL_BYTES, 3 * MODEL_BYTES)
    assert (record.round["excluded"], record.round["warnings"]) == (1, 1)
    assert record.warnings == ("round 1: client 1 left out, its update is NaN or infinite",)
    parts = ["trained", "excluded", "dropped", "not asked", "not joined", "trained"]
    assert [row["part"] for row in record.clients] == parts
    assert [row["excluded"] for row in record.clients] == [part == "excluded" for part in parts]
    reported = [part in ("trained", "excluded") for part in parts]
    assert [given(row, TRAINING) for row in record.clients] == [[each] * 5 for each in reported]
    joined = [part != "not joined" for part in parts]
    assert [given(row, CLUSTER_TESTS) for row in record.clients] == [[each] * 3 for each in joined]
    assert {row["generalised_accuracy"] for row in record.clients} == {0.75, None}
    newcomer = record.clients[4]
    assert (newcomer["cluster"], newcomer["true_cluster"], newcomer["test_images"]) == (0, 0, 4)


def test_a_round_in_which_all_drop_out_changes_nothing_and_says_so():
    pool = FakePool(axis, memory=lambda client, round_index: vector(client, round_index))
    pool, history = attended(FULL, (None, (0, 1), {0, 1}), FULL, pool=pool)
    (one, _), (two, record), (three, last) = history
    assert two.state is one.state
    assert two.memories == one.memories
    assert two.rounds_done == 2
    assert record.warnings == ("round 2: every sampled client dropped out: nothing has changed",)
    assert record.round["warnings"] == 1
    assert record.round["clustered"] is False
    assert (record.round["temperature"], record.round["silhouette"]) == (None, None)
    assert (record.round["bytes_down"], record.round["bytes_up"]) == (2 * MODEL_BYTES, 0)
    assert [row["part"] for row in record.clients] == ["dropped", "dropped", "not asked"]
    assert record.clients[0]["personalised_accuracy"] == 0.5
    assert (record.timing["slowest_client"], record.timing["slowest_client_seconds"]) == (None, None)
    assert [call[1][0].round_index for call in pool.calls if call[0] == "train"] == [0, 2]
    assert three.state.models[0].tolist() == [2, 2]
    assert last.warnings == ()


def test_absent_client_keeps_its_memory():
    """Client 0 is there always, 1 drops out of round 2, 2 comes in round 2."""
    pool = FakePool(axis, memory=lambda client, round_index: vector(client, round_index))
    pool, history = attended(((0, 1), None, ()), (None, None, {1}), FULL, pool=pool)
    handed = [
        sorted((c, kept["optimizer"].tolist()) for c, kept in call[3].items())
        for call in pool.calls
        if len(call) > 3
    ]
    assert handed == [
        [],
        [(0, [0, 0]), (1, [1, 0])],
        [(0, [0, 1]), (1, [1, 0]), (2, [2, 1])],
    ]


def test_a_latecomer_is_in_the_records_with_the_reason():
    """Briggs parts (2, 0) from (0, 2) in round 1. In round 2 comes (1, 1), of cosine 0.707 to both."""
    briggs = create_algorithm("briggs", {"round": 1, "threshold": 0.4})
    _, [(_, first), (_, second)] = attended((None, (0, 1), ()), FULL, algorithm=briggs)
    assert [row["cluster"] for row in first.clients] == [0, 1, 2]
    assert first.round["clusters"] == 3
    assert [row["cluster"] for row in second.clients] == [0, 1, 0]
    assert [row["placed"] for row in second.clients] == [
        None,
        None,
        "mean cosine distances 0: 0.293, 1: 0.293",
    ]
    assert second.clients[2]["part"] == "trained"
    assert second.round["clusters"] == 2


@pytest.mark.parametrize(
    ("metric", "threshold", "expected"),
    [
        ("cosine", 0.4, 2 / 3),
        ("euclidean", 3.0, (1 - 2 / np.sqrt(32) + 1 - 2 / np.sqrt(52)) / 3),
        ("manhattan", 3.0, (1 - 2 / 8 + 1 - 2 / 10) / 3),
    ],
)
def test_the_silhouette_is_of_the_metric_that_clusters(metric, threshold, expected):
    """Clusters {(4, 0), (6, 0)} and {(0, 4)}: inside the first 0, 2 or 2 apart; across 1, or sqrt(32) and
    sqrt(52), or 8 and 10. A client scores 1 - inside / across, one that is alone 0.
    """
    briggs = create_algorithm("briggs", {"round": 1, "metric": metric, "threshold": threshold})
    pool = FakePool(lambda client, *_: ((4, 0), (6, 0), (0, 4))[client])
    [(_, record)] = play(federation(briggs), pool, 1)
    assert [row["cluster"] for row in record.clients] == [0, 0, 1]
    assert record.round["silhouette"] == pytest.approx(expected, rel=1e-6)


class Sized(FakePool):
    """Client k trains on 1, 3, 4 images in 2, 2, 4 steps."""

    def _train(self, task, models):
        reply = super()._train(task, models)
        sizes = {"images": (1, 3, 4)[task.client], "steps": (2, 2, 4)[task.client]}
        return replace(reply, report=replace(reply.report, **sizes))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("none", (2, 5)), ("images", (3, 6.25)), ("batches", (3, 6))],
)
def test_a_mean_weighs_clients_by_images_or_batches(weights, expected):
    """Updates (0, 2), (0, 4), (6, 9). By images (1 (0, 2) + 3 (0, 4) + 4 (6, 9)) / 8 = (24, 50) / 8."""
    run = replace(federation(), weights=weights)
    [(progress, _)] = play(run, Sized(lambda client, *_: ((0, 2), (0, 4), (6, 9))[client]), 1)
    assert progress.state.models[0].tolist() == pytest.approx(expected)


def test_the_temperature_is_that_of_the_updates():
    """Cosine distances of (2, 0) and (0, 2): 1, so |D| = sqrt(2), and T = sqrt(2) / (2 sqrt(2)) = 0.5."""
    [(_, record)] = play(federation(num_clients=2), FakePool(axis), 1)
    assert record.round["temperature"] == pytest.approx(0.5)


def test_a_client_without_a_usable_update_makes_no_choice():
    """Client 3 stays where it was; its cluster's model moves by client 1 alone."""
    pool = FakePool(lambda client, *rest: (np.nan, 0) if client == 3 else to_target(client, *rest))
    [(progress, _)] = play(federation(ToyIfca(Settings()), num_clients=4), pool, 1)
    assert progress.state.labels_K.tolist() == [0, 1, 0, 0]
    assert [model.tolist() for model in progress.state.models] == [[2, 2], [9, 9]]


def test_the_survivors_of_a_dropout_are_averaged():
    """Without client 1 the mean of (2, 0) and (1, 1) is (1.5, 0.5). It got a model and sent nothing back."""
    pool, [(progress, record)] = attended((None, None, {1}))
    assert progress.state.models[0].tolist() == [1.5, 0.5]
    assert record.round["temperature"] == pytest.approx((1 - np.sqrt(0.5)) / 2)
    assert record.round["bytes_down"] == 3 * MODEL_BYTES
    assert record.round["bytes_up"] == 2 * MODEL_BYTES
    assert (record.round["excluded"], record.round["warnings"], record.warnings) == (0, 0, ())
    assert [row["part"] for row in record.clients] == ["trained", "dropped", "trained"]
    assert [row["excluded"] for row in record.clients] == [False] * 3
    assert [given(row, TRAINING) for row in record.clients] == [[True] * 5, [False] * 5, [True] * 5]
    assert [given(row, CLUSTER_TESTS) for row in record.clients] == [[True] * 3] * 3
    assert [task.client for task in pool.calls[0][1]] == [0, 2]


def test_client_that_is_not_asked_is_sent_nothing_and_still_tested():
    """Its cluster's model is its own, whether it took part or not: 1 of 2 right in `FakePool.evaluate`."""
    pool, [(progress, record)] = attended((None, (0, 2), ()))
    assert progress.state.models[0].tolist() == [1.5, 0.5]
    assert record.round["bytes_down"] == record.round["bytes_up"] == 2 * MODEL_BYTES
    assert [row["part"] for row in record.clients] == ["trained", "not asked", "trained"]
    absent = record.clients[1]
    assert given(absent, TRAINING) == [False] * 5
    assert absent["personalised_accuracy"] == 0.5
    assert (absent["train_images"], absent["test_images"]) == (11, 4)
    assert [task.client for task in pool.calls[0][1]] == [0, 2]


def test_client_that_has_not_joined_is_neither_trained_nor_tested():
    """Its part of the server's test set is used all the same: 0 + 1 + 2 right of six images."""
    _, [(_, record)] = attended(((0, 1), None, ()))
    newcomer = record.clients[2]
    assert newcomer["part"] == "not joined"
    assert (newcomer["cluster"], newcomer["true_cluster"], newcomer["test_images"]) == (0, 0, 4)
    assert given(newcomer, TRAINING) == [False] * 5
    assert given(newcomer, CLUSTER_TESTS) == [False] * 3
    assert [row["generalised_accuracy"] for row in record.clients[:2]] == [0.5, 0.5]


def test_excluded_client_is_not_absent_but_dropped_and_unasked_ones_are():
    """Of five clients 0 trains, 1 sends NaN, 2 drops out, 3 is not asked, 4 has not joined."""
    seen = []

    class Watcher(FedOpt):
        def step(self, state, round_index, updates, rng):
            seen.append((updates.clients, updates.absent))
            return super().step(state, round_index, updates, rng)

    participation = Told((((0, 1, 2, 3), (0, 1, 2), {2}),), num_clients=5)
    pool = FakePool(lambda client, *_: (np.nan, 0) if client == 1 else (1, 0))
    run = federation(Watcher(FedOptSettings()), num_clients=5, participation=participation)
    [(_, record)] = play(run, pool, 1)
    assert seen == [((0,), {2, 3, 4})]
    assert [row["part"] for row in record.clients] == [
        "trained",
        "excluded",
        "dropped",
        "not asked",
        "not joined",
    ]
    assert (record.round["bytes_down"], record.round["bytes_up"]) == (3 * MODEL_BYTES, 2 * MODEL_BYTES)


def test_the_silhouette_is_of_this_rounds_updates_in_their_clusters():
    """Clients 0, 1 at (1, 0) and 2, 3 at (0, 1), told apart: distances 0 inside, 1 across, so 1; 4 is absent.

    In one cluster there is none.
    """
    participation = Told(((None, (0, 1, 2, 3), ()),), num_clients=5)
    pool = FakePool(lambda client, *_: (1, 0) if client < 2 else (0, 1))
    briggs = create_algorithm("briggs", {"round": 1, "threshold": 0.4})
    for algorithm, expected in ((briggs, 1.0), (None, None)):
        [(_, record)] = play(federation(algorithm, num_clients=5, participation=participation), pool, 1)
        assert record.round["silhouette"] == expected


def test_participation_that_rounds_to_all_clients_changes_nothing():
    """A share that rounds to everybody, and newcomers that come in round 1."""
    plain = play(federation(), FakePool(axis), 3)
    participation = Participation(3, 0, participation=0.9, joins={0: 1})
    other = play(federation(participation=participation), FakePool(axis), 3)
    for (progress, record), (same, again) in zip(plain, other, strict=True):
        assert progress.state.models[0].tobytes() == same.state.models[0].tobytes()
        assert repr(record.clients) == repr(again.clients)

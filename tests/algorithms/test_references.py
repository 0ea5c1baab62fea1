"""Two references: every client alone, and the hidden groups given."""

import numpy as np

from fedgrid.algorithms.contract.orders import Traffic
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm, is_reference
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_cases import build_layout, build_orders, check_valid, clients, freeze, start, step
from tests.helpers.small_runs import NOWHERE, config, count_trained, find_differing, play, read_contents, rows

GROUPS = np.array([2, 0, 0, 1, 2])


def revealed(groups_K=GROUPS, **settings):
    """Return the oracle and its state before the first round, every model (1, 2)."""
    oracle = create_algorithm("oracle", settings)
    return oracle, freeze(oracle.reveal(start(oracle, len(groups_K), (1.0, 2.0)), groups_K))


def test_the_references():
    assert [name for name in ALGORITHMS if is_reference(name)] == ["ward-told", "solo", "oracle"]
    assert [ALGORITHMS[name].title for name in ("solo", "oracle")] == ["SOLO", "ORACLE"]


class TestSolo:
    def test_each_client_moves_its_own_model_by_its_own_update(self):
        """From (1, 1): client 0 goes to (3, 1), client 2 to (1, 0); client 1 has sent nothing."""
        solo = create_algorithm("solo")
        state, diagnostics = step(solo, start(solo, 3, (1.0, 1.0)), 0, {0: (2, 0), 2: (0, -1)})
        assert [model.tolist() for model in state.models] == [[3, 1], [1, 1], [1, 0]]
        assert state.labels_K.tolist() == [0, 1, 2]
        assert not diagnostics.clustered
        check_valid(state, 3)

    def test_nothing_is_sent(self):
        solo = create_algorithm("solo")
        [order] = build_orders(solo, start(solo, 3), (1,)).values()
        assert solo.traffic(order, build_layout(2)) == Traffic(down=0, up=0)

    def test_what_is_not_sent_is_not_clipped(self):
        uplink = [{"clip": 1e-3}]
        assert prepare_setup(config("fedavg", uplink=uplink), NOWHERE)[0].uplink
        assert prepare_setup(config("solo", uplink=uplink), NOWHERE)[0].uplink == ()


class TestOracle:
    def test_each_hidden_group_is_a_cluster_before_the_first_round(self):
        """Clusters are numbered by their first member; all start from the initial model."""
        _, state = revealed()
        assert state.labels_K.tolist() == [0, 1, 1, 2, 0]
        assert [model.tolist() for model in state.models] == [[1, 2]] * 3
        check_valid(state, 5)

    def test_each_hidden_group_has_the_mean_of_its_own_updates(self):
        """Groups {0, 4}, {1, 2} and {3}: means (2, 0), (0, 3) and (-1, -1), from (1, 2)."""
        oracle, state = revealed()
        vectors = clients((1, 0), (0, 2), (0, 4), (-1, -1), (3, 0))
        state, diagnostics = step(oracle, state, 0, vectors)
        assert [model.tolist() for model in state.models] == [[3, 2], [1, 5], [0, 1]]
        assert not diagnostics.clustered

    def test_partition_is_right_from_round_1_also_for_newcomers(self, tmp_path):
        run = config("oracle", joins={5: 3})
        play(run, tmp_path, cache=None)
        found = rows(run, tmp_path, "clients")
        assert all(row["cluster"] == row["true_cluster"] for row in found)
        assert len(set(row["cluster"] for row in found)) == 3
        assert [row["part"] for row in found if row["client"] == 5] == ["not joined"] * 2 + ["trained"]

    def test_with_one_hidden_group_it_has_the_bytes_of_fedavg(self, tmp_path):
        one = {"split": {"num_clusters": 1}}
        oracle, fedavg = (
            read_contents(play(config(name, **one), tmp_path / name, cache=None))
            for name in ("oracle", "fedavg")
        )
        assert oracle == fedavg
        assert {"rounds.parquet", "clients.parquet"} < fedavg.keys()


class TestSharedRounds:
    """All clients of all algorithms start round 1 from one model, so it is trained once."""

    def test_round_1_is_trained_once_for_fedavg_and_both_references(self, tmp_path):
        names = ("oracle", "solo", "fedavg")
        runs = {name: config(name) for name in names}
        for run in runs.values():
            play(run, tmp_path)
        assert {name: count_trained(run, tmp_path)[0] for name, run in runs.items()} == {
            name: 6 if name == "oracle" else 0 for name in names
        }
        for run in runs.values():
            assert find_differing(run, tmp_path) == []

    def test_solo_fills_the_round_cache_with_no_means_of_single_clients(self, tmp_path):
        play(config("solo"), tmp_path)
        means = [path for path in tmp_path.rglob("*-mean-*.safetensors")]
        assert len(means) == 1, "that of all clients in round 1"

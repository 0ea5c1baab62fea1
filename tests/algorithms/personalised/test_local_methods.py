"""The setting `local`: other local training under averaging algorithms."""

import pytest

from fedgrid.algorithms.averaging.fedopt import OwnRuleSettings
from fedgrid.algorithms.averaging.fedprox import ProximalRule
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from tests.helpers.small_cases import Federation, build_orders
from tests.helpers.small_runs import build_early_run, config, content, play, rows

AVERAGING = [name for name in ALGORITHMS if "local" in type(ALGORITHMS[name].settings).model_fields]
OWN_RULE = [name for name in AVERAGING if isinstance(ALGORITHMS[name].settings, OwnRuleSettings)]
TAKES_IT = [name for name in AVERAGING if name not in OWN_RULE]


def pulled(name, mu, **given):
    return config({"name": name, "local": {"name": "fedprox", "mu": mu}, **given})


@pytest.mark.parametrize("name", TAKES_IT)
def test_every_order_carries_the_rule_before_and_after_a_clustering(name):
    algorithm = create_algorithm(name, {"local": {"name": "fedprox", "mu": 0.5}})
    for state, _ in Federation().play(algorithm):
        rules = [order.rule for order in build_orders(algorithm, state, range(12), 3).values()]
        assert rules == [ProximalRule(mu=0.5)] * 12


def test_pull_under_fedavg_is_fedprox_to_the_byte(tmp_path):
    under, named = pulled("fedavg", 0.1), config({"name": "fedprox", "mu": 0.1})
    states = [play(run, tmp_path / run.run_id) / "state-000003.safetensors" for run in (under, named)]
    assert content(states[0]) == content(states[1])


def test_before_it_clusters_pulled_ocfl_is_fedprox_and_shares_its_rounds(tmp_path):
    """OCFL clusters in round 2 here at the earliest."""
    named, clustered = config({"name": "fedprox", "mu": 0.1}), pulled("ocfl-kmeans", 0.1)
    play(named, tmp_path)
    play(clustered, tmp_path)
    first, second = (
        [row["update_norm"] for row in rows(run, tmp_path, "clients") if row["round"] == 1]
        for run in (named, clustered)
    )
    assert first == second
    assert rows(clustered, tmp_path)[0]["trained_clients"] == 0
    assert rows(clustered, tmp_path, "rounds")[-1]["clusters"] > 1


@pytest.mark.parametrize("name", AVERAGING)
def test_runs_that_do_not_name_it_keep_their_ids(name):
    """It is written only where it is given."""
    plain = build_early_run(name, split={"reference_images": 20})
    assert "local" not in plain.algorithm
    named = config({**plain.algorithm.model_dump(), "local": None}, split={"reference_images": 20})
    assert named.run_id == plain.run_id


def test_it_is_part_of_the_id_and_survives_json():
    run = pulled("ocfl-kmeans", 0.1)
    assert run.algorithm.local == {"name": "fedprox", "mu": 0.1}
    assert len({run.run_id, pulled("ocfl-kmeans", 0.2).run_id, config("ocfl-kmeans").run_id}) == 3
    assert build_algorithm(run).settings.local.mu == 0.1

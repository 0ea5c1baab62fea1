"""The setting `local`: other local training under averaging algorithms."""

import numpy as np
import pytest

from fedgrid.algorithms.averaging.fedprox import ProximalRule
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.registry import ALGORITHMS, create
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from tests.helpers.small_cases import Federation, orders_of, partition, same_bits
from tests.helpers.small_runs import config, content, early, play, rows

AVERAGING = [name for name in ALGORITHMS if "local" in type(ALGORITHMS[name].settings).model_fields]
OWN_RULE = ["fedprox", "scaffold", "fednova", "lg-fedavg", "per-fedavg"]
TAKES_IT = [name for name in AVERAGING if name not in OWN_RULE]


def pulled(name, mu, **given):
    return config({"name": name, "local": {"name": "fedprox", "mu": mu}, **given})


@pytest.mark.parametrize("name", ["louvain", "flis-dc", "flis-hc-as-published"])
def test_normalised_means_are_refused_where_models_are_averaged(name):
    split = {"reference_images": 20}
    with pytest.raises(ConfigError, match=f"{name}: local = fednova .* models are; .*fedprox"):
        config({"name": name, "local": "fednova"}, split=split)
    assert config({"name": name, "local": "fedprox"}, split=split).run_id


@pytest.mark.parametrize("name", ["ifca", "louvain", "flis-dc", "flis-hc"])
def test_variates_are_refused_where_the_server_does_not_say_which_model_is_trained(name):
    with pytest.raises(ConfigError, match=f"{name}: local = scaffold .* choose .*fedprox"):
        config({"name": name, "local": "scaffold"}, split={"reference_images": 20})


@pytest.mark.parametrize("name", TAKES_IT)
def test_every_order_carries_the_rule_before_and_after_a_clustering(name):
    algorithm = create(name, {"local": {"name": "fedprox", "mu": 0.5}})
    for state, _ in Federation().play(algorithm):
        rules = [order.rule for order in orders_of(algorithm, state, range(12), 3).values()]
        assert rules == [ProximalRule(mu=0.5)] * 12


@pytest.mark.parametrize("name", TAKES_IT)
def test_without_pull_orders_are_plain_and_states_the_same(name):
    plain, free = create(name), create(name, {"local": {"name": "fedprox", "mu": 0}})
    for (state, _), (other, _) in zip(Federation().play(plain), Federation().play(free), strict=True):
        assert same_bits(state, other)
        assert {order.rule for order in orders_of(free, other, [0, 7]).values()} == {PLAIN}


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


def test_steps_are_normalised_within_each_cluster():
    """Federation's updates as FedNova's: the partition is OCFL's own, the models are not."""
    plain, normalised = create("ocfl-kmeans"), create("ocfl-kmeans", {"local": {"name": "fednova"}})
    histories = [Federation().play(algorithm) for algorithm in (plain, normalised)]
    assert partition(histories[0][-1][0]) == partition(histories[1][-1][0])
    assert not np.array_equal(histories[0][-1][0].models[0], histories[1][-1][0].models[0])


@pytest.mark.parametrize("name", AVERAGING)
def test_runs_that_do_not_name_it_keep_their_ids(name):
    """It is written only where it is given."""
    plain = early(name, split={"reference_images": 20})
    assert "local" not in plain.algorithm
    named = config({**plain.algorithm.model_dump(), "local": None}, split={"reference_images": 20})
    assert named.run_id == plain.run_id


def test_it_is_part_of_the_id_and_survives_json():
    run = pulled("ocfl-kmeans", 0.1)
    assert run.algorithm.local == {"name": "fedprox", "mu": 0.1}
    assert len({run.run_id, pulled("ocfl-kmeans", 0.2).run_id, config("ocfl-kmeans").run_id}) == 3
    assert algorithm_of(run).settings.local.mu == 0.1


def test_a_name_alone_has_the_methods_defaults():
    assert config({"name": "fedavg", "local": "fedprox"}).run_id == pulled("fedavg", 0.01).run_id


def test_registry_holds_the_methods_by_their_own_names():
    assert {name: method().name for name, method in LOCAL_METHODS.items()} == {
        "fedprox": "fedprox",
        "fednova": "fednova",
        "scaffold": "scaffold",
    }


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        ({"name": "fedavg", "local": {"name": "fedprx"}}, ("local", "fedprx", "fedprox, fednova")),
        ({"name": "fedavg", "local": {"mu": 0.1}}, ("local", "fedprox, fednova")),
        ({"name": "fedavg", "local": {"name": "fedprox", "nu": 0.1}}, ("nu",)),
        ({"name": "fedavg", "local": {"name": "fedprox", "mu": -1}}, ("local", "mu", "-1")),
        ({"name": "scaffold", "local": {"name": "fedprox"}}, ("scaffold", "local = fedprox", "fedavg")),
        ({"name": "solo", "local": {"name": "fedprox"}}, ("solo", "local")),
        ({"name": "louvain", "local": {"name": "fednova"}}, ("louvain", "fednova", "models")),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_in_one_line_that_names_it(algorithm, words):
    with pytest.raises(ConfigError) as caught:
        config(algorithm)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)

"""The registry of scenario kinds."""

from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.dealing.kinds import KINDS, check_split, find_kind, list_idle_options
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.partition.kind import SplitKind
from fedgrid.engine.runtime.configuration.complete import complete_config
from tests.helpers.partitions import deal_labels


class InTurn(SplitKind):
    """Client k is alone in hidden group k and holds every K-th image."""

    OPTIONS = ("alpha",)
    DEFAULTS = {"num_clusters": 4}  # noqa: RUF012

    def deal_images(self, scenario, pool, split, seed, rngs_K):
        every, num_clients = np.arange(len(pool.labels_N)), len(rngs_K)
        return Partition(range(num_clients), [every[client::num_clients] for client in range(num_clients)])


IN_TURN, LABELS = InTurn(), np.repeat([0, 1], 20)


def test_a_new_kind_is_one_registry_entry(monkeypatch):
    monkeypatch.setitem(KINDS, "in-turn", IN_TURN)
    config = complete_config({"clients": 4, "split": {"kind": "in-turn", "alpha": 0.5}}, Path("unused"))
    assert (config.scenario, config.split.num_clusters) == ("digits-4-in-turn", 4)
    parts = deal_labels(LABELS, "in-turn", 4, alpha=0.5)
    assert [part.cluster for part in parts] == [0, 1, 2, 3]
    assert [part.positions.tolist() for part in parts] == [list(range(client, 40, 4)) for client in range(4)]
    assert {(len(part.train), len(part.test)) for part in parts} == {(7, 3)}


def test_options_of_another_kind_are_refused(monkeypatch):
    monkeypatch.setitem(KINDS, "in-turn", IN_TURN)
    with pytest.raises(ConfigError, match="split.majority = 0.5 .* in-turn, only with: majority") as raised:
        deal_labels(LABELS, "in-turn", 4, majority=0.5)
    assert raised.value.key == ("split", "majority")


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigError, match="split 'majorty'; did you mean 'majority'") as raised:
        find_kind("majorty")
    assert raised.value.key == ("split", "kind")
    assert all(name in str(raised.value) for name in KINDS)


def with_sizes(kind, sizes, clients=20, **split):
    return complete_config(
        {"clients": clients, "split": {"kind": kind, "sizes": sizes, **split}}, Path("unused")
    )


@pytest.mark.parametrize("kind", ["overlapping-balanced", "nonoverlapping-imbalanced", "rotated"])
def test_sizes_say_how_many_groups_there_are_and_which_clients_are_in_them(kind):
    config = with_sizes(kind, [12, 4, 2, 2])
    assert config.split.num_clusters == 4
    assert (
        KINDS[kind].list_groups(config.split_scenario, config.split) == [0] * 12 + [1] * 4 + [2] * 2 + [3] * 2
    )


def test_sizes_change_the_id_and_their_absence_does_not():
    plain = complete_config({"clients": 20, "split": {"kind": "rotated"}}, Path("unused"))
    assert with_sizes("rotated", None).run_id == plain.run_id
    assert with_sizes("rotated", [5, 5, 5, 5]).run_id != plain.run_id
    assert "sizes" not in plain.written()["split"]


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("rotated", {"sizes": [4, 4, 4, 4, 4]}, "split.num_clusters = 5: split rotated turns by quarters"),
        ("rotated", {"sizes": [10, 5, 3, 1]}, "has 19 clients, but clients = 20; take clients: 19"),
        ("rotated", {"sizes": [15, 5], "num_clusters": 4}, "has 2 groups, but split.num_clusters = 4"),
        ("rotated", {"sizes": [20, 0]}, "split.sizes"),
        ("iid", {"sizes": [20]}, "split.sizes = (20,) has no effect with split iid"),
        ("label-skew", {"sizes": [10, 10]}, "has no effect with split label-skew"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(kind, given, said):
    facts = Facts(num_classes=10, inputs=image_inputs(1, 8, 8), pool_size=1442)
    with pytest.raises(ConfigError) as refused:  # noqa: PT012
        config = with_sizes(kind, **given)
        check_split(config.split_scenario, facts, config.split, config.seed)
    assert said in str(refused.value)


def test_options_without_effect_are_those_that_a_kind_does_not_have():
    assert {"alpha", "num_clusters", "majority"} <= set(list_idle_options("label-skew"))
    assert "labels_share" not in list_idle_options("label-skew")
    assert "alpha" not in list_idle_options("dirichlet")

"""The registry of scenario kinds."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrid.engine.configuration.complete import complete
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.partition.kinds import KINDS, kind_of
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.partition.split import split_pool


def deal_in_turn(scenario, pool, split, seed, rngs_K):
    """Client k is alone in hidden group k and holds every K-th image."""
    every = np.arange(len(pool.labels_N))
    return list(range(len(rngs_K))), [every[client :: len(rngs_K)] for client in range(len(rngs_K))]


IN_TURN = SimpleNamespace(
    OPTIONS=("alpha",),
    DEFAULTS={"num_clusters": 4},
    IMAGES_ARE_SHARED=False,
    TRANSFORM=None,
    check=lambda *arguments: None,
    deal=deal_in_turn,
    expected_images=lambda *arguments: 40.0,
)


def test_a_new_kind_is_one_registry_entry(monkeypatch):
    monkeypatch.setitem(KINDS, "in-turn", IN_TURN)
    config = complete({"clients": 4, "split": {"kind": "in-turn", "alpha": 0.5}}, Path("unused"))
    assert (config.scenario, config.split.num_clusters) == ("digits-4-in-turn", 4)
    splits = split_pool(
        np.repeat([0, 1], 20),
        dataset=config.dataset,
        num_classes=2,
        num_clients=4,
        split=config.split,
        seed=0,
    )
    assert [part.cluster for part in splits] == [0, 1, 2, 3]
    held = [sorted([*part.train, *part.test]) for part in splits]
    assert held == [list(range(client, 40, 4)) for client in range(4)]
    assert {(len(part.train), len(part.test)) for part in splits} == {(7, 3)}


def test_options_of_another_kind_are_refused(monkeypatch):
    monkeypatch.setitem(KINDS, "in-turn", IN_TURN)
    with pytest.raises(ConfigError, match="split.majority = 0.5 .* in-turn, only with: majority") as raised:
        split_pool(
            np.repeat([0, 1], 20),
            dataset="digits",
            num_classes=2,
            num_clients=4,
            split=Split(kind="in-turn", majority=0.5),
            seed=0,
        )
    assert raised.value.key == ("split", "majority")


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigError, match="split 'majorty'; did you mean 'majority'") as raised:
        kind_of("majorty")
    assert raised.value.key == ("split", "kind")
    assert all(name in str(raised.value) for name in KINDS)

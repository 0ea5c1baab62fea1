"""Kinds of split of plugins: their settings are keys of `split`, and what they deal is checked."""

from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.federation.errors import ConfigError, FedgridError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.presets.load import load_grid
from tests.helpers.partitions import deal_labels
from tests.helpers.plugin_files import SPLIT

NOWHERE = Path("unused")
BODY = SPLIT[SPLIT.index("        order =") : SPLIT.index("\nSPLITS")]


@pytest.fixture
def use(tmp_path):
    def with_body(body=BODY):
        (tmp_path / "mine.py").write_text(SPLIT.replace(BODY, body))
        active.use_plugins([tmp_path / "mine.py"])

    yield with_body
    active.use_plugins()


def dealt(**split):
    return deal_labels(np.arange(12) % 2, "own-split", 3, **split)


def config(**values):
    return complete_config({"clients": 3, "split": {"kind": "own-split", **values}}, NOWHERE)


def test_deals_by_its_settings_and_the_seed(use):
    use()
    parts = dealt(first=2)
    assert [part.cluster for part in parts] == [0, 0, 1]
    held = [part.positions.tolist() for part in parts]
    assert sorted(sum(held, [])) == list(range(12))
    assert [len(part.test) for part in parts] == [2, 2, 2]
    assert [part.positions.tolist() for part in dealt(first=1)] == held


def test_settings_are_keys_of_split_and_axes_and_runs_without_the_plugin_are_read(use):
    use()
    assert config().split.model_extra == {"first": 1}
    runs = load_grid(None, {"split": "own-split"}, ["split.first=2"], NOWHERE).runs
    assert [run.written()["split"]["first"] for run in runs] == [2]
    grid = {"split": "own-split", "algorithm": "fedavg", "axes": {"split.first": [1, 2]}}
    first, second = load_grid(grid, {}, [], NOWHERE, name="own").runs
    assert (first.scenario, first.split.first, second.split.first) == ("digits-15-own-split", 1, 2)
    active.use_plugins()
    again = type(first).model_validate_json(first.canonical_json())
    assert (again, again.run_id) == (first, first.run_id)


@pytest.mark.parametrize(
    ("given", "key", "named"),
    [
        ({"first": "x"}, "first", ("split own-split: first = 'x'",)),
        ({"frist": 2}, "frist", ("split own-split: unknown key 'frist'", "'first'")),
        ({"kind": "iid", "first": 2}, "first", ("unknown key 'first' in split",)),
        ({"kind": "own"}, "kind", ("unknown split 'own'", "own-split", "--plugin")),
    ],
)
def test_keys_that_it_has_not_are_refused(use, given, key, named):
    use()
    with pytest.raises(ConfigError) as caught:
        config(**given)
    assert caught.value.key == ("split", key)
    assert [part for part in named if part not in str(caught.value)] == []


def test_draws_from_any_generator_are_seeded(use):
    use("        order = np.random.permutation(12)\n        return [0, 0, 0], order.reshape(3, 4)\n")
    parts = []
    for seed in range(2):
        np.random.seed(seed)  # noqa: NPY002
        parts.append([part.positions.tolist() for part in dealt()])
    assert parts[0] == parts[1]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return [0, 0], [[0, 1]] * 3", ("2 groups", "3 clients")),
        ("return [0, 0, 0], [[0, 1], [2, 3], [3, 4]]", ("image 3", "2 times")),
        ("return [0, 0, 0], [[0, 1], [], [3, 4]]", ("client 1 has no images",)),
        ("return [0, 0, 0], [[0, 1], [2, 3], [4, 12]]", ("client 2", "image 12", "0 to 11")),
        ("return [0, 0, 0], [[-1, 1], [2, 3], [4, 5]]", ("client 0", "image -1")),
        ("return [0, 2, 2], [[0, 1], [2, 3], [4, 5]]", ("groups", "[0, 2]")),
        ("return [0, 0, 0], [pool.labels_N == 0] * 3", ("client 0", "bool", "flatnonzero")),
        ("return 3", ("TypeError",)),
        ("return pool.labels", ("mine.py, line 13", "AttributeError", "labels")),
    ],
)
def test_what_is_no_dealing_is_refused_with_the_place(use, body, named):
    use(f"        {body}\n")
    with pytest.raises(FedgridError) as caught:
        dealt()
    assert [part for part in ("mine.py, line", *named) if part not in str(caught.value)] == []

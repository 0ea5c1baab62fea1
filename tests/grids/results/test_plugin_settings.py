"""Settings of a plugin's algorithm in what is read of its runs, where the plugin is not loaded."""

import pytest

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.axes import build_algorithm_names, find_further_axes, find_naming_keys
from fedgrid.grids.results.runs import describe_configs
from tests.helpers.plugin_files import LOCAL
from tests.helpers.small_grid import NOWHERE

PLUGIN = """
from fedgrid import AlgorithmEntry, FedOpt, FedOptSettings
from fedgrid.algorithms.contract.section import Section

class Inner(Section):
    depth: int = 2

class Settings(FedOptSettings):
    lam: float = 0.1
    inner: Inner = Inner()

class Ditto(FedOpt):
    settings: Settings

ALGORITHMS = [AlgorithmEntry(name="my-ditto", title="My Ditto", summary="a test", source="ours",
                             algorithm=Ditto, settings=Settings())]
"""
GRID = """
dataset: digits
split: nonoverlapping-balanced
clients: 4
seed: [0, 1]
algorithm: my-ditto
axes: {algorithm.lam: [0.01, 0.1, 1.0]}
"""


@pytest.fixture
def configs(tmp_path):
    """Runs of an axis of the plugin, which is not loaded any more."""
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "mine.yaml").write_text(GRID)
    active.use_plugins([tmp_path / "mine.py"])
    found = load_grid(str(tmp_path / "mine.yaml"), {}, [], NOWHERE).runs
    active.use_plugins()
    assert "my-ditto" not in ALGORITHMS
    return found


def test_an_axis_of_a_plugin_is_an_axis_of_the_report(configs, tmp_path):
    assert find_further_axes(configs) == find_naming_keys(configs) == ("algorithm.lam",)
    runs = describe_configs(configs, Storage(tmp_path))
    assert {dict(run.axes)["algorithm.lam"] for run in runs} == {"0.01", "0.1", "1"}
    assert {run.keys["algorithm.inner.depth"] for run in runs} == {"2"}
    assert len({(run.algorithm, run.axes) for run in runs}) == 3
    assert len({run.name for run in runs}) == 6


def test_without_every_combination_they_are_variants_of_the_algorithm(configs, tmp_path):
    """As in the report of a grid that lists each setting of an algorithm by hand."""
    runs = describe_configs([config for config in configs if config.seed == 0][:2], Storage(tmp_path))
    assert len({(run.algorithm, run.axes) for run in runs}) == 2


def test_plugin_of_a_value_is_no_version_of_the_algorithm(tmp_path):
    (tmp_path / "mine.py").write_text(LOCAL)
    active.use_plugins([tmp_path / "mine.py"])
    grid = {"algorithm": "fedavg", "axes": {"algorithm.local": [None, "own-local"]}}
    runs = load_grid(grid, {}, [], NOWHERE, name="own").runs
    active.use_plugins()
    assert build_algorithm_names(runs, find_further_axes(runs)) == ["fedavg", "fedavg (local own-local)"]

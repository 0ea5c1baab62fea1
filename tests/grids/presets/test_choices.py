"""Settings that are choices with settings of their own: set, varied, selected, named and told apart."""

import pytest

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.presets.axis_keys import format_axis_value, join_keys, list_axis_keys, read_axis_value
from fedgrid.grids.presets.key_docs import list_settings
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.axes import (
    build_algorithm_names,
    find_further_axes,
    find_naming_keys,
    format_run_name,
)
from tests.helpers.small_grid import NOWHERE

PLUGIN = """
from typing import Literal
from fedgrid import Aggregator, AlgorithmEntry, FedOpt, FedOptSettings

class Krum(Aggregator):
    name: Literal["nearest"] = "nearest"
    share: float = 0.2
    quota: float | None = None

    def combine(self, rows, shares=None, threads=1):
        return rows[0]

AGGREGATORS = [Krum]
ALGORITHMS = [AlgorithmEntry("own", "OWN", "averages", "ours", FedOpt,
                             FedOptSettings(aggregate=Krum(share=0.3, quota=0.6)))]
"""
MEAN, KRUM, KEEP = {"name": "fedavg"}, {"name": "nearest"}, {"name": "nearest", "quota": 0.8}
CLIP, NOISE = {"clip": 1.0}, {"noise": 0.5}


@pytest.fixture(autouse=True)
def plugin(tmp_path):
    (tmp_path / "robust.py").write_text(PLUGIN)
    active.use_plugins([tmp_path / "robust.py"])
    yield
    active.use_plugins()


def fedavg(aggregate):
    return {"name": "fedavg", "aggregate": aggregate}


def load(algorithm, *changes, axes=None, filters=(), **keys):
    grid = {"algorithm": algorithm, **({"axes": axes} if axes else {}), **keys}
    return load_grid(grid, {}, changes, NOWHERE, name="own", filters=filters)


def read_values(grid, key):
    return [read_axis_value(run, key) for run in grid.runs]


@pytest.mark.parametrize(
    ("algorithms", "axes", "names"),
    [
        (
            [fedavg(KRUM), fedavg(KEEP)],
            ("algorithm.aggregate.quota",),
            ["fedavg (aggregate nearest)", "fedavg (aggregate nearest (quota 0.8))"],
        ),
        (
            [MEAN, fedavg("median"), fedavg(KEEP)],
            ("algorithm.aggregate",),
            [
                "fedavg (aggregate mean)",
                "fedavg (aggregate median)",
                "fedavg (aggregate nearest (quota 0.8, share 0.2))",
            ],
        ),
        (
            [{**MEAN, "local": {"name": "fedprox", "mu": mu}} for mu in (0.1, 0.5)],
            ("algorithm.local.mu",),
            ["fedavg (local fedprox (mu 0.1))", "fedavg (local fedprox (mu 0.5))"],
        ),
        (
            [MEAN, {**MEAN, "local": {"name": "fedprox", "mu": 0.5}}],
            ("algorithm.local",),
            ["fedavg", "fedavg (local fedprox (mu 0.5))"],
        ),
        (
            [{"name": "ocfl-hdbscan", "clusterer": {"min_cluster_share": share}} for share in (0.3, 0.4)],
            ("algorithm.clusterer.min_cluster_share",),
            [f"ocfl-hdbscan (clusterer.min_cluster_share {share})" for share in (0.3, 0.4)],
        ),
        (
            [{"name": "own", "aggregate": {"quota": quota}} for quota in (0.1, 0.2)],
            ("algorithm.aggregate.quota",),
            ["own (aggregate.quota 0.1)", "own (aggregate.quota 0.2)"],
        ),
    ],
)
@pytest.mark.parametrize("is_loaded", [True, False])
def test_runs_that_differ_in_a_choice_or_its_settings_have_different_names(
    algorithms, axes, names, is_loaded
):
    runs = load(algorithms).runs
    if not is_loaded:
        active.use_plugins()
    assert find_further_axes(runs) == axes
    assert build_algorithm_names(runs, axes) == names
    assert len({format_run_name(run, find_naming_keys(runs)) for run in runs}) == len(runs)


def test_setting_that_another_choice_lacks_has_no_value_of_it():
    """The default of `own` keeps 0.6 of the clients, which says nothing about the mean."""
    own, mean = load([{"name": "own"}, {"name": "own", "aggregate": "mean"}]).runs
    assert format_axis_value(own, "algorithm.aggregate.quota") == "0.6"
    assert format_axis_value(mean, "algorithm.aggregate.quota") is None


@pytest.mark.parametrize(
    ("algorithm", "change", "key", "expected"),
    [
        (fedavg("nearest"), "algorithm.aggregate.quota=0.5", "algorithm.aggregate.quota", [0.5]),
        (fedavg(KEEP), "algorithm.aggregate.quota=0.5,0.6", "algorithm.aggregate.quota", [0.5, 0.6]),
        ("own", "algorithm.aggregate.quota=0.8", "algorithm.aggregate", [{**KEEP, "share": 0.3}]),
        ({**MEAN, "local": "fedprox"}, "algorithm.local.mu=0.5,0.6", "algorithm.local.mu", [0.5, 0.6]),
        ("ocfl-kmeans", "algorithm.clusterer.num_clusters=2", "algorithm.clusterer.num_clusters", [2]),
        (
            fedavg({"name": "krum", "before": "bucketing"}),
            "algorithm.aggregate.before.size=2,3",
            "algorithm.aggregate.before.size",
            [2, 3],
        ),
        ("fedavg", "uplink.clip=2.0", "uplink", [[{"clip": 2.0}]]),
        ("fedavg", "uplink.clip=2.0,3.0", "uplink.clip", [2.0, 3.0]),
        ("fedavg", "training.schedule.factor=0.5,0.6", "training.schedule.factor", [0.5, 0.6]),
    ],
)
def test_settings_of_a_choice_are_set_and_varied_on_the_command_line(algorithm, change, key, expected):
    more = {"training": {"schedule": {"kind": "step", "every": 5}}} if "schedule" in change else {}
    assert read_values(load(algorithm, change, **more), key) == expected


def test_step_of_the_uplink_is_replaced_or_put_into_its_place():
    grid = load("fedavg", "uplink.clip=2", "uplink.noise=0.5", uplink=[CLIP, {"topk": 0.1}])
    assert read_values(grid, "uplink") == [[{"clip": 2.0}, NOISE, {"topk": 0.1}]]
    assert read_values(load("fedavg", "uplink.clip=1", "uplink.noise=0.5,1"), "uplink.noise") == [0.5, 1.0]
    both = load("fedavg", axes={"uplink": [[CLIP, {"clip": 2.0}], [CLIP, {"clip": 3.0}]]})
    assert read_values(both, "uplink.clip") == [[1.0, 2.0], [1.0, 3.0]]
    assert find_further_axes(both.runs) == ("uplink.clip",)
    assert find_further_axes(load("fedavg", axes={"uplink": [[], [CLIP]]}).runs) == ("uplink",)


def test_whole_choice_is_an_axis():
    grid = load("fedavg", axes={"algorithm.aggregate": ["mean", {"name": "nearest", "quota": 0.5}]})
    assert read_values(grid, "algorithm.aggregate.quota") == [None, 0.5]
    assert grid.varied == ("algorithm.aggregate",)
    steps = [{"kind": "step", "every": 5, "factor": factor} for factor in (0.1, 0.5)]
    varied = load("fedavg", axes={"training.schedule": steps})
    assert join_keys(varied.varied, find_naming_keys(varied.runs)) == ("training.schedule.factor",)


@pytest.mark.parametrize("chosen", ["algorithm.aggregate=nearest", "algorithm.aggregate.name=nearest"])
def test_choice_comes_before_an_axis_that_is_one_of_its_settings(chosen):
    grid = load("fedavg", "algorithm.aggregate.quota=0.5,0.6", chosen, "algorithm.aggregate.share=0.1")
    assert read_values(grid, "algorithm.aggregate") == [
        {"name": "nearest", "share": 0.1, "quota": quota} for quota in (0.5, 0.6)
    ]


def test_override_changes_a_setting_of_a_choice_that_is_given_by_its_name():
    then = {"algorithm": {"aggregate": {"quota": 0.5}}}
    grid = load(fedavg("nearest"), overrides=[{"when": {"dataset": "digits"}, "then": then}])
    assert read_values(grid, "algorithm.aggregate.quota") == [0.5]


@pytest.mark.parametrize(
    ("algorithm", "change", "words"),
    [
        (fedavg("nearest"), "algorithm.aggregate.quta=0.5", ("quta", "aggregate", "quota", "share")),
        (fedavg("nearest"), "algorithm.aggregate.quta=0.5,0.6", ("'quta' in algorithm.aggregate", "'quota'")),
        (
            "fedavg",
            "algorithm.aggregate.quota=0.5",
            ("'quota'", "aggregate", "quota with aggregate.name=nearest"),
        ),
        ({**MEAN, "local": "fedprox"}, "algorithm.local.m=0.5", ("'m'", "local", "mu")),
        ("ocfl-hdbscan", "algorithm.clusterer.min_cluster_size=3", ("clusterer", "min_cluster_share")),
        ("fedavg", "uplink.clop=2", ("clop", "clip", "topk")),
    ],
)
def test_unknown_key_of_a_choice_is_refused_with_those_that_it_has(algorithm, change, words):
    with pytest.raises(ConfigError) as error:
        load(algorithm, change)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("selected", "kept"),
    [
        ("algorithm=fedavg", [None, 0.5, 0.8]),
        ("algorithm=fedavg (aggregate nearest (quota 0.8))", [0.8]),
    ],
)
def test_filter_selects_by_the_name_alone_or_with_its_settings(selected, kept):
    algorithms = ["fedavg", fedavg({"name": "nearest", "quota": 0.5}), fedavg(KEEP)]
    assert read_values(load(algorithms, filters=[selected]), "algorithm.aggregate.quota") == kept


def test_value_of_an_axis_with_settings_is_excluded_and_added_alone():
    axes = {"algorithm.aggregate": ["nearest", KEEP, {**KEEP, "share": 0.1}]}
    grid = load("fedavg", axes=axes, exclude=[{"algorithm.aggregate": KEEP}])
    assert read_values(grid, "algorithm.aggregate.share") == [0.2, 0.1]
    more = load("fedavg", "algorithm.aggregate+={name: nearest, quota: 0.4}", axes=axes)
    assert read_values(more, "algorithm.aggregate.quota") == [None, 0.8, 0.8, 0.4]
    dirichlet = [{"kind": "dirichlet", "alpha": alpha} for alpha in (0.1, 1.0)]
    split = load("fedavg", split=dirichlet, exclude=[{"split": dirichlet[0], "seed": 0}])
    assert read_values(split, "split.alpha") == [1.0]


def test_keys_and_names_that_can_be_chosen_are_listed():
    rows = {key: allowed for key, _, allowed, _ in list_settings(ALGORITHMS["fedavg"].settings)}
    assert "nearest (share, quota)" in rows["aggregate"]
    assert "fedprox (mu)" in rows["local"]
    assert rows["local"].endswith("null")
    assert {"algorithm.aggregate", "algorithm.aggregate.quota", "uplink.clip"} <= {*list_axis_keys()}
    active.use_plugins()
    assert "algorithm.aggregate.quota" not in list_axis_keys()


@pytest.mark.parametrize("uplink", ["no", [1.0]])
def test_step_of_what_is_no_list_of_steps_is_refused(uplink):
    with pytest.raises(ConfigError, match=r"uplink\.clip=2: uplink is .* and has no keys"):
        load("fedavg", "uplink.clip=2", uplink=uplink)

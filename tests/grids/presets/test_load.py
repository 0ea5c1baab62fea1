"""From a preset, a file and options to the runs of a grid."""

from pathlib import Path

import pytest
import yaml

from fedgrid.grids.presets.axis_keys import format_axis_value
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.nested_values import find_value

NOWHERE = Path("no-data-needed")


def grid(what=None, *changes, **options):
    return load_grid(what, options, changes, NOWHERE)


def test_overlap_majority_may_stand_in_a_list_with_other_overlaps(write):
    """Each has its own number of groups; options of one kind only are for an override."""
    path = write(
        "split: [nonoverlapping-balanced, majority]\nclients: 10\n"
        "overrides: [{when: {split: majority}, then: {split: {majority: 0.7}}}]"
    )
    assert [(run.split.kind, run.split.num_clusters, run.split.majority) for run in grid(path).runs] == [
        ("nonoverlapping-balanced", 3, 1.0),
        ("majority", 2, 0.7),
    ]


def test_options_alone_are_one_run():
    described = grid(dataset="mnist", clients=30, seed=3)
    assert described.name == "runs"
    assert [run.name for run in described.runs] == ["mnist-30-nonoverlapping-balanced-ocfl_hdbscan-s3"]


def test_lists_are_axes_and_the_last_varies_fastest(write):
    """Data set, split, clients, seed, algorithm: in this order, whatever the file's."""
    path = write(
        "algorithm: [fedavg, sattler]\nseed: [0, 1]\n"
        "split: nonoverlapping-imbalanced\ndataset: [mnist, digits]"
    )
    assert [run.name for run in grid(path).runs] == [
        f"{dataset}-15-nonoverlapping-imbalanced-{algorithm}-s{seed}"
        for dataset in ("mnist", "digits")
        for seed in (0, 1)
        for algorithm in ("fedavg", "sattler")
    ]


def test_options_replace_what_the_file_says(write):
    path = write("dataset: mnist\nseed: [0, 1]\nalgorithm: fedavg\ntraining: {rounds: 3}")
    [run] = grid(path, seed=[5], algorithm=["sattler"]).runs
    assert run.name == "mnist-15-nonoverlapping-balanced-sattler-s5"
    assert run.training.rounds == 3


def test_set_reaches_a_nested_key_and_leaves_its_neighbours(write):
    path = write("algorithm: ocfl-kmeans\ntraining: {rounds: 3, batch_size: 8}")
    [run] = grid(path, "training.rounds=5", "algorithm.clusterer.num_clusters=5").runs
    assert (run.training.rounds, run.training.batch_size) == (5, 8)
    assert run.algorithm.clusterer == {"name": "kmeans", "num_clusters": 5}


def test_set_reads_yaml_and_later_ones_win():
    assert [run.seed for run in grid(None, "seed=7", "seed=[1, 2]", seed=3).runs] == [1, 2]
    [run] = grid(None, "training.learning_rate=1e-3", "training.keep_optimizer_state=true").runs
    assert run.training.learning_rate == 1e-3
    assert run.training.keep_optimizer_state


@pytest.mark.parametrize("given", ["0.1,0.5,1.0", "0.1, 0.5, 1.0", "[0.1, 0.5, 1.0]"])
def test_several_values_of_set_are_an_axis(given):
    """Three alphas, each with five seeds, as on the page about running."""
    made = load_grid(
        None,
        {"dataset": "digits", "algorithm": ["fedavg"]},
        ["split=dirichlet", f"split.alpha={given}"],
        NOWHERE,
        seeds="0..4",
    )
    runs = [(run.split.kind, run.split.alpha, run.seed) for run in made.runs]
    assert runs == [("dirichlet", alpha, seed) for alpha in (0.1, 0.5, 1.0) for seed in range(5)]
    assert made.varied == ("split.alpha",)


def test_several_values_of_set_take_the_place_of_what_a_file_says(write):
    """Its value, its axis, and an earlier override; runs are those of a file with this axis."""
    axis = grid(write("axes: {training.rounds: [3, 4]}", "axis.yaml")).runs
    for text in ("training: {rounds: 9}", "axes: {training.rounds: [5, 6, 7]}"):
        assert grid(write(text), "training.rounds=8", "training.rounds=3,4").runs == axis
    assert [run.training.rounds for run in grid(None, "training.rounds=3,4", "training.rounds=8").runs] == [8]


@pytest.mark.parametrize(
    ("change", "axis", "values"),
    [
        ("seed=0..2,5", "seed", [0, 1, 2, 5]),
        ("clients=6,9", "clients", [6, 9]),
        ("split.kind=iid,dirichlet", "split", ["iid", "dirichlet"]),
        ("algorithm.name=fedavg,ifca", "algorithm", ["fedavg", "ifca"]),
        ("algorithm={name: fedprox, mu: 0.1},fedavg", "algorithm", ["fedprox", "fedavg"]),
        ("split.sizes=[5, 10]", "split.sizes", [(5, 10)]),
        ("split.sizes=[5, 10],[8, 7]", "split.sizes", [(5, 10), (8, 7)]),
        ("faults.label_flip=[3, 8]", "faults.label_flip", [(3, 8)]),
        ("training.augment=[crop, flip]", "training.augment", [("crop", "flip")]),
        ("uplink=[{clip: 1.0}],[]", "uplink", ["clip 1", "[]"]),
        ("joins={1: 2, 2: 3}", "joins", [{1: 2, 2: 3}]),
    ],
)
def test_lists_of_keys_that_are_lists_are_single_values(change, axis, values):
    def value(run):
        if axis in ("algorithm", "uplink"):
            return format_axis_value(run, axis)
        return run.split.kind if axis == "split" else find_value(run, axis.split("."))[0]

    assert [value(run) for run in grid(None, change, dataset="cifar10").runs] == values


def test_another_axis_of_set_asks_for_other_runs(write):
    """As another override of one value does: `runs --superseded` then lists what is no longer asked for."""
    path = write("split: dirichlet")
    first, second, plain = (
        grid(path, *changes).requested.digest
        for changes in (["split.alpha=0.1,0.5"], ["split.alpha=0.1,1.0"], [])
    )
    assert len({first, second, plain}) == 3
    assert grid(path, "split.alpha=0.1,0.5").requested.digest == first


def test_set_changes_the_settings_of_every_algorithm(write):
    path = write("algorithm: [ocfl-kmeans, {name: ocfl-meanshift, noise: residual}]")
    kmeans, meanshift = (run.algorithm for run in grid(path, "algorithm.window=2").runs)
    assert (kmeans.name, kmeans.window, kmeans.noise) == ("ocfl-kmeans", 2, "nearest")
    assert (meanshift.name, meanshift.window, meanshift.noise) == ("ocfl-meanshift", 2, "residual")
    for text, name in (
        ("seed: 1", "ocfl-hdbscan"),
        ("algorithm: {name: ocfl-kmeans, window: 5}", "ocfl-kmeans"),
    ):
        [run] = grid(write(text), "algorithm.window=2").runs
        assert (run.algorithm.name, run.algorithm.window) == (name, 2)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mnist-30-overlapping-imbalanced", ("mnist", "overlapping-imbalanced", 30)),
        ("digits-15-label-skew", ("digits", "label-skew", 15)),
    ],
)
def test_scenario_is_run_by_the_name_that_is_printed(name, parts, tmp_path):
    [run] = load_grid(name, {"algorithm": "fedavg"}, [], tmp_path).runs
    assert run.name == f"{name}-fedavg-s0"
    assert (run.dataset, run.split.kind, run.clients) == parts


def test_a_grid_is_named_after_its_file_and_keeps_its_text(write):
    text = "# why\nseed: [0, 1]\n"
    kept = grid(write(text, "my-search.yaml"))
    assert (kept.name, kept.text) == ("my-search", text)
    assert grid("quickstart").text.startswith("# The OCFL paper's seven algorithms on scikit-learn's digits")


def test_options_without_a_preset_are_kept_as_yaml():
    assert yaml.safe_load(grid(dataset="mnist", seed=3).text) == {"dataset": "mnist", "seed": 3}
    assert yaml.safe_load(grid("mnist-15-overlapping-balanced", algorithm="fedavg").text) == {
        "dataset": "mnist",
        "split": "overlapping-balanced",
        "clients": 15,
        "algorithm": "fedavg",
    }


def newcomers(*args, **options):
    return [(run.participation, run.dropout, run.joins) for run in grid(*args, **options).runs]


def test_participation_dropout_and_joins_hold_for_all_runs_and_set_changes_them(write):
    path = write("algorithm: [fedavg, sattler]\nparticipation: 0.5\ndropout: 0.1\njoins: {14: 5, 3: 2}")
    assert newcomers(path) == [(0.5, 0.1, {14: 5, 3: 2})] * 2
    changed = newcomers(path, "participation=0.25", "joins.14=6", "joins.13=4")
    assert changed == [(0.25, 0.1, {14: 6, 13: 4, 3: 2})] * 2
    assert newcomers(None, "joins.14=5", "dropout=0.2") == [(1.0, 0.2, {14: 5})]

"""From a preset, a file and options to the runs of a grid."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.axis_keys import value_text
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.nested import value_at

NOWHERE = Path("no-data-needed")


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write_file


def grid(what=None, *changes, **options):
    return load_grid(what, options, changes, NOWHERE)


def names(*args, **options):
    return [run.algorithm.name for run in grid(*args, **options).runs]


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


def test_an_invalid_split_is_refused_with_its_line(write):
    path = write("clients: 10\nsplit:\n  kind: majority\n  test_share: 0.2\n  num_clusters: 3")
    with pytest.raises(ConfigError, match=r"mine.yaml, line 5: split.num_clusters = 3: .* has 2 hidden"):
        grid(path)
    path = write("split: {kind: [nonoverlapping-balanced, majority], majority: 0.7}\nclients: 10")
    with pytest.raises(ConfigError, match="line 1: split.majority = 0.7 .* only with: majority"):
        grid(path)


def test_images_that_cannot_be_turned_are_refused_with_the_line_of_the_groups(write, tmp_path):
    """Before any image is read: the size is known from the file's header."""
    arrays = {f"{part}_images": np.zeros((2, 5, 4), np.uint8) for part in ("train", "test")}
    arrays |= {f"{part}_labels": np.array([0, 1]) for part in ("train", "test")}
    np.savez(tmp_path / "wide.npz", **arrays)
    path = write(f"dataset: npz:{tmp_path / 'wide.npz'}\nsplit: {{kind: rotated, num_clusters: 4}}")
    with pytest.raises(ConfigError, match="line 2: split.num_clusters = 4: .* these are 1x5x4"):
        grid(path)


def test_options_alone_are_one_run():
    described = grid(dataset="mnist", clients=30, seed=3)
    assert described.name == "runs"
    assert [run.name for run in described.runs] == ["mnist-30-nonoverlapping-balanced-ocfl_hdbscan-s3"]


def test_a_file_is_named_after_itself(write):
    assert grid(write("dataset: mnist", "my-search.yaml")).name == "my-search"


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
    path = write("training: {rounds: 3, batch_size: 8}")
    [run] = grid(path, "training.rounds=5", "split.test_share=0.2").runs
    assert (run.training.rounds, run.training.batch_size, run.split.test_share) == (5, 8, 0.2)


def test_set_reads_yaml_and_later_ones_win():
    assert [run.seed for run in grid(None, "seed=7", "seed=[1, 2]").runs] == [1, 2]
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
            return value_text(run, axis)
        return run.split.kind if axis == "split" else value_at(run, axis.split("."))[0]

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


def test_set_is_applied_after_options():
    assert [run.seed for run in grid(None, "seed=2", seed=1).runs] == [2]


@pytest.mark.parametrize("algorithm", ["ocfl-kmeans", "{name: ocfl-kmeans, window: 5}", "[ocfl-kmeans]"])
def test_set_changes_the_settings_of_an_algorithm(write, algorithm):
    [run] = grid(write(f"algorithm: {algorithm}"), "algorithm.window=2").runs
    assert run.algorithm.name == "ocfl-kmeans"
    assert run.algorithm.window == 2


def test_set_changes_the_settings_of_every_algorithm(write):
    path = write("algorithm: [ocfl-kmeans, {name: ocfl-meanshift, noise: residual}]")
    kmeans, meanshift = (run.algorithm for run in grid(path, "algorithm.window=2").runs)
    assert (kmeans.name, kmeans.window, kmeans.noise) == ("ocfl-kmeans", 2, "nearest")
    assert (meanshift.name, meanshift.window, meanshift.noise) == ("ocfl-meanshift", 2, "residual")


def test_set_changes_the_settings_of_the_default_algorithm():
    [run] = grid(None, "algorithm.window=2").runs
    assert (run.algorithm.name, run.algorithm.window) == ("ocfl-hdbscan", 2)


def test_set_reaches_into_a_clusterer():
    [run] = grid(None, "algorithm.clusterer.num_clusters=5", algorithm="ocfl-kmeans").runs
    assert run.algorithm.clusterer == {"name": "kmeans", "num_clusters": 5}


def test_set_of_a_setting_that_one_of_the_algorithms_lacks_is_refused():
    refused(
        "algorithm fedavg: unknown key 'window'",
        None,
        "algorithm.window=2",
        algorithm=["ocfl-kmeans", "fedavg"],
    )


def test_the_same_run_twice_is_refused():
    refused("the same run twice: digits-15-nonoverlapping-balanced-fedavg-s0", algorithm=["fedavg", "fedavg"])
    refused("check the lists for repeats", seed=[0, 1, 0])
    refused("the same run twice", algorithm=["ocfl-kmeans", {"name": "ocfl-kmeans", "window": 1}])


def test_an_algorithm_with_two_settings_is_two_runs():
    choices = ["ocfl-kmeans", {"name": "ocfl-kmeans", "window": 3}]
    assert names(algorithm=choices) == ["ocfl-kmeans", "ocfl-kmeans"]


def test_an_empty_axis_is_refused():
    """The grid would have no runs, and finish at once."""
    refused("seed = []: expected at least one", seed=[])


def test_an_unknown_preset_names_the_nearest():
    refused("unknown preset 'quikstart'; did you mean 'quickstart'? known: quickstart", "quikstart")


def test_a_missing_file_names_the_presets(tmp_path):
    refused(f"no file {tmp_path / 'gone.yaml'}; presets: quickstart", str(tmp_path / "gone.yaml"))


def test_a_file_that_is_not_yaml_is_named(write):
    refused("mine.yaml is not YAML: ", write("seed: [0, 1\nclients: 3"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("- fedavg\n- sattler", "not a list"),
        ("fedavg", "not one"),
        ("3", "not one"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(write, text, says):
    refused(f"mine.yaml: expected keys such as dataset: and algorithm:, {says}", write(text))


def test_a_file_that_is_no_utf8_text_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"dataset: \xff")
    refused("mine.yaml is not YAML: ", str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.rounds", "training.rounds: expected KEY=VALUE, as in training.rounds=5"),
        ("=5", "=5: expected KEY=VALUE"),
        ("seed.first=5", "seed.first=5: seed is 0 and has no keys"),
        ("seed=[0", "seed=[0 is not YAML: "),
        ("training.round=5", "unknown key 'round' in training; did you mean 'rounds'?"),
        ("training.rounds=many", "training.rounds = 'many': input should be a valid integer"),
        ("training=5", "training = 5: expected"),
        ("training.round=5,6", "unknown key 'round' in training; did you mean 'rounds'?"),
        ("training=5,6", "axis 'training' is a section; name one of its keys, as in training.rounds"),
        ("training.rounds=5,", "training.rounds=5,: nothing stands on one side of a comma"),
        ("training.rounds=5,,6", "training.rounds=5,,6: nothing stands on one side of a comma"),
        ("training.rounds=5,5", "the same run twice: "),
        ("training.rounds=[]", "training.rounds = []: expected at least one"),
        ("rounds=5", "unknown key 'rounds'; "),
        ("algorithm.clusterer=kmeans", "ocfl-hdbscan clusters with 'hdbscan', not 'kmeans'"),
    ],
)
def test_an_invalid_set_is_refused(change, message):
    refused(message, None, change)


def test_an_unknown_key_names_the_closest_key(write):
    refused("unknown key 'cleints'; did you mean 'clients'?", write("cleints: 30"))


def refused(message, *args, **options):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        grid(*args, **options)
    assert "\n" not in str(error.value)


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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mnist-15-overlaping-balanced",
            "unknown split 'overlaping-balanced'; did you mean 'overlapping-balanced'",
        ),
        ("mnits-15-overlapping-balanced", "unknown dataset 'mnits'; did you mean 'mnist'"),
        ("mnist-overlapping-balanced-of-15", "expected DATASET-CLIENTS-SPLIT, as in mnist-15-"),
    ],
)
def test_wrong_part_of_a_scenarios_name_is_named(name, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        load_grid(name, {}, [], tmp_path)


def test_a_grid_keeps_the_text_of_its_preset(write):
    text = "# why\nseed: [0, 1]\n"
    assert grid(write(text)).text == text
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


def test_an_override_sets_joins_for_some_runs(write):
    then = "overrides:\n  - when: {clients: 30}\n    then: {joins: {20: 5}}"
    path = write(f"algorithm: fedavg\nclients: [15, 30]\n{then}")
    assert [joins for _, _, joins in newcomers(path)] == [{}, {20: 5}]


def test_an_invalid_join_is_refused_with_its_line(write):
    path = write("base: quickstart\nseed: 1\njoins:\n  15: 5")
    refused("mine.yaml, line 3: joins: client 15 does not exist, the last one is 14", path)


def test_a_name_that_is_no_preset_may_be_a_file_without_its_ending_or_a_data_set(write):
    file = write("dataset: digits")
    refused(f"did you mean the file {file}?", file.removesuffix(".yaml"))
    refused("'mnist' is a data set, no preset: fedgrid run --dataset mnist", "mnist")
    refused("is a data set", "folder:/tmp")

"""Keys of a preset's YAML: seeds, filter, overrides, base."""

from pathlib import Path

import pytest

from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")


def runs(what, *changes, **how):
    return load_grid(what, how.pop("options", {}), changes, NOWHERE, **how).runs


TWO_DATASETS = "dataset: [mnist, cifar10]\nalgorithm: [fedavg, {name: sattler, cooldown: 5}]\n"
"""Two lines, four runs."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("seeds: 0..4", [0, 1, 2, 3, 4]),
        ("seeds: [0, 2, 5]", [0, 2, 5]),
        ("seeds: 3", [3]),
        ("seeds: 0,2,5", [0, 2, 5]),
        ("seeds: [0..2, 7]", [0, 1, 2, 7]),
        ("seed: 2..3", [2, 3]),
    ],
)
def test_seeds_are_a_range_or_a_list(write, given, expected):
    assert [run.seed for run in runs(write(given))] == expected


def test_a_filter_keeps_the_runs_with_these_values(write):
    path = write(TWO_DATASETS + "clients: [15, 30]\nfilter: {datasets: mnist, algorithm: [sattler]}")
    assert [run.name for run in runs(path)] == [
        "mnist-15-nonoverlapping-balanced-sattler-s0",
        "mnist-30-nonoverlapping-balanced-sattler-s0",
    ]


def test_an_override_changes_the_runs_where_all_of_its_axes_hold(write):
    path = write(
        TWO_DATASETS
        + "training: {batch_size: 8}\n"
        + "overrides:\n"
        + "  - when: {dataset: cifar10, algorithm: [sattler]}\n"
        + "    then: {training: {rounds: 9}, algorithm: {epsilon_1: 185}}\n"
    )
    rounds = {(run.dataset, run.algorithm.name): run.training.rounds for run in runs(path)}
    assert rounds == {
        ("mnist", "fedavg"): 50,
        ("mnist", "sattler"): 50,
        ("cifar10", "fedavg"): 80,
        ("cifar10", "sattler"): 9,
    }
    assert {run.training.batch_size for run in runs(path)} == {8}
    sattler = runs(path)[-1].algorithm
    assert (sattler.epsilon_1, sattler.cooldown) == (185, 5)


def test_overrides_reach_any_depth(write):
    path = write(
        "algorithm: ocfl-kmeans\n"
        "overrides:\n"
        "  - {when: {clients: 15}, then: {algorithm: {clusterer: {num_clusters: 4}}, model: tinyvgg}}"
    )
    [run] = runs(path)
    assert run.algorithm.clusterer == {"name": "kmeans", "num_clusters": 4}
    assert run.model == "tinyvgg"


def test_of_several_overrides_the_last_wins_and_wins_over_the_axis_too(write):
    """The list says cooldown 5, the overrides 6 and then 7; epsilon_1 stays the first override's."""
    path = write(
        "algorithm: {name: sattler, cooldown: 5}\n"
        "overrides:\n"
        "  - {when: {algorithm: sattler}, then: {algorithm: {cooldown: 6, epsilon_1: 0.2}}}\n"
        "  - {when: {dataset: digits}, then: {algorithm: {cooldown: 7}}}\n"
    )
    [run] = runs(path)
    assert (run.algorithm.cooldown, run.algorithm.epsilon_1) == (7, 0.2)
    [run] = runs(path, "algorithm.cooldown=8")
    assert run.algorithm.cooldown == 8


def test_an_override_may_select_seeds(write):
    path = write("seeds: 0..3\noverrides: [{when: {seeds: 1..2}, then: {training: {rounds: 1}}}]")
    assert [run.training.rounds for run in runs(path)] == [15, 1, 1, 15]


def test_an_override_whose_value_an_option_removed_is_no_error(write):
    path = write(TWO_DATASETS + "overrides: [{when: {dataset: cifar10}, then: {training: {rounds: 9}}}]")
    assert {run.training.rounds for run in runs(path, options={"dataset": "mnist"})} == {50}


def test_keys_replace_those_of_the_base_and_overrides_are_appended(write):
    write(
        "dataset: [mnist, fmnist]\nseeds: 0..1\ntraining: {rounds: 3}\n"
        "overrides: [{when: {dataset: fmnist}, then: {training: {rounds: 4, batch_size: 16}}}]\n",
        "first.yaml",
    )
    path = write(
        "base: first.yaml\nseed: 7\noverrides: [{when: {dataset: fmnist}, then: {training: {rounds: 5}}}]"
    )
    assert [(run.dataset, run.seed, run.training.rounds) for run in runs(path)] == [
        ("mnist", 7, 3),
        ("fmnist", 7, 5),
    ]
    assert runs(path)[-1].training.batch_size == 16


def test_a_base_is_looked_for_beside_the_file_and_may_be_a_preset(write, tmp_path):
    (tmp_path / "deeper").mkdir()
    write("base: quickstart\nseed: 3", "deeper/second.yaml")
    write("base: second.yaml\nalgorithm: fedavg", "deeper/third.yaml")
    [run] = runs("deeper/third.yaml")
    assert (run.name, run.training.rounds) == ("digits-15-nonoverlapping-balanced-fedavg-s3", 15)

"""Any key of a run is an axis of a grid: values, filters, extensions, overrides."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.training.settings import Schedule
from fedgrid.engine.federation.uplink.steps import Clip, Noise
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.presets.axis_keys import (
    AXES,
    SPLIT_KIND,
    find_variant_settings,
    format_axis_value,
    format_variant,
    list_axis_keys,
)
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.nested_values import find_value
from fedgrid.grids.results.axes import find_naming_keys, format_run_name
from fedgrid.tracking.scoring.selection import format_value

NOWHERE = Path("no-data-needed")
EPOCHS = "axes: {training.local_epochs: [1, 5]}\n"
THREE = """
algorithm:
  - {name: briggs, threshold: 0.3}
  - {name: briggs, threshold: 0.4}
  - {name: briggs, threshold: 0.4, round: 6}
  - fedavg
training: {rounds: 15}
"""


def grid(what, *changes, **how):
    return load_grid(what, {}, changes, NOWHERE, **how)


def epochs(what, *changes, **how):
    return [run.training.local_epochs for run in grid(what, *changes, **how).runs]


def test_settings_in_which_runs_of_one_name_differ_make_up_their_names(write):
    three = grid(write(THREE))
    settings = find_variant_settings(three.runs)
    assert settings == ("algorithm.round", "algorithm.threshold")
    assert three.varied == settings, "the progress and MLflow name them"
    assert [format_variant(run, settings) for run in three.runs] == [
        "round 21, threshold 0.3",
        "round 21, threshold 0.4",
        "round 6, threshold 0.4",
        "",
    ]
    names = [format_run_name(run, find_naming_keys(three.runs)) for run in three.runs]
    assert len(set(names)) == 4
    assert names[2].endswith("-briggs-s0 (round 6, threshold 0.4)")
    assert names[3].endswith("-fedavg-s0")


def test_splits_of_one_kind_are_told_apart_by_the_settings_in_which_they_differ(write):
    several = "split: [{kind: dirichlet, alpha: 0.2}, {kind: dirichlet, alpha: 0.5}, rotated]\n"
    splits = grid(write(f"algorithm: fedavg\n{several}"))
    assert splits.varied == ("split.alpha",), "the progress and MLflow name it"
    names = [format_run_name(run, splits.varied) for run in splits.runs]
    assert len(set(names)) == 3
    assert names[1].endswith("-dirichlet-fedavg-s0 (split.alpha 0.5)")
    assert find_variant_settings(splits.runs) == (), "the algorithm has no variants"


def test_runs_that_differ_in_split_clients_or_seed_alone_are_no_variants(write):
    text = "algorithm: [fedavg, sattler]\nseeds: 0..2\nclients: [15, 30]\n"
    scenarios = grid(write(f"{text}split: [{{kind: dirichlet, alpha: 0.2}}, rotated]\n"))
    assert (find_variant_settings(scenarios.runs), scenarios.varied) == ((), ())


def test_every_key_of_a_run_can_be_an_axis():
    """Those of a section too, without another edit."""
    keys = {*list_axis_keys()}
    assert {*AXES, "model", "joins", "algorithm.cooldown", "algorithm.clusterer.num_clusters"} <= keys
    assert not {"training", "evaluation", "split.kind"} & keys
    for section in ("training", "split", "evaluation"):
        model = RunConfig.model_fields[section].annotation
        assert {f"{section}.{name}" for name in model.model_fields} - {SPLIT_KIND} <= keys


def test_set_notes_which_values_of_an_axis_it_takes_the_place_of(write):
    path = write("axes: {training.local_epochs: [1, 5]}\n")
    several = grid(path, "training.local_epochs=[2, 3]", "training.rounds=4")
    assert ([run.training.local_epochs for run in several.runs], several.notes) == ([2, 3], ())
    (note,) = grid(path, "training.local_epochs=2").notes
    assert "training.local_epochs=2" in note
    assert "2 values of training.local_epochs: 1, 5" in note


def test_every_combination_of_all_axes_is_run_and_seed_and_algorithm_vary_fastest(write):
    path = write(
        "split: majority\nclients: 10\nalgorithm: [fedavg, sattler]\nseeds: 0..1\n"
        "axes:\n  split.majority: [0.5, 1.0]\n  training.local_epochs: [1, 5]\n"
    )
    found = [
        (run.split.majority, run.training.local_epochs, run.seed, run.algorithm.name)
        for run in grid(path).runs
    ]
    assert found == [
        (majority, epochs, seed, algorithm)
        for majority in (0.5, 1.0)
        for epochs in (1, 5)
        for seed in (0, 1)
        for algorithm in ("fedavg", "sattler")
    ]
    assert grid(path).varied == ("training.local_epochs", "split.majority")


def test_runs_have_the_ids_of_the_same_configurations_without_axes(write):
    path = write(EPOCHS + "algorithm: fedavg")
    alone = [
        complete_config({"algorithm": "fedavg", "training": {"local_epochs": number}}, NOWHERE).run_id
        for number in (1, 5)
    ]
    assert [run.run_id for run in grid(path).runs] == alone


@pytest.mark.parametrize(
    ("preset", "name", "run_id"),
    [
        ("paper-digits", "digits-15-nonoverlapping-balanced-fedavg-s0", "c6d2ac3341b5"),
        ("paper-digits", "digits-30-overlapping-imbalanced-ocfl_hdbscan-s4", "a823f2fd7f91"),
        ("quickstart", "digits-15-nonoverlapping-balanced-sattler-s0", "070a5edf14ce"),
        ("quickstart", "digits-15-nonoverlapping-balanced-ocfl_kmeans-s0", "7f3e0e51339f"),
    ],
)
def test_runs_of_the_presets_keep_their_ids(preset, name, run_id):
    assert {run.name: run.run_id for run in load_grid(preset, {}, [], NOWHERE).runs}[name] == run_id


def test_the_six_axes_may_stand_under_axes_too(write):
    path = write(
        "axes:\n  dataset: [mnist, digits]\n  seeds: 0..2\n  algorithm: [fedavg, {name: briggs, round: 3}]"
    )
    assert len(grid(path).runs) == 2 * 3 * 2
    top = write(
        "dataset: [mnist, digits]\nseeds: 0..2\nalgorithm: [fedavg, {name: briggs, round: 3}]", "top.yaml"
    )
    assert [run.run_id for run in grid(top).runs] == [run.run_id for run in grid(path).runs]


def test_a_key_whose_value_is_a_list_or_a_mapping_can_be_an_axis(write):
    path = write(
        "algorithm: fedavg\nsplit: majority\nclients: 10\n"
        "axes: {split.first_group: [[0, 1], [0, 8]], joins: [{}, {9: 2}]}"
    )
    assert [(run.split.first_group, run.joins) for run in grid(path).runs] == [
        ((0, 1), {}),
        ((0, 1), {9: 2}),
        ((0, 8), {}),
        ((0, 8), {9: 2}),
    ]


@pytest.mark.parametrize(
    ("axis", "said", "expected"),
    [
        ("split.majority: [0.5, 0.7, 1.0]", "split.majority=5e-1", {0.5}),
        ("split.majority: [0.5, 0.7, 1.0]", "split.majority=1,split.majority=0.70", {0.7, 1.0}),
        ("split.draws: [null, 20]", "split.draws=null", {None}),
        ("training.keep_optimizer_state: [true, false]", "training.keep_optimizer_state=true", {True}),
    ],
)
def test_a_filter_compares_values_not_their_spelling(write, axis, said, expected):
    path = write(f"split: majority\nclients: 10\nalgorithm: fedavg\naxes: {{{axis}}}")
    key = axis.partition(":")[0].split(".")
    assert {find_value(run, key)[0] for run in grid(path, filters=[said]).runs} == expected


def test_extend_adds_values_to_an_axis(write):
    path = write(EPOCHS)
    assert epochs(path, "training.local_epochs+=20,30") == [1, 5, 20, 30]
    before = [run.run_id for run in grid(path).runs]
    assert [run.run_id for run in grid(path, "training.local_epochs+=20").runs][:2] == before


def test_an_override_applies_where_an_axis_has_a_value(write):
    path = write(
        EPOCHS + "overrides:\n  - when: {training.local_epochs: 5}\n    then: {training: {rounds: 3}}"
    )
    assert [(run.training.local_epochs, run.training.rounds) for run in grid(path).runs] == [(1, 15), (5, 3)]


def test_an_axis_wins_over_overrides_and_settings_of_its_base(write):
    write(
        "algorithm: {name: sattler, cooldown: 7}\ntraining: {local_epochs: 2}\n"
        "overrides: [{when: {dataset: digits}, then: {training: {local_epochs: 9}}}]",
        "first.yaml",
    )
    path = write("base: first.yaml\naxes: {training.local_epochs: [1, 5], algorithm.cooldown: [3, 4]}")
    assert [(run.training.local_epochs, run.algorithm.cooldown) for run in grid(path).runs] == [
        (1, 3),
        (1, 4),
        (5, 3),
        (5, 4),
    ]


def test_a_file_replaces_an_axis_of_its_base_by_values_or_by_one_value(write):
    write(EPOCHS + "training: {rounds: 4}", "first.yaml")
    assert epochs(write("base: first.yaml\naxes: {training.local_epochs: [2, 3]}")) == [2, 3]
    assert epochs(write("base: first.yaml\ntraining: {local_epochs: 7}")) == [7]
    assert epochs(write("base: first.yaml\ntraining: {rounds: 5}")) == [1, 5]


def test_values_that_do_not_go_together_may_be_left_out_by_a_filter(write):
    """Momentum is of SGD only."""
    path = write(
        "axes: {training.optimizer: [adam, sgd], training.momentum: [0.0, 0.9]}\n"
        "filter: {training.optimizer: sgd}"
    )
    assert [run.training.momentum for run in grid(path).runs] == [0.0, 0.9]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1.0", "1"),
        (0.1, "0.1"),
        ("1e-3", "0.001"),
        (True, "true"),
        (None, "null"),
        ("adam", "adam"),
        ((0, 1), "[0, 1]"),
        ({9: 2}, '{"9": 2}'),
        ({"name": "fedprox", "mu": 0.5}, "fedprox (mu 0.5)"),
        ({"name": "fedprox"}, "fedprox"),
        ({"name": "krum", "kind": "fast", "keep": None}, "krum (kind fast)"),
        (Schedule(kind="cosine", rounds=10), "cosine (rounds 10)"),
        ([{"clip": 1.0}, {"noise": 0.50}], "clip 1, noise 0.5"),
        ((Clip(clip=1.0), Noise(noise=0.5)), "clip 1, noise 0.5"),
    ],
)
def test_equal_values_have_the_same_text(value, text):
    assert format_value(value) == text


def test_the_value_of_a_run_is_there_also_where_the_configuration_leaves_out_a_default():
    run = complete_config({"algorithm": "ocfl-kmeans"}, NOWHERE)
    assert "majority" not in run.model_dump()["split"]
    assert format_axis_value(run, "split.majority") == "1"
    assert format_axis_value(run, "algorithm") == "ocfl-kmeans"
    assert format_axis_value(run, "algorithm.clusterer.num_clusters") is not None
    assert format_axis_value(run, "algorithm.cooldown") is None
    assert all("\n" not in str(format_axis_value(run, key)) for key in list_axis_keys())

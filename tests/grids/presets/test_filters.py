"""What narrows or widens a grid: --where, --seeds and AXIS+=VALUE."""

from pathlib import Path

import pytest

from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")


def narrowed(what="paper", changes=(), **how):
    return load_grid(what, {}, changes, NOWHERE, **how).runs


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["dataset=mnist,clients=15"], 28),
        (["datasets=mnist,datasets=fmnist,algorithm=sattler"], 16),
        (["split=overlapping-imbalanced,seed=0"], 70),
        (["dataset=mnist,dataset=fmnist", "dataset=fmnist,dataset=cifar10"], 56),
    ],
)
def test_a_filter_keeps_the_runs_with_any_of_its_values_on_each_axis(filters, count):
    """Of one axis any of the values, of several axes and several filters all."""
    assert len(narrowed(filters=filters)) == count


def test_a_filter_changes_no_ids_and_no_overrides():
    [run] = narrowed(filters=["dataset=pathmnist,clients=30,algorithm=sattler", "split=overlapping-balanced"])
    assert run.training.learning_rate == 1e-7
    assert run.run_id in {run.run_id for run in narrowed()}


def test_a_filter_may_name_an_axis_that_is_no_list():
    assert (
        len(narrowed("quickstart", filters=["dataset=digits,clients=15,split=nonoverlapping-balanced"])) == 7
    )


def test_a_split_that_names_no_kind_is_filtered_by_the_default(write):
    path = write("algorithm: fedavg\nsplit: [rotated, {draws: 40}]\n")
    [run] = narrowed(path, filters=["split=nonoverlapping-balanced"])
    assert run.split.draws == 40


@pytest.mark.parametrize(
    ("given", "expected"),
    [("0..4", [0, 1, 2, 3, 4]), ("3", [3]), ("0,2,5", [0, 2, 5]), ("0..1,9", [0, 1, 9])],
)
def test_option_seeds_replaces_the_seeds_of_the_preset(given, expected):
    assert sorted({run.seed for run in narrowed("quickstart", seeds=given)}) == expected


def test_a_filter_selects_among_the_seeds_of_option_seeds():
    assert len(narrowed("quickstart", seeds="0..4", filters=["seed=3..4"])) == 14


def test_an_extension_adds_runs_and_changes_none():
    before = narrowed("quickstart")
    after = narrowed("quickstart", changes=["algorithms+=briggs-as-published,sattler-as-published"])
    assert after[:7] == before
    assert [run.algorithm.name for run in after[7:]] == ["briggs-as-published", "sattler-as-published"]
    assert len(narrowed("quickstart", changes=["seeds+=5..9", "clients+=30"])) == 7 * 6 * 2


def test_overrides_apply_to_runs_that_an_extension_adds():
    new = [
        run for run in narrowed(changes=["algorithm+=sattler-as-published"]) if "as-pub" in run.algorithm.name
    ]
    assert len(new) == 40
    assert {(run.split.kind.rpartition("-")[2], run.split.proportions) for run in new} == {
        ("balanced", "drawn"),
        ("imbalanced", "published"),
    }


def test_a_file_excludes_combinations_of_values(write):
    """Of twelve: two of 30 rotated clients, and both of 15 clients with seed 2."""
    axes = "clients: [15, 30]\nsplit: [overlapping-balanced, rotated]\nseeds: 0..2\nalgorithm: fedavg\n"
    excluded = "exclude: [{clients: 30, split: rotated, seed: [0, 1]}, {clients: 15, seed: 2}]"
    held = {(run.clients, run.split.kind, run.seed) for run in narrowed(write(axes + excluded))}
    assert len(held) == 12 - 2 - 2
    assert (30, "rotated", 2) in held
    assert not held & {
        (30, "rotated", 0),
        (30, "rotated", 1),
        (15, "rotated", 2),
        (15, "overlapping-balanced", 2),
    }

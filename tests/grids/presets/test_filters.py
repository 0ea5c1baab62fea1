"""What narrows or widens a grid: --where, --seeds and AXIS+=VALUE."""

import re
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")


def narrowed(what="paper", changes=(), **how):
    return load_grid(what, {}, changes, NOWHERE, **how).runs


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["dataset=mnist,clients=15"], 28),
        (["dataset=mnist", "clients=15"], 28),
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


def test_a_split_that_names_no_kind_is_filtered_by_the_default(tmp_path):
    (tmp_path / "mine.yaml").write_text("algorithm: fedavg\nsplit: [rotated, {draws: 40}]\n")
    [run] = narrowed(str(tmp_path / "mine.yaml"), filters=["split=nonoverlapping-balanced"])
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


@pytest.mark.parametrize("values", ["clients+=45", "datasets+=cifar10,mnist", "splits+=overlapping-balanced"])
def test_any_axis_can_be_extended(values):
    assert len(narrowed("quickstart", changes=[values])) == 7 * (2 + values.count(","))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"filters": ["datset=mnist"]},
            "--where datset=mnist: unknown axis 'datset'; did you mean 'dataset'? known: dataset, split",
        ),
        (
            {"filters": ["dataset=mnits"]},
            "no dataset 'mnits' in this grid; did you mean 'mnist'? it has: mnist, fmnist, cifar10, ",
        ),
        ({"filters": ["clients=20"]}, "no clients '20' in this grid; it has: 15, 30"),
        ({"filters": ["mnist"]}, "--where mnist: expected COLUMN=VALUE"),
        ({"filters": ["clients>15"]}, "'>' selects finished runs only"),
        ({"filters": [""]}, "expected COLUMN=VALUE"),
        (
            {"filters": ["dataset=mnist", "dataset=fmnist"]},
            "no run is left: dataset should be fmnist, but only mnist is there",
        ),
        ({"seeds": "4..0"}, "--seeds: seeds = '4..0': a range ascends"),
        ({"seeds": "a"}, "--seeds: seeds = 'a': expected 0..4 (both included), 3 or 0,2,5"),
        ({"seeds": "-1"}, "--seeds: seeds = '-1': expected 0..4"),
        ({"seeds": "0,0"}, "the same run twice: "),
        ({"changes": ["algorithms+="]}, "expected AXIS+=VALUES"),
        ({"changes": ["rounds+=5"]}, "rounds+=5: unknown axis 'rounds'; "),
        ({"changes": ["algorithms+=fedavg"]}, "the grid already has algorithm fedavg; leave it out"),
        ({"changes": ["seeds+=0..1"]}, "the grid already has seed 0"),
        (
            {"changes": ["algorithms+=louvian"]},
            "unknown algorithm 'louvian'; did you mean 'louvain'? known: fedavg, ",
        ),
        ({"changes": ["clients+=x"]}, "clients = 'x': input should be a valid integer"),
    ],
)
def test_an_invalid_filter_seeds_or_extension_is_refused(how, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        narrowed(**how)
    assert "\n" not in str(error.value)


def of_file(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"clients: [15, 30]\nsplit: [overlapping-balanced, rotated]\nseeds: 0..2\nalgorithm: fedavg\n{text}"
    )
    return load_grid(str(path), {}, [], NOWHERE).runs


def test_a_file_excludes_combinations_of_values(tmp_path):
    """Of twelve: two of 30 rotated clients, and both of 15 clients with seed 2."""
    runs = of_file(tmp_path, "exclude: [{clients: 30, split: rotated, seed: [0, 1]}, {clients: 15, seed: 2}]")
    held = {(run.clients, run.split.kind, run.seed) for run in runs}
    assert len(held) == 12 - 2 - 2
    assert (30, "rotated", 2) in held
    assert not held & {
        (30, "rotated", 0),
        (30, "rotated", 1),
        (15, "rotated", 2),
        (15, "overlapping-balanced", 2),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exclude: [{clients: [15, 30]}]", "no run is left: the file's `exclude`"),
        ("exclude: {clients: 30}", "exclude = .*expected a list"),
        ("exclude: [{clients: 45}]", "no clients '45' in this grid; .*it has: 15, 30"),
        ("exclude: [{}]", "exclude has an entry without an axis; allowed: .*clients"),
    ],
)
def test_an_exclusion_that_cannot_be_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        of_file(tmp_path, text)

"""Variants of an algorithm: what tells them apart is in every name."""

from pathlib import Path

from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.variants import variant_of, variant_settings
from fedgrid.grids.results.axes import name_of, naming_keys

THREE = """
algorithm:
  - {name: briggs, threshold: 0.3}
  - {name: briggs, threshold: 0.4}
  - {name: briggs, threshold: 0.4, round: 6}
  - fedavg
training: {rounds: 15}
"""


def grid_of(text, folder):
    (folder / "mine.yaml").write_text(text)
    return load_grid(str(folder / "mine.yaml"), {}, [], Path("unused"))


def test_settings_in_which_runs_of_one_name_differ_make_up_their_names(tmp_path):
    grid = grid_of(THREE, tmp_path)
    settings = variant_settings(grid.runs)
    assert settings == ("algorithm.round", "algorithm.threshold")
    assert grid.varied == settings, "the progress and MLflow name them"
    assert [variant_of(run, settings) for run in grid.runs] == [
        "round 21, threshold 0.3",
        "round 21, threshold 0.4",
        "round 6, threshold 0.4",
        "",
    ]
    names = [name_of(run, naming_keys(grid.runs)) for run in grid.runs]
    assert len(set(names)) == 4
    assert names[2].endswith("-briggs-s0 (round 6, threshold 0.4)")
    assert names[3].endswith("-fedavg-s0")


def test_runs_that_differ_in_scenario_or_seed_alone_are_no_variants(tmp_path):
    grid = grid_of("algorithm: [fedavg, sattler]\nseeds: 0..2\nclients: [15, 30]\n", tmp_path)
    assert variant_settings(grid.runs) == ()
    assert grid.varied == ()


def test_splits_of_one_kind_are_told_apart_by_the_settings_in_which_they_differ(tmp_path):
    several = "split: [{kind: dirichlet, alpha: 0.2}, {kind: dirichlet, alpha: 0.5}, rotated]\n"
    grid = grid_of(f"algorithm: fedavg\n{several}", tmp_path)
    assert grid.varied == ("split.alpha",), "the progress and MLflow name it"
    names = [name_of(run, grid.varied) for run in grid.runs]
    assert len(set(names)) == 3
    assert names[1].endswith("-dirichlet-fedavg-s0 (split.alpha 0.5)")
    assert variant_settings(grid.runs) == (), "the algorithm has no variants"


def test_settings_of_splits_of_different_kinds_are_not_in_names(tmp_path):
    grid = grid_of("algorithm: fedavg\nsplit: [{kind: dirichlet, alpha: 0.2}, rotated]\n", tmp_path)
    assert grid.varied == ()

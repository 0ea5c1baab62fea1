"""Runs that differ in their seed alone are copies, as good as if each were checked."""

import pytest
from pydantic import ValidationError

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.grids.presets.seeds import other_seeds, read_runs
from tests.helpers.run_folders import config

SETTINGS = {"joins": {1: 2}, "dropout": 0.5, "uplink": [{"clip": 1.0}], "training": {"rounds": 3}}


def lines_of(runs):
    return "".join(f"{run.canonical_json()}\n" for run in runs).encode()


def one_by_one(lines):
    return [RunConfig.model_validate_json(line) for line in lines.splitlines()]


@pytest.fixture
def checked(monkeypatch):
    """Return the lines that were checked."""
    lines, check = [], RunConfig.model_validate_json
    monkeypatch.setattr(RunConfig, "model_validate_json", lambda line: (lines.append(line), check(line))[1])
    return lines


def test_copies_are_the_runs_that_are_checked_one_by_one(checked):
    runs = [config(seed=seed, **kind) for seed in (0, 7, 10**12) for kind in ({}, SETTINGS)]
    lines = lines_of(runs)
    read = read_runs(lines)
    assert len(checked) == 2
    assert list(read) == one_by_one(lines)
    assert [run.run_id for run in read] == [run.run_id for run in one_by_one(lines)]
    assert [run.shared_prefix for run in read] == [run.shared_prefix for run in runs]
    assert lines_of(read) == lines


def test_a_copy_of_a_copy_has_the_id_of_its_own_seed():
    third = other_seeds(other_seeds(config(seed=1))(2))(3)
    assert (third.seed, third.run_id) == (3, config(seed=3).run_id)
    assert RunConfig(**third.model_dump()).run_id == third.run_id


def test_a_line_that_this_version_would_write_otherwise_is_no_pattern(checked):
    """`dropout` is not written where it is the default: the id is not that of the text."""
    lines = lines_of([config(seed=0), config(seed=1)]).replace(b'"evaluation"', b'"dropout":0.0,"evaluation"')
    assert [run.run_id for run in read_runs(lines)] == [config(seed=seed).run_id for seed in (0, 1)]
    assert len(checked) == 2


def test_an_algorithm_may_have_a_setting_called_seed(checked):
    runs = [
        (run := config(seed=seed)).model_copy(update={"algorithm": {**run.algorithm, "seed": 3}})
        for seed in (0, 1)
    ]
    assert [run.seed for run in read_runs(lines_of(runs))] == [0, 1]
    assert len(checked) == 2
    assert other_seeds(runs[0]) is None


def test_a_line_without_a_seed_is_refused():
    with pytest.raises(ValidationError, match="seed"):
        read_runs(lines_of([config(seed=0)]).replace(b'"seed":0,', b""))


@pytest.mark.parametrize("seed", ["-1", "1.5", "true", '"1"', "null"])
def test_a_seed_that_is_none_is_refused_after_one_that_is(seed):
    lines = lines_of([config(seed=0), config(seed=1)]).replace(b'"seed":1', f'"seed":{seed}'.encode())
    with pytest.raises(ValidationError, match="seed"):
        read_runs(lines)

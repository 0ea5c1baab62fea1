"""`fedgrid init`: a study to start from. That it runs as it is written: tests/e2e/test_day.py."""

import json
import re

import jsonschema
import pytest
import yaml

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.search.definition import load_search
from tests.helpers.command_line import fedgrid as command

NAME = "my-study"


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("init", NAME).code == 0
    monkeypatch.chdir(tmp_path / NAME)
    return tmp_path / NAME


def test_every_file_of_a_new_study_is_read_and_agrees_with_its_schema(study):
    grid = load_grid(f"{NAME}.yaml", {}, [], study)
    assert (grid.name, len(grid.runs)) == (NAME, 6)
    search = load_search(f"{NAME}-search.yaml", {}, [], study, own={})
    assert (search.trials, search.algorithm) == (4, "one-cut")
    schema = json.loads((study / "fedgrid.schema.json").read_text())
    for file in (f"{NAME}.yaml", f"{NAME}-search.yaml"):
        text = (study / file).read_text()
        assert text.startswith("# yaml-language-server: $schema=fedgrid.schema.json\n")
        jsonschema.validate(yaml.safe_load(text), schema)
    assert not [path.name for path in study.iterdir() if re.search("STUDY|PLUGIN", path.read_text())]
    assert isinstance(grid.runs[0], RunConfig)


@pytest.mark.parametrize("name", ["paper", "my study", "-x", "."])
def test_a_name_that_no_grid_can_have_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    result = command("init", "--", name)
    assert result.code == 2
    assert not list(tmp_path.iterdir())


def test_a_folder_with_files_is_left_alone(study):
    before = sorted(study.iterdir())
    result = command("init", study)
    assert (result.code, "is not empty" in result.err) == (2, True)
    assert sorted(study.iterdir()) == before

"""The files of a grid that travel with a job."""

import re

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.submit.grid_files import stage, stage_listed, stage_options
from fedgrid.grids.submit.images import Shipment


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def test_named_files_travel_also_two_of_one_name(tmp_path, job):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(folder)
    named = ["--plugin", f"{tmp_path}/a/mine.py", f"--plugin={tmp_path}/b/mine.py"]
    preset, option, first, second, *others = stage_options(["paper", *named, "--seeds", "3"], job)
    assert (preset, option, others) == ("paper", "--plugin", ["--seeds", "3"])
    assert (job / first).read_text() == "a"
    assert (job / second.removeprefix("--plugin=")).read_text() == "b"


def test_missing_file_is_named(job):
    with pytest.raises(ConfigError, match=r"nowhere\.py"):
        list(stage_options(["paper", "--plugin", "nowhere.py"], job))


def test_files_beside_a_grid_travel_with_it(tmp_path, job):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text("mine")
    (tmp_path / "grid.yaml").write_text("plugins: [own/mine.py]\n")
    stage_listed(tmp_path / "grid.yaml", job)
    assert (job / "own" / "mine.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["../mine.py", "/somewhere/mine.py", "~/mine.py", "$HOME/mine.py"])
def test_files_elsewhere_are_refused_with_what_to_do(tmp_path, job, name):
    (tmp_path / "grid.yaml").write_text(f"plugins: [{name}]\n")
    with pytest.raises(ConfigError, match=rf"grid\.yaml.*{re.escape(name)}.*--plugin"):
        stage_listed(tmp_path / "grid.yaml", job)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return a folder with a grid on a base in another folder, which is based on a preset."""
    folder = tmp_path / "mine"
    (folder / "grids").mkdir(parents=True)
    (folder / "common").mkdir()
    (folder / "grids" / "small").write_text("base: ../common/base.yaml\nclients: 6\n")
    (folder / "common" / "base.yaml").write_text("base: quickstart\ntraining: {rounds: 2}\n")
    monkeypatch.chdir(folder)
    return folder


def test_file_without_suffix_travels_with_its_bases(mine, tmp_path, monkeypatch):
    job = tmp_path / "job"
    there = stage("grids/small", job, Shipment(job))
    here = load_grid("grids/small", {}, [], tmp_path)
    monkeypatch.chdir(job)
    assert there == "grid/grids/small"
    assert (job / "grid" / "common" / "base.yaml").exists()
    assert load_grid(there, {}, [], tmp_path).runs == here.runs


def test_plugin_of_a_base_travels_too(mine, tmp_path):
    (mine / "common" / "base.yaml").write_text("plugins: [own.py]\n")
    (mine / "common" / "own.py").write_text("ALGORITHMS = []\n")
    stage("grids/small", tmp_path / "job", Shipment(tmp_path / "job"))
    assert (tmp_path / "job" / "grid" / "common" / "own.py").exists()


@pytest.mark.parametrize("base", ["~/x.yaml", "$HOME/x.yaml", "$PART/base.yaml"])
def test_base_that_holds_on_this_machine_alone_is_refused(mine, tmp_path, monkeypatch, base):
    """Home and variables are other ones where the job runs."""
    monkeypatch.setenv("PART", "../common")
    (mine / "grids" / "own.yaml").write_text(f"base: {base}\n")
    with pytest.raises(ConfigError, match=rf"own\.yaml: base = {re.escape(base)}: .*copy it"):
        stage("grids/own.yaml", tmp_path / "job", Shipment(tmp_path))


def test_base_that_is_the_file_itself_ends(mine, tmp_path):
    (mine / "loop.yaml").write_text("base: loop.yaml\n")
    assert stage("loop.yaml", tmp_path / "job", Shipment(tmp_path)) == "grid/loop.yaml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("base: {folder}/common/base.yaml", "a path relative to the grid's file"),
        ("base: gone.yaml", "no file gone.yaml"),
    ],
)
def test_file_by_a_path_that_holds_only_here_is_refused(mine, tmp_path, text, says):
    (mine / "wrong.yaml").write_text(text.format(folder=mine))
    with pytest.raises(ConfigError, match=says):
        stage("wrong.yaml", tmp_path / "job", Shipment(tmp_path))

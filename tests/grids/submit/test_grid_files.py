"""Which files travel with a job, and how its command line names them."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.submit.grid_files import prepare_arguments


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return the current folder: a grid, and in another folder its base, which has a plugin."""
    folder = tmp_path / "mine"
    (folder / "grids").mkdir(parents=True)
    (folder / "common").mkdir()
    (folder / "grids" / "small").write_text("base: ../common/base.yaml\nclients: 6\n")
    (folder / "common" / "base.yaml").write_text("base: quickstart\nplugins: [own.py]\n")
    (folder / "common" / "own.py").write_text("ALGORITHMS = []\n")
    (tmp_path / "elsewhere.yaml").write_text("base: quickstart\n")
    (tmp_path / "elsewhere.py").write_text("ALGORITHMS = []\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("grid", ["grids/small", "./grids/../grids/small", "{mine}/grids/small"])
@pytest.mark.parametrize("plugin", ["--plugin {}", "--plugin={}"])
def test_files_below_the_current_folder_have_their_path_from_it(mine, grid, plugin):
    given = [grid.format(mine=mine), *plugin.format(mine / "common" / "own.py").split(), "--seeds", "3"]
    there = ["grids/small", *plugin.format("common/own.py").split(), "--seeds", "3"]
    assert list(prepare_arguments(given)) == there


def test_preset_stays_as_it_is(mine):
    assert list(prepare_arguments(["paper", "--seeds", "3"])) == ["paper", "--seeds", "3"]


@pytest.mark.parametrize(
    ("arguments", "text", "says"),
    [
        ("../elsewhere.yaml", "", r"elsewhere\.yaml.*mine"),
        ("paper --plugin ../elsewhere.py", "", r"--plugin \.\./elsewhere\.py.*mine"),
        ("paper --plugin=nowhere.py", "", r"no plugin nowhere\.py"),
        ("nowhere.yaml", "", r"no file nowhere\.yaml"),
        ("grid.yaml", "base: {mine}/common/base.yaml", r"base = .*/common/base\.yaml.*relative.*mine"),
        ("grid.yaml", "base: ~/x.yaml", r"base = ~/x\.yaml.*relative.*mine"),
        ("grid.yaml", "base: $HOME/x.yaml", r"base = \$HOME/x\.yaml.*relative.*mine"),
        ("grid.yaml", "base: ../elsewhere.yaml", r"\.\./elsewhere\.yaml.*mine"),
        ("grid.yaml", "base: gone.yaml", "no file gone.yaml"),
        ("grid.yaml", "plugins: [~/own.py]", r"plugins = ~/own\.py.*relative.*mine"),
        ("grid.yaml", "plugins: [../elsewhere.py]", r"\.\./elsewhere\.py.*mine"),
        ("grid.yaml", "plugins: [gone.py]", "no plugin gone.py"),
    ],
)
def test_file_that_is_missing_or_does_not_travel_is_refused(mine, arguments, text, says):
    (mine / "grid.yaml").write_text(text.format(mine=mine))
    with pytest.raises(ConfigError, match=says):
        list(prepare_arguments(arguments.split()))


def test_base_that_is_the_file_itself_ends(mine):
    """Reading the grid refuses it."""
    (mine / "loop.yaml").write_text("base: loop.yaml\n")
    assert list(prepare_arguments(["loop.yaml"])) == ["loop.yaml"]

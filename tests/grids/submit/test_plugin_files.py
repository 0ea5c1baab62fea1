"""The plugins that travel with a job."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.submit.plugin_files import stage_listed, stage_options


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


@pytest.mark.parametrize("name", ["../mine.py", "/somewhere/mine.py"])
def test_files_elsewhere_are_refused_with_what_to_do(tmp_path, job, name):
    (tmp_path / "grid.yaml").write_text(f"plugins: [{name}]\n")
    with pytest.raises(ConfigError, match=rf"grid\.yaml.*{name}.*--plugin"):
        stage_listed(tmp_path / "grid.yaml", job)

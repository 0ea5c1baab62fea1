"""The tags of runs in MLflow: the commit that they are made with, and their axes."""

import subprocess

import pytest

from fedgrid.grids import commit as commits
from fedgrid.grids.trackers import names
from tests.helpers.small_grid import config


def git(*arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Pretend that the code lies in a folder of its own, outside of any repository."""
    for name in ("FEDGRID_COMMIT", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "tags.py"
    code.write_text("one\n")
    monkeypatch.setattr(commits, "__file__", str(code))
    return code


def test_commit_says_whether_files_differ_from_it(code):
    git("init")
    git("add", code.name)
    git("commit", "--message", "one")
    head = git("rev-parse", "HEAD")
    assert commits.read_commit() == head
    code.write_text("two\n")
    assert commits.read_commit() == f"{head}-dirty"


def test_commit_of_code_that_travelled_without_git_is_as_given(code, monkeypatch):
    monkeypatch.setenv("FEDGRID_COMMIT", "abc-dirty")
    assert commits.read_commit() == "abc-dirty"


def test_wheel_in_the_repository_of_something_else_has_no_commit(code):
    git("init")
    git("commit", "--allow-empty", "--message", "a study whose .venv holds fedgrid")
    assert commits.read_commit() == "unknown"


def test_commit_outside_of_git_is_unknown(code):
    assert commits.read_commit() == "unknown"


def test_settings_that_tell_variants_apart_are_one_tag_too():
    """fedavg has neither setting, so it is no variant."""
    keys = ("training.local_epochs", "algorithm.round", "algorithm.threshold")
    briggs = config(seed=1, algorithm={"name": "briggs", "round": 6, "threshold": 0.4})
    assert names.build_tags(briggs, "mine", keys)["variant"] == "round 6, threshold 0.4"
    assert "variant" not in names.build_tags(config(seed=1), "mine", keys)

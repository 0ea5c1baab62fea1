"""Places as users write them: expanded, or refused with what to write, before the work."""

import re
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import check_output, expand_path, find_cache_folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("NOPE", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("~/runs", "/home/me/runs"),
        ("$HOME/runs", "/home/me/runs"),
        ("${HOME}/runs", "/home/me/runs"),
        ("runs/~", "runs/~"),
        ("./runs", "runs"),
        ("price$", "price$"),
    ],
)
def test_home_and_variables_are_expanded(given, path):
    assert expand_path(given, "--to") == Path(path)


def test_a_file_whose_name_has_a_dollar_is_that_file():
    Path("$HOME").touch()
    assert expand_path("$HOME", "--to") == Path("$HOME")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "--to is empty"),
        (" ", "--to is empty"),
        ("$NOPE/runs", "--to $NOPE/runs: the variable NOPE is not set"),
        ("s3://bucket", "--to s3://bucket: expected a path on this machine"),
    ],
)
def test_what_is_no_place_is_refused(given, says):
    with pytest.raises(ConfigError, match=f"^{re.escape(says)}"):
        expand_path(given, "--to")


def test_the_cache_is_where_the_variable_says(monkeypatch):
    monkeypatch.setenv("FEDGRID_CACHE", "$HOME/cache")
    assert find_cache_folder() == Path("/home/me/cache")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s3//bucket/runs", "did you mean s3://bucket/runs?"),
        ("s3:/bucket/runs", "did you mean s3://bucket/runs?"),
        ("gs:bucket", "did you mean gs://bucket?"),
        ("GS:bucket", "did you mean GS://bucket?"),
        ("sqlite:///runs.db", "MLFLOW_TRACKING_URI takes the address of a database"),
        ("postgresql+psycopg2://host/runs", "MLFLOW_TRACKING_URI takes the address of a database"),
        ("", "--storage is empty"),
    ],
)
def test_a_storage_that_would_be_a_folder_by_mistake_is_refused(text, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        Storage.from_text(text)


def test_the_scheme_of_a_storage_may_have_large_letters():
    assert Storage.from_text("S3://Bucket/runs") == Storage.from_text("s3://Bucket/runs")


def test_outputs_are_checked_without_a_write(tmp_path):
    Path("file").touch()
    Path("folder").mkdir()
    for path in ("new.csv", "new/new.csv", "file"):
        check_output(Path(path), "--csv")
    for path in ("new", "new/new", "folder"):
        check_output(Path(path), "--to", is_folder=True)
    for path, is_folder, says in (
        ("folder", False, "--to folder is a folder; name a file"),
        ("file", True, "--to file is a file; name a folder"),
        ("file/new/new.csv", False, f"--to file/new/new.csv: {tmp_path}/file is a file"),
    ):
        with pytest.raises(ConfigError, match=re.escape(says)):
            check_output(Path(path), "--to", is_folder=is_folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]

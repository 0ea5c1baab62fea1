"""Whoever can write to a bucket may name its files at will: none of them is written outside of the mirror."""

import fsspec
import pytest

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.logged_runs import config_of

NAMES = (
    "../../evil/config.json",
    "digits/../../../evil.json",
    "digits/a/../../../../x.json",
    "/etc/x.json",
    "a\0b",
)


@pytest.fixture
def storage(tmp_path, monkeypatch):
    """Return a storage whose bucket is in memory, with a harmless file."""
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    storage = Storage.of(f"memory://{tmp_path.name}/runs")
    put(storage, "digits/config.json")
    return storage


def put(storage, name):
    bucket = fsspec.filesystem("memory")
    bucket.store[f"/{storage.uri.removeprefix('memory://')}/{name}"] = bucket_file(b"{}")


def bucket_file(content):
    from fsspec.implementations.memory import MemoryFile

    return MemoryFile(data=content)


def written(tmp_path):
    return sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "read", [Storage.pull_marks, lambda storage: storage.pull("digits")], ids=["all", "one"]
)
def test_name_that_leads_out_of_the_mirror_is_refused(storage, tmp_path, name, read):
    put(storage, name)
    if read is not Storage.pull_marks and not name.startswith("digits"):
        read(storage)  # It is not in that folder.
    else:
        with pytest.raises(RunError, match="which fedgrid did not write; delete it there"):
            read(storage)
    inside = storage.root.relative_to(tmp_path).as_posix()
    assert all(path.startswith(f"{inside}/") for path in written(tmp_path))


def test_other_names_are_mirrored(storage):
    put(storage, "digits/..scores.json")
    storage.pull("digits")
    assert sorted(path.name for path in (storage.root / "digits").iterdir()) == [
        "..scores.json",
        "config.json",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "../../x"},
        {"split": Split(kind="../x")},
        {"algorithm": {"name": "/../../../x"}},
        {"dataset": "a\0b"},
    ],
)
def test_run_of_a_foreign_list_has_no_folder_outside_of_the_storage(tmp_path, change):
    hostile = config_of(0).model_copy(update=change)
    with pytest.raises(ConfigError, match="expected no /"):
        folder_of(tmp_path, hostile)


def test_a_name_that_is_too_long_for_a_folder_is_refused(tmp_path):
    long = config_of(0).model_copy(update={"dataset": f"csv:{'s' * 240}.csv@{'0' * 12}"})
    with pytest.raises(ConfigError, match="a name of 2.. bytes, and 255 are the most; rename the file"):
        folder_of(tmp_path, long)
